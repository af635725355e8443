//! Reviews that answer questions about identity: the kinds of `authentication.k8s.io`, one file each. None of them is
//! stored.

pub(crate) mod self_subject_review;
pub(crate) mod token_review;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] =
    &[&self_subject_review::SELF_SUBJECT_REVIEW, &token_review::TOKEN_REVIEW];
