//! PodSecurity: holds Pods to the Pod Security Standard that the labels of their namespace request.
//!
//! `enforce` refuses Pods. `warn` warns about Pods, and about workloads whose template violates the standard. `audit`
//! annotates the audit log.

mod baseline_checks;
mod check_table;
mod config;
mod policy;
mod restricted_checks;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_store::Entry;
use serde_json::Value;

use self::check_table::{SecurityViolation, violations};
pub(crate) use self::config::PodSecurityConfig;
use self::policy::{NamespacePolicy, SecurityLevel, StandardVersion};
use super::plugin::{Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};
use crate::stored::encode;
use crate::stored::labels_and_owners::LabelsAndOwners;

pub(super) static PLUGIN: Plugin = Plugin {
    validate: Validate::Now(validate),
    ..Plugin::new("PodSecurity", |resource| {
        is_kind(resource, &NAMESPACE) || is_kind(resource, &POD) || template_path(resource).is_some()
    })
};

/// Pod subresources that do not start any containers.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// The maximum number of Pods that are checked when a namespace's standard becomes stricter.
const PODS_CHECKED_MAX: usize = 3000;
/// The maximum stored size of the Pods that are checked in that case: about a second of work, the time that Kubernetes
/// allows.
const PODS_CHECKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Returns the path of the Pod template in objects of a workload resource.
fn template_path(resource: &Resource) -> Option<&'static str> {
    match resource.storage() {
        ResourceIdentity::BuiltIn("", "replicationcontrollers")
        | ResourceIdentity::BuiltIn("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ResourceIdentity::BuiltIn("batch", "jobs") => Some("/spec/template"),
        ResourceIdentity::BuiltIn("batch", "cronjobs") => Some("/spec/jobTemplate/spec/template"),
        ResourceIdentity::BuiltIn("", "podtemplates") => Some("/template"),
        _ => None,
    }
}

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    if is_kind(request.resource, &NAMESPACE) {
        return validate_namespace(request, object);
    }
    if is_kind(request.resource, &POD) {
        return validate_pod(request, object);
    }
    if request.subresource.is_empty()
        && let Some(template) = template_path(request.resource).and_then(|path| object.pointer(path))
    {
        warn_about_template(request, template);
    }
    Ok(())
}

/// Returns the policy of the request's namespace; `None` if the namespace requests nothing or the request is exempt.
fn policy_of_request(request: &AdmissionRequest<'_>, pod: &Value) -> Option<NamespacePolicy> {
    let config = request.admission.pod_security();
    let class = pod["spec"]["runtimeClassName"].as_str().unwrap_or_default();
    if config.exempts_namespace(request.namespace)
        || config.exempts_user(&request.user.name)
        || config.exempts_runtime_class(class)
    {
        return None;
    }
    let snapshot = request.snapshot();
    let entry = snapshot.get(&NAMESPACE.storage().key("", request.namespace))?;
    // The cheap test comes first: most namespaces have no such label.
    if !config.has_defaults() && memchr::memmem::find(&entry.bytes, policy::PREFIX.as_bytes()).is_none() {
        return None;
    }
    let labels = &encode::parse_entry(entry)["metadata"]["labels"];
    Some(NamespacePolicy::parse(labels, config.defaults()).0)
}

/// The prefix of the annotation keys.
const ANNOTATIONS: &str = "pod-security.kubernetes.io/";

fn validate_pod(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), Status> {
    if IGNORED.contains(&request.subresource) {
        return Ok(());
    }
    if request.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    let Some(policy) = policy_of_request(request, pod) else { return Ok(()) };
    let found = violations(policy.enforce, pod);
    request.annotate(format!("{ANNOTATIONS}enforce-policy"), policy.enforce.to_string());
    let audited = violations(policy.audit, pod);
    if !audited.is_empty() {
        let told = format!("would violate PodSecurity \"{}\": {}", policy.audit, details(&audited));
        request.annotate(format!("{ANNOTATIONS}audit-violations"), told);
    }
    if !found.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&found));
        return Err(request.forbidden(pod, &why));
    }
    warn_about(request, policy.warn, pod);
    Ok(())
}

/// Returns whether a change can make a Pod violate a standard. Other changes to the fields that the standards look at
/// are refused anyway.
fn is_significant(new: &Value, old: &Value) -> bool {
    let list = |pod: &Value, name: &str| pod["spec"][name].as_array().cloned().unwrap_or_default();
    let images =
        |pod: &Value, name: &str| list(pod, name).iter().map(|one| one["image"].clone()).collect::<Vec<_>>();
    if ["containers", "initContainers"].iter().any(|name| images(new, name) != images(old, name)) {
        return true;
    }
    let before = list(old, "ephemeralContainers");
    list(new, "ephemeralContainers").iter().any(|one| {
        let known = before.iter().find(|other| other["name"] == one["name"]);
        known.is_none_or(|known| known["image"] != one["image"])
    })
}

