//! Reviews that answer questions about permissions: the kinds of `authorization.k8s.io`, one file each. None of them is
//! stored.

pub mod local_subject_access_review;
pub(crate) mod self_subject_access_review;
pub(crate) mod self_subject_rules_review;
pub(crate) mod subject_access_review;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &local_subject_access_review::LOCAL_SUBJECT_ACCESS_REVIEW,
    &self_subject_access_review::SELF_SUBJECT_ACCESS_REVIEW,
    &self_subject_rules_review::SELF_SUBJECT_RULES_REVIEW,
    &subject_access_review::SUBJECT_ACCESS_REVIEW,
];
