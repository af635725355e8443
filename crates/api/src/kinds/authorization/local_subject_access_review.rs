//! LocalSubjectAccessReview: asks what a user may do in one namespace.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks what a user may do in one namespace.
pub static LOCAL_SUBJECT_ACCESS_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::namespaced(
        "authorization.k8s.io",
        "v1",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
    )
};
