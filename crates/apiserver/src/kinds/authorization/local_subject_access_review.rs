//! LocalSubjectAccessReview: asks what somebody may do in one namespace.

use crate::kinds::declaration::{Kind, Post};

/// Asks what somebody may do in one namespace.
pub(crate) static LOCAL_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::namespaced("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview")
};
