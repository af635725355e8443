//! TokenReview: asks to whom a token belongs.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks to whom a token belongs.
pub(crate) static TOKEN_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
};
