//! Options common to writes: dry run, field manager, field validation.

use serde_json::json;

use super::Call;
use crate::field::{Error, Path};
use crate::status::Status;

/// The longest name of a field manager Kubernetes takes.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// What happens to fields nobody knows and keys given twice.
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
    /// Reads and checks them; `kind` names the options object in a refusal.
    pub(super) fn of(call: &Call, kind: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let root = Path::Root;
        for value in call.query.all("dryRun") {
            if value != "All" {
                errors.push(Error::not_supported(&root.field("dryRun"), &json!([value]), &["All"]));
            }
        }
        let manager = call.query.get("fieldManager");
        let path = root.field("fieldManager");
        if manager.len() > FIELD_MANAGER_BYTES_MAX {
            errors.push(Error::too_long(&path, FIELD_MANAGER_BYTES_MAX));
        } else if let Some(bad) = manager.chars().position(char::is_control) {
            errors.push(Error::invalid(&path, &json!(manager), &format!("invalid character at {bad}")));
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
            is_dry_run: call.query.has("dryRun"),
            manager: manager_name(call, manager),
            strictness,
            force: call.query.flag("force"),
        })
    }
}

/// The manager named, or what the client calls itself up to the first slash.
fn manager_name(call: &Call, named: &str) -> String {
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
