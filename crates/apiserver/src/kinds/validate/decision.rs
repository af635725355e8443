//! What became of a request for a certificate: it is approved or denied, never both, and what was decided or issued stays.
//!
//! **Invariant:** whatever is wrong in the stored object may stay wrong, as Kubernetes tolerates it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::fill::{items, text};
use crate::kinds::pem;

const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";

/// An update through `/approval`.
pub(in crate::kinds) fn approval(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    conditions(&status.field("conditions"), items(&old["status"], "conditions"), errors);
    removals(&status, &old["status"], errors);
}

/// An update through `/status`, which may also issue the certificate.
pub(in crate::kinds) fn status(new: &At<'_>, old: &Value, errors: &mut Errors) {
    approval(new, old, errors);
    let status = new.field("status");
    decisions(&status, &old["status"], errors);
    let (certificate, before) = (status.field("certificate"), text(&old["status"], "certificate"));
    if certificate.text() == before {
        return;
    }
    let was_good = before.is_empty() || pem::certificate_fault(before).is_none();
    if was_good
        && !certificate.is_zero()
        && let Some(fault) = pem::certificate_fault(certificate.text())
    {
        errors.push(Error::invalid(&certificate.path, &json!("<certificate data>"), &fault));
    }
    if !before.is_empty() {
        certificate.forbidden("updates may not modify existing certificate content", errors);
    }
}

fn conditions(list: &At<'_>, before: &[Value], errors: &mut Errors) {
    let had = |kind: &str| before.iter().any(|one| text(one, "type") == kind);
    let (may_be_both, may_be_unnamed) = (had("Approved") && had("Denied"), had(""));
    let kinds = before.iter().map(|one| text(one, "type"));
    let may_repeat = kinds.collect::<BTreeSet<_>>().len() < before.len();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (value, one) in list.value.as_array().into_iter().flatten().zip(list.items()) {
        let (name, kind) = (text(value, "type"), one.field("type"));
        if name.is_empty() && !may_be_unnamed {
            kind.required("", errors);
        }
        truth(&one.field("status"), name, errors);
        let other = match name {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) && !may_be_both {
            errors.push(Error::invalid(&list.path, &json!(name), EXCLUSIVE));
        }
        if !seen.insert(name) && !may_repeat {
            errors.push(Error::duplicate(&kind.path, &json!(name)));
        }
    }
}

/// A decision is there or not; nobody decides half.
fn truth(status: &At<'_>, kind: &str, errors: &mut Errors) {
    if status.must_be_set(errors) {
        let supported: &[&str] =
            if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        status.must_be_one_of(supported, errors);
    }
}

fn count(status: &Value, kind: &str) -> usize {
    items(status, "conditions").iter().filter(|one| text(one, "type") == kind).count()
}

/// Whoever writes the status does not decide.
fn decisions(status: &At<'_>, before: &Value, errors: &mut Errors) {
    for kind in DECISIONS.into_iter().filter(|kind| count(status.value, kind) > count(before, kind)) {
        let detail = format!("updates may not add a condition of type {kind:?}");
        status.field("conditions").forbidden(&detail, errors);
    }
}

fn removals(status: &At<'_>, before: &Value, errors: &mut Errors) {
    for kind in FINAL.into_iter().filter(|kind| count(status.value, kind) < count(before, kind)) {
        let detail = format!("updates may not remove a condition of type {kind:?}");
        status.field("conditions").forbidden(&detail, errors);
    }
}
