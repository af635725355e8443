//! SelfSubjectAccessReview: asks whether the asker may do something.

use crate::kinds::declaration::{Kind, Post};

/// Asks whether the asker may do something.
pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::cluster_scoped(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    )
};
