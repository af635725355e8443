//! SelfSubjectRulesReview: asks what the asker may do.

use crate::kinds::declaration::{Kind, Post};

/// Asks what the asker may do.
pub(crate) static SELF_SUBJECT_RULES_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::cluster_scoped("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
};
