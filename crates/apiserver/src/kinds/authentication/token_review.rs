//! TokenReview: asks whom a token belongs to.

use crate::kinds::declaration::{Kind, Post};

/// Asks whom a token belongs to.
pub(crate) static TOKEN_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::cluster_scoped("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
};
