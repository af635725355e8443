//! CertificateSigningRequest: requests a certificate, and records the decision.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::pem;
use crate::kinds::subresource;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::names::NameRule;
use crate::object::fill::{JsonObject, object_or_insert};
use crate::object::read;
use crate::printing::{Column, age};
use crate::user_identity::Identity;

use crate::resource::declaration::{BuiltInKind, CHANGE, ObjectWrite, SubresourceDeclaration};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::{PLAIN, Strategy};
use crate::resource::value_at::{Errors, ValueAt};

/// Sorted, as errors list them.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The shortest lifetime that may be requested.
const EXPIRATION_S_MIN: i64 = 600;

/// The maximum length of a domain name, and of a whole signer name: a domain, a label and another domain, with
/// separators.
const DOMAIN_BYTES_MAX: usize = 253;

const SIGNER_BYTES_MAX: usize = 571;

const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

const DECISIONS: [&str; 2] = ["Approved", "Denied"];

const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";

/// The prefix of signers that belong to Kubernetes. Other signers belong to operators.
const KUBERNETES_SIGNERS: &str = "kubernetes.io/";
/// The signers that exist, the same as in Kubernetes.
const KNOWN_SIGNERS: [&str; 4] = [
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/legacy-unknown",
];

/// Requests a certificate, and records the decision.
pub static CERTIFICATE_SIGNING_REQUEST: BuiltInKind = BuiltInKind {
    short_names: &["csr"],
    subresources: &[
        SubresourceDeclaration::own("approval", CHANGE)
            .merged_by(|_, stored, body, clock| subresource::approval(stored, &body, clock))
            .validated_by(validate_approval),
        STATUS,
    ],
    old_versions: &["v1beta1"],
    strategy: Strategy {
        reset_on_main: &["spec", "status"],
        ..PLAIN.named(NameRule::Any).with_status(&["spec", "status.conditions"])
    },
    prepare_create: Some(|_, fields, with| {
        request_created(fields, with.identity);
        Ok(())
    }),
    has_signer: true,
    validate_create: Some(validate_create),
    validate_status: Some(validate_status),
    warn_unenforced: Some(warn_unenforced),
    columns: &[
        Column::NAME,
        Column::text("Age"),
        Column::text("SignerName"),
        Column::text("Requestor"),
        Column::text("RequestedDuration"),
        Column::text("Condition"),
    ],
    cells: Some(cells),
    selectable: SelectableFields::fields(&[("spec.signerName", AbsentValue::Empty)]).without_namespace(),
    ..BuiltInKind::cluster_scoped(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
    )
};

/// Validates a new CertificateSigningRequest; its spec cannot change.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let request = spec.field("request");
    if !pem::is_request(request.text()) {
        request.invalid("PEM block type must be CERTIFICATE REQUEST", errors);
    }
    let usages = spec.field("usages");
    if usages.len() == 0 {
        usages.required("", errors);
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        usage.must_be_one_of(&USAGES, errors);
        if !seen.insert(usage.text().to_owned()) {
            usage.duplicate(errors);
        }
    }
    let signer = spec.field("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        signer.invalid("the legacy signerName is not allowed via this API version", errors);
    } else if signer.must_be_set(errors) {
        signer_name(&signer, errors);
    }
    let expires = spec.field("expirationSeconds");
    if expires.is_set() && expires.number() < EXPIRATION_S_MIN {
        expires.invalid("may not specify a duration less than 600 seconds (10 minutes)", errors);
    }
}

fn signer_name(signer: &ValueAt<'_>, errors: &mut Errors) {
    let parts = signer.text().split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        signer.invalid(detail, errors);
        return;
    };
    for (bytes, max) in [(domain.len(), DOMAIN_BYTES_MAX), (signer.text().len(), SIGNER_BYTES_MAX)] {
        if bytes > max {
            errors.push(Error::too_long(&signer.path, max));
        }
    }
    validate_signer_part(signer, domain, names::label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(&signer.path, &json!(domain), detail));
    }
    validate_signer_part(signer, path, names::subdomain, errors);
}

/// Validates one part of a signer name; only its first invalid label is reported.
fn validate_signer_part(
    signer: &ValueAt<'_>,
    part: &str,
    check: fn(&str) -> Vec<String>,
    errors: &mut Errors,
) {
    let bad = part.split('.').find(|label| !check(label).is_empty());
    for (label, error_text) in
        bad.into_iter().flat_map(|label| check(label).into_iter().map(move |why| (label, why)))
    {
        let detail = format!("validating label {label:?}: {error_text}");
        errors.push(Error::invalid(&signer.path, &json!(part), &detail));
    }
}

/// Validates an update through `/approval`.
fn validate_approval(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let status = new.field("status");
    validate_conditions(&status.field("conditions"), read::list_at(&old["status"], "conditions"), errors);
    refuse_removed_decisions(&status, &old["status"], errors);
}

