//! Questions about identity: the kinds of `authentication.k8s.io`, one file each. Nothing of them is stored.

pub(crate) mod self_subject_review;
pub(crate) mod token_review;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&self_subject_review::SELF_SUBJECT_REVIEW, &token_review::TOKEN_REVIEW];
