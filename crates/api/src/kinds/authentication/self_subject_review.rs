//! SelfSubjectReview: asks who the caller is.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks who the caller is.
pub(crate) static SELF_SUBJECT_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview")
};
