//! SelfSubjectAccessReview: asks whether the caller may do something.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks whether the caller may do something.
pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    )
};
