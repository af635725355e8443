//! Questions about rights: the kinds of `authorization.k8s.io`, one file each. Nothing of them is stored.

pub(crate) mod local_subject_access_review;
pub(crate) mod self_subject_access_review;
pub(crate) mod self_subject_rules_review;
pub(crate) mod subject_access_review;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[
    &local_subject_access_review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &self_subject_access_review::SELF_SUBJECT_ACCESS_REVIEW,
    &self_subject_rules_review::SELF_SUBJECT_RULES_REVIEW,
    &subject_access_review::SUBJECT_ACCESS_REVIEW,
];
