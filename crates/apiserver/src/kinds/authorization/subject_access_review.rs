//! SubjectAccessReview: asks whether somebody may do something.

use crate::kinds::declaration::{Kind, Post};

/// Asks whether somebody may do something.
pub(crate) static SUBJECT_ACCESS_REVIEW: Kind = Kind {
    verbs: &["create"],
    post: Post::Review,
    ..Kind::cluster_scoped("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")
};
