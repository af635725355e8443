//! PodSecurity: Pods keep to the Pod Security Standard that the labels of their namespace ask for.
//!
//! `enforce` refuses Pods; `warn` warns about Pods and about workloads whose template violates the standard. `audit`
//! annotates the audit log, which this server does not have, so it is checked and has no effect.

mod baseline;
mod checks;
mod config;
mod policy;
mod restricted;

use std::collections::{BTreeMap, HashSet};

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_api::storage::Storage;
use serde_json::Value;

use self::checks::{SecurityViolation, violations};
pub(crate) use self::config::PodSecurityConfig;
use self::policy::{NamespacePolicy, SecurityLevel, StandardVersion};
use super::plugin::{Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    validate: Validate::Now(validate),
    ..Plugin::new("PodSecurity", |resource| {
        is_kind(resource, &NAMESPACE) || is_kind(resource, &POD) || template_path(resource).is_some()
    })
};

/// Subresources of Pods that run nothing.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// The most Pods that are checked when the standard of a namespace becomes stricter.
const PODS_CHECKED_MAX: usize = 3000;

/// Returns where objects of a workload have the template of their Pods.
fn template_path(resource: &Resource) -> Option<&'static str> {
    match resource.storage() {
        Storage::BuiltIn("", "replicationcontrollers")
        | Storage::BuiltIn("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | Storage::BuiltIn("batch", "jobs") => Some("/spec/template"),
        Storage::BuiltIn("batch", "cronjobs") => Some("/spec/jobTemplate/spec/template"),
        Storage::BuiltIn("", "podtemplates") => Some("/template"),
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

/// Returns the policy of the namespace of a request; `None` if it asks for nothing, or is exempt.
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
    let labels = &crate::stored::encode::decode(entry)["metadata"]["labels"];
    Some(NamespacePolicy::parse(labels, config.defaults()).0)
}

fn validate_pod(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), Status> {
    if IGNORED.contains(&request.subresource) {
        return Ok(());
    }
    if request.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    let Some(policy) = policy_of_request(request, pod) else { return Ok(()) };
    let found = violations(policy.enforce, pod);
    if !found.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&found));
        return Err(request.forbidden(pod, &why));
    }
    warn_about(request, policy.warn, pod);
    Ok(())
}

/// Returns whether a change can make a Pod violate a standard: other changes of what they look at are refused anyway.
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

/// Warns about Pods that could not be created again.
fn warn_about_existing(request: &AdmissionRequest<'_>, namespace: &str, standard: StandardVersion) {
    let pods = one_pod_of_each_owner_first(request.load_all(&POD, namespace));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods.iter().take(PODS_CHECKED_MAX) {
        let reasons = violations(standard, pod).into_iter().map(|one| one.reason).collect::<Vec<_>>();
        if !reasons.is_empty() {
            found.entry(reasons.join(", ")).or_default().push(meta::name(pod).to_owned());
        }
    }
    if pods.len() > PODS_CHECKED_MAX {
        request.warn(format!(
            "new PodSecurity enforce level only checked against the first {PODS_CHECKED_MAX} of {} existing pods",
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

fn one_pod_of_each_owner_first(pods: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    let (mut first, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| {
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut controllers = owners.filter(|owner| owner["controller"] == true);
        controllers.next().is_none_or(|owner| seen.insert(owner["uid"].to_string()))
    });
    first.extend(others);
    first
}
