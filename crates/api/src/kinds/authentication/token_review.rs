//! TokenReview: asks who a token belongs to.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks who a token belongs to.
pub(crate) static TOKEN_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
};
