//! SelfSubjectRulesReview: asks what the caller may do.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Asks what the caller may do.
pub(crate) static SELF_SUBJECT_RULES_REVIEW: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::Review,
    ..BuiltInKind::cluster_scoped(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    )
};
