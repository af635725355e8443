//! Parses the options of a watch: where it starts, which events it starts with, and how long it is kept open.
//!
//! The valid combinations of options, and the wording of the refusals, are the same as in Kubernetes.

use std::time::Duration;

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::status::Status;
use homeostat_core::Revision;
use serde_json::json;

use super::AuthorizedRequest;

/// The minimum time that a watch without a timeout is kept open; the maximum is twice that. Kubernetes spreads
/// reconnects in this way.
const UNLIMITED_S_MIN: u64 = 1800;
/// The maximum timeout of a watch: ten years, which is practically forever and can be added to any instant.
const TIMEOUT_S_MAX: u64 = 10 * 365 * 24 * 3600;

/// Where a watch starts.
pub(super) struct WatchStart {
    /// After this revision; `None` means after the snapshot of the initial events, or now.
    pub(super) from: Option<Revision>,
    pub(super) sends_initial: bool,
    pub(super) marks_end: bool,
    /// The initial events show a state that is at least this recent.
    pub(super) at_least: Revision,
}

impl WatchStart {
    /// Parses the options of a request, or refuses options that do not go together.
    pub(super) fn parse(call: &AuthorizedRequest) -> Result<Self, Status> {
        let query = &call.query;
        let (revision, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
        let initial = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        // A watch without a version starts with the current state, which counts as a match in Kubernetes.
        let is_matched = !matching.is_empty() || (initial.is_none() && matches!(revision, "" | "0"));
        check_options(initial, matching, is_matched && !query.get("continue").is_empty())?;
        let revision = match revision {
            "" => Revision::ZERO,
            text => super::get::parse_revision(text).map_err(Status::unclassified)?,
        };
        let is_unset = revision == Revision::ZERO;
        let now = Self { from: None, sends_initial: false, marks_end: false, at_least: Revision::ZERO };
        Ok(match initial {
            Some(true) => Self { sends_initial: true, marks_end: true, at_least: revision, ..now },
            None if is_unset => Self { sends_initial: true, ..now },
            Some(false) if is_unset => now,
            _ => Self { from: Some(revision), ..now },
        })
    }
}

fn check_options(initial: Option<bool>, matching: &str, continues: bool) -> Result<(), Status> {
    let root = FieldPath::Root;
    let path = root.field("resourceVersionMatch");
    let mut errors = Errors::new();
    match initial {
        Some(_) if matching != "NotOlderThan" => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, detail));
        }
        None if !matching.is_empty() => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(Error::forbidden(&path, detail));
        }
        _ => {}
    }
    if !matching.is_empty() && matching != "NotOlderThan" {
        errors.push(Error::not_supported(&path, &json!(matching), &["NotOlderThan"]));
    }
    if continues {
        errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

/// Returns how long the watch is kept open.
pub(super) fn watch_timeout(call: &AuthorizedRequest) -> Result<Duration, Status> {
    // A watch has no pages, but a value that is not a number is still a mistake.
    call.query.number("limit")?;
    let Some(seconds) = call.query.number("timeoutSeconds")?.filter(|seconds| *seconds != 0) else {
        return Ok(Duration::from_secs(UNLIMITED_S_MIN + call.backend.entropy.below(UNLIMITED_S_MIN)));
    };
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default().min(TIMEOUT_S_MAX)))
}
