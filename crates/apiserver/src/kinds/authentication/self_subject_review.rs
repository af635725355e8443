//! SelfSubjectReview: asks who the asker is.

use crate::kinds::declaration::{Kind, Post};

/// Asks who the asker is.
pub(crate) static SELF_SUBJECT_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::cluster_scoped("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview")
};
