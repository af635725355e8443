//! SubjectAccessReview: asks whether a user may do something.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks whether a user may do something.
pub(crate) static SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")
};