fn warn_about_template(request: &AdmissionRequest<'_>, template: &Value) {
    if let Some(policy) = policy_of_request(request, template) {
        let audited = violations(policy.audit, template);
        if !audited.is_empty() {
            let told = format!("would violate PodSecurity \"{}\": {}", policy.audit, details(&audited));
            request.annotate(format!("{ANNOTATIONS}audit-violations"), told);
        }
        warn_about(request, policy.warn, template);
    }
}

fn warn_about(request: &AdmissionRequest<'_>, standard: StandardVersion, pod: &Value) {
    let found = violations(standard, pod);
    if !found.is_empty() {
        request.warn(format!("would violate PodSecurity \"{standard}\": {}", details(&found)));
    }
}

/// Returns violations with their details.
fn details(found: &[SecurityViolation]) -> String {
    let shown = found.iter().map(|SecurityViolation { reason, detail }| match &**detail {
        "" => reason.clone(),
        detail => format!("{reason} ({detail})"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn validate_namespace(request: &AdmissionRequest<'_>, namespace: &Value) -> Result<(), Status> {
    if !request.subresource.is_empty() {
        return Ok(());
    }
    let config = request.admission.pod_security();
    let parse = |object: &Value| NamespacePolicy::parse(&object["metadata"]["labels"], config.defaults());
    let (new, faults) = parse(namespace);
    let (old, old_faults) = match request.old {
        Some(old) => parse(old),
        None => (config.defaults(), Vec::new()),
    };
    if !faults.is_empty() && (request.old.is_none() || faults != old_faults) {
        let path = FieldPath::Root;
        let (metadata, mut errors) = (path.field("metadata"), Errors::new());
        for (label, value, why) in faults {
            let labels = metadata.field("labels");
            errors.push(Error::invalid(&labels.key(&label), &value.into(), &why));
        }
        return Err(Status::invalid("", "Namespace", meta::name(namespace), &errors));
    }
    let name = meta::name(namespace);
    let is_stricter = new.enforce != old.enforce
        && new.enforce.level != SecurityLevel::Privileged
        && (new.enforce.version != old.enforce.version || new.enforce.level > old.enforce.level);
    if request.old.is_some() && is_stricter && !config.exempts_namespace(name) {
        warn_about_existing(request, name, new.enforce);
    }
    Ok(())
}

/// Warns about existing Pods that could not be created under the new standard.
fn warn_about_existing(request: &AdmissionRequest<'_>, namespace: &str, standard: StandardVersion) {
    let (snapshot, prefix) = (request.snapshot(), POD.storage().prefix_in(namespace));
    let pods = one_pod_of_each_owner_first(snapshot.range(&prefix, ""));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut checked, mut bytes) = (0, 0);
    for entry in &pods {
        bytes += entry.bytes.len();
        if checked == PODS_CHECKED_MAX || bytes > PODS_CHECKED_BYTES_MAX {
            break;
        }
        checked += 1;
        let pod = encode::parse_entry(entry);
        let reasons = violations(standard, &pod).into_iter().map(|one| one.reason).collect::<Vec<_>>();
        if !reasons.is_empty() {
            found.entry(reasons.join(", ")).or_default().push(meta::name(&pod).to_owned());
        }
    }
    if pods.len() > checked {
        request.warn(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        request.warn(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut warnings = found.iter().map(|(reasons, names)| {
        let first = names.iter().min().map_or("", String::as_str);
        match names.len() {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            count => format!("{first} (and {} other pods): {reasons}", count - 1),
        }
    });
    let mut sorted = warnings.by_ref().collect::<Vec<_>>();
    sorted.sort();
    for warning in sorted {
        request.warn(warning);
    }
}

/// Sorts Pods so that each owner's first Pod comes before all others, because Pods with the same owner are alike.
fn one_pod_of_each_owner_first<'a>(pods: impl Iterator<Item = &'a Arc<Entry>>) -> Vec<&'a Arc<Entry>> {
    let mut seen = HashSet::new();
    let (mut first, others): (Vec<_>, Vec<_>) = pods.partition(|pod| {
        let known = LabelsAndOwners::from_entry(pod);
        known.owners.first().is_none_or(|owner| seen.insert(owner.clone()))
    });
    first.extend(others);
    first
}
