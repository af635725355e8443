//! Workloads that end: the kinds of `batch`, one file each.

pub(crate) mod cron_job;
pub(crate) mod job;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[&cron_job::CRON_JOB, &job::JOB];
