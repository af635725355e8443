//! Parses the options common to all writes: dry run, field manager, field validation.

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::negotiate::PatchType;
use homeostat_api::status::Status;
use serde_json::json;

use super::AuthorizedRequest;

/// The maximum length of a field manager's name in Kubernetes.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The treatment of unknown fields and duplicate keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

/// The options of one write.
#[derive(Debug)]
pub(super) struct WriteOptions {
    pub(super) is_dry_run: bool,
    pub(super) manager: String,
    pub(super) strictness: Strictness,
    pub(super) force: bool,
}

impl WriteOptions {
    /// Parses and checks the options; `kind` names the options object in a refusal.
    pub(super) fn parse(call: &AuthorizedRequest, kind: &str) -> Result<Self, Status> {
        Self::checked(call, kind, Errors::new())
    }

    /// Parses and checks the options of a patch: an apply must name its field manager, and only an apply can be
    /// forced.
    pub(super) fn parse_patch(call: &AuthorizedRequest, kind: PatchType) -> Result<Self, Status> {
        let root = FieldPath::Root;
        let mut errors = Errors::new();
        let is_apply = kind == PatchType::Apply;
        if is_apply && call.query.get("fieldManager").is_empty() {
            errors.push(Error::required(&root.field("fieldManager"), "is required for apply patch"));
        }
        if !is_apply && call.query.has("force") {
            errors.push(Error::forbidden(&root.field("force"), "may not be specified for non-apply patch"));
        }
        Self::checked(call, "PatchOptions", errors)
    }

    fn checked(call: &AuthorizedRequest, kind: &str, mut errors: Errors) -> Result<Self, Status> {
        let root = FieldPath::Root;
        let manager = call.query.get("fieldManager");
        check_manager(manager, &mut errors);
        let dry_run = call.query.all("dryRun").collect::<Vec<_>>();
        if dry_run.iter().any(|value| *value != "All") {
            errors.push(Error::not_supported(&root.field("dryRun"), &json!(dry_run), &["All"]));
        }
        let strictness = match call.query.get("fieldValidation") {
            "Ignore" => Strictness::Ignore,
            "" | "Warn" => Strictness::Warn,
            "Strict" => Strictness::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(Error::not_supported(&root.field("fieldValidation"), &json!(other), &supported));
                Strictness::Warn
            }
        };
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", &errors));
        }
        Ok(Self {
            is_dry_run: !dry_run.is_empty(),
            manager: manager_name(call, manager),
            strictness,
            force: call.query.flag("force"),
        })
    }
}

fn check_manager(manager: &str, errors: &mut Errors) {
    let root = FieldPath::Root;
    let path = root.field("fieldManager");
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(Error::too_long(&path, FIELD_MANAGER_BYTES_MAX));
    }
    let is_printable = |letter: char| letter == ' ' || !(letter.is_control() || letter.is_whitespace());
    for (at, letter) in manager.char_indices().filter(|(_, letter)| !is_printable(*letter)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
        errors.push(Error::invalid(&path, &json!(manager), &detail));
    }
}

/// Returns the named manager, or the client's user agent up to the first slash.
fn manager_name(call: &AuthorizedRequest, named: &str) -> String {
    if !named.is_empty() {
        return named.to_owned();
    }
    let agent = call.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
    if agent.is_empty() {
        "unknown".to_owned()
    } else {
        agent.chars().take(FIELD_MANAGER_BYTES_MAX).collect()
    }
}