/// Validates an update through `/status`, which may also issue the certificate.
fn validate_status(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate_approval(new, old, errors);
    let status = new.field("status");
    refuse_new_decisions(&status, &old["status"], errors);
    let (certificate, before) = (status.field("certificate"), read::string_at(&old["status"], "certificate"));
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

fn validate_conditions(list: &ValueAt<'_>, before: &[Value], errors: &mut Errors) {
    let had = |kind: &str| before.iter().any(|one| read::string_at(one, "type") == kind);
    let (may_be_both, may_be_unnamed) = (had("Approved") && had("Denied"), had(""));
    let kinds = before.iter().map(|one| read::string_at(one, "type"));
    let may_repeat = kinds.collect::<BTreeSet<_>>().len() < before.len();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (value, one) in list.value.as_array().into_iter().flatten().zip(list.items()) {
        let (name, kind) = (read::string_at(value, "type"), one.field("type"));
        if name.is_empty() && !may_be_unnamed {
            kind.required("", errors);
        }
        validate_condition_status(&one.field("status"), name, errors);
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

/// Validates the status of a condition: a final decision can only be true.
fn validate_condition_status(status: &ValueAt<'_>, kind: &str, errors: &mut Errors) {
    if status.must_be_set(errors) {
        let supported: &[&str] =
            if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        status.must_be_one_of(supported, errors);
    }
}

fn count_conditions(status: &Value, kind: &str) -> usize {
    read::list_at(status, "conditions").iter().filter(|one| read::string_at(one, "type") == kind).count()
}

/// Refuses new decisions in an update of the status.
fn refuse_new_decisions(status: &ValueAt<'_>, before: &Value, errors: &mut Errors) {
    for kind in DECISIONS
        .into_iter()
        .filter(|kind| count_conditions(status.value, kind) > count_conditions(before, kind))
    {
        let detail = format!("updates may not add a condition of type {kind:?}");
        status.field("conditions").forbidden(&detail, errors);
    }
}

fn refuse_removed_decisions(status: &ValueAt<'_>, before: &Value, errors: &mut Errors) {
    for kind in
        FINAL.into_iter().filter(|kind| count_conditions(status.value, kind) < count_conditions(before, kind))
    {
        let detail = format!("updates may not remove a condition of type {kind:?}");
        status.field("conditions").forbidden(&detail, errors);
    }
}

/// Records the user that sent a certificate signing request; values from the client are ignored.
fn request_created(request: &mut JsonObject, identity: &Identity) {
    let Some(spec) = object_or_insert(request, "spec") else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    let facts = [
        ("username", json!(identity.name)),
        ("uid", json!(identity.uid)),
        ("groups", json!(identity.groups)),
        ("extra", json!(identity.extra)),
    ];
    for (field, value) in facts {
        if !crate::object::fill::is_zero(Some(&value)) {
            spec.insert(field.into(), value);
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let lifetime = read::value_at(object, "spec.expirationSeconds").and_then(Value::as_i64);
    let lifetime = lifetime.map(|seconds| age::format_duration(SignedDuration::from_secs(seconds)));
    vec![
        read::name(object).into(),
        age::age_of_object(object, now).into(),
        read::string_at_or(object, "spec.signerName", "<none>").into(),
        read::string_at(object, "spec.username").into(),
        lifetime.unwrap_or_else(|| "<none>".to_owned()).into(),
        status_text(object).into(),
    ]
}

/// Prints the status; a denial outweighs an approval.
fn status_text(object: &Value) -> String {
    let has = |kind| read::condition(object, kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    for (addition, holds) in
        [(",Failed", has("Failed")), (",Issued", !read::string_at(object, "status.certificate").is_empty())]
    {
        if holds {
            status.push_str(addition);
        }
    }
    status
}

/// Returns a warning about approving a request that this server does not sign.
fn warn_unenforced(_: &BuiltInKind, write: &ObjectWrite<'_>) -> Vec<String> {
    let is_approved = |request: &Value| {
        let conditions = request["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "Approved"))
    };
    let signer_of = |request: &Value| request["spec"]["signerName"].as_str().map(ToOwned::to_owned);
    let is_news =
        write.subresource == "approval" && is_approved(write.new) && !write.old.is_some_and(is_approved);
    let signer = signer_of(write.new).or_else(|| write.old.and_then(signer_of)).unwrap_or_default();
    let warning = || {
        format!(
            "the approval is stored, but this server signs nothing for {signer}: status.certificate stays empty"
        )
    };
    let is_unknown = signer.starts_with(KUBERNETES_SIGNERS) && !KNOWN_SIGNERS.contains(&&*signer);
    (is_news && is_unknown).then(warning).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_of_a_request_is_summed_up() {
        let object = json!({"metadata": {"name": "r"}, "spec": {"username": "u", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}});
        let printed = json!(["r", "<unknown>", "<none>", "u", "60m", "Approved,Issued"]);
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
