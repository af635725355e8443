//! Validates Pod templates, and the parts that Pods have in common with them.

use std::collections::BTreeSet;

use serde_json::json;

use crate::field::Error;
use crate::kinds::validate::{affinity, claims, container, resources, security, volume};
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

const DNS_POLICIES: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];

/// The limits of the resolver on Linux.
const NAME_SERVERS_MAX: usize = 3;

const SEARCH_PATHS_MAX: usize = 32;

const SEARCH_LETTERS_MAX: usize = 2048;

/// Validates a template: labels and a spec.
pub(in crate::kinds) fn validate_pod_template(template: &ValueAt<'_>, errors: &mut Errors) {
    template_metadata(template, errors);
    let spec = template.field("spec");
    pod_spec(&spec, errors);
    if spec.field("ephemeralContainers").len() > 0 {
        spec.field("ephemeralContainers")
            .forbidden("ephemeral containers not allowed in pod template", errors);
    }
}

/// Validates labels and annotations of a template.
pub(in crate::kinds) fn template_metadata(template: &ValueAt<'_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    // kube-apiserver's paths leave out `metadata` here.
    ValueAt { value: metadata.field("labels").value, path: template.path.field("labels") }
        .must_be_labels(errors);
    if metadata.field("annotations").is_set() {
        let notes = metadata.field("annotations");
        crate::metadata::validate::validate_annotations(notes.value, &notes.path, errors);
    }
}

pub(in crate::kinds) fn pod_spec(spec: &ValueAt<'_>, errors: &mut Errors) {
    let volumes_list = spec.field("volumes");
    let volumes = volume::all(&volumes_list, errors);
    claims::of_pod(&spec.field("resourceClaims"), errors);
    let mut pod = container::PodContext::of(spec, volumes);
    let containers = spec.field("containers");
    if containers.len() == 0 {
        containers.required("", errors);
    }
    for one in containers.items() {
        container::regular(&ValueAt { value: one.value, path: one.path }, &mut pod, errors);
    }
    let init = spec.field("initContainers");
    for one in init.items() {
        container::init(&ValueAt { value: one.value, path: one.path }, &mut pod, errors);
    }
    host_ports(&containers, errors);
    if spec.field("hostNetwork").value == true {
        host_network(&containers, errors);
    }
    resources::of_container(&spec.field("resources"), errors);
    validate_policies(spec, errors);
    validate_operating_system(&spec.field("os"), errors);
    security::of_pod(spec, errors);
    names_in(spec, errors);
    validate_dns(spec, errors);
    validate_tolerations(&spec.field("tolerations"), errors);
    affinity::check(&spec.field("affinity"), errors);
    validate_topology_spread(&spec.field("topologySpreadConstraints"), errors);
}

/// Validates the operating system of a Pod.
fn validate_operating_system(system: &ValueAt<'_>, errors: &mut Errors) {
    let name = system.field("name");
    if system.is_set() && name.must_be_set(errors) && !matches!(name.text(), "linux" | "windows") {
        errors.push(Error::not_supported(&system.path, name.value, &["linux", "windows"]));
    }
}

fn validate_policies(spec: &ValueAt<'_>, errors: &mut Errors) {
    let restart = spec.field("restartPolicy");
    restart.must_be_set(errors);
    restart.must_be_one_of(&["Always", "OnFailure", "Never"], errors);
    let dns = spec.field("dnsPolicy");
    dns.must_be_one_of(&DNS_POLICIES, errors);
    if dns.text() == "None" && spec.field("dnsConfig").field("nameservers").len() == 0 {
        let config = spec.field("dnsConfig");
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        config.field("nameservers").required(detail, errors);
    }
    spec.field("preemptionPolicy").must_be_one_of(&["PreemptLowerPriority", "Never"], errors);
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.number()) {
        deadline.invalid("must be between 1 and 2147483647, inclusive", errors);
    }
}

/// Validates the DNS configuration: servers, search paths and host aliases.
fn validate_dns(spec: &ValueAt<'_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    for (list, max, what) in
        [("nameservers", NAME_SERVERS_MAX, "nameservers"), ("searches", SEARCH_PATHS_MAX, "search paths")]
    {
        if config.field(list).len() > max {
            config.field(list).invalid(&format!("must not have more than {max} {what}"), errors);
        }
    }
    for server in config.field("nameservers").items() {
        server.must_be_address(errors);
    }
    validate_search_domains(&config.field("searches"), errors);
    for option in config.field("options").items().filter(|option| option.field("name").is_zero()) {
        option.required("must not be empty", errors);
    }
    for alias in spec.field("hostAliases").items() {
        alias.field("ip").must_be_address(errors);
        for name in alias.field("hostnames").items() {
            for error_text in names::subdomain(name.text()) {
                name.invalid(&error_text, errors);
            }
        }
    }
}

/// Validates search domains; a single dot is the root.
fn validate_search_domains(list: &ValueAt<'_>, errors: &mut Errors) {
    let letters: usize = list.items().map(|one| one.text().len() + 1).sum();
    if letters > SEARCH_LETTERS_MAX + 1 {
        let detail = format!(
            "must not have more than {SEARCH_LETTERS_MAX} characters (including spaces) in the search list"
        );
        list.invalid(&detail, errors);
    }
    for one in list.items().filter(|one| one.text() != ".") {
        let domain = one.text().strip_suffix('.').unwrap_or(one.text());
        for error_text in names::subdomain_with_underscores(domain) {
            errors.push(Error::invalid(&one.path, &json!(domain), &error_text));
        }
    }
}

fn names_in(spec: &ValueAt<'_>, errors: &mut Errors) {
    spec.field("nodeSelector").must_be_labels(errors);
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        spec.field(name).must_pass(names::subdomain, errors);
    }
    for name in ["hostname", "subdomain"] {
        spec.field(name).must_pass(names::label, errors);
    }
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").must_be_qualified(&gate.field("conditionType"), errors);
    }
    let mut seen = BTreeSet::new();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        name.must_be_qualified(&gate, errors);
        if !seen.insert(name.text().to_owned()) {
            errors.push(Error::duplicate(&gate.path, &json!(name.text())));
        }
    }
}

/// Requires container ports on the host's network to equal the host ports.
fn host_network(containers: &ValueAt<'_>, errors: &mut Errors) {
    for one in containers.items() {
        for port in one.field("ports").items() {
            let number = port.field("hostPort");
            if !number.is_zero() && number.number() != port.field("containerPort").number() {
                number.invalid("must match `containerPort` when `hostNetwork` is true", errors);
            }
        }
    }
}

/// Rejects two containers with the same host port.
fn host_ports(containers: &ValueAt<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for one in containers.items() {
        for port in one.field("ports").items() {
            let number = port.field("hostPort");
            if number.is_zero() {
                continue;
            }
            let claim = format!(
                "{}/{}/{}",
                port.field("protocol").text(),
                port.field("hostIP").text(),
                number.number()
            );
            if !taken.insert(claim.clone()) {
                errors.push(Error::duplicate(&number.path, &json!(claim)));
            }
        }
    }
}

fn validate_tolerations(list: &ValueAt<'_>, errors: &mut Errors) {
    for one in list.items() {
        let (key, operator, effect) = (one.field("key"), one.field("operator"), one.field("effect"));
        key.must_pass(names::qualified, errors);
        if key.is_zero() && operator.text() != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&operator.path, &json!(operator.text()), detail));
        }
        if one.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(Error::invalid(&effect.path, &json!(effect.text()), detail));
        }
        match operator.text() {
            "Exists" if !one.field("value").is_zero() => {
                let value = json!(one.field("value").text());
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(Error::invalid(&operator.path, &value, detail));
            }
            "Exists" => {}
            "" | "Equal" => {
                let error_texts = names::label_value(one.field("value").text()).join(";");
                if !error_texts.is_empty() {
                    errors.push(Error::invalid(&operator.path, one.field("value").value, &error_texts));
                }
            }
            _ => operator.must_be_one_of(&["Equal", "Exists"], errors),
        }
        if !effect.is_zero() {
            effect.must_be_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    }
}

fn validate_topology_spread(list: &ValueAt<'_>, errors: &mut Errors) {
    for one in list.items() {
        if one.field("maxSkew").number() <= 0 {
            one.field("maxSkew").invalid("must be greater than zero", errors);
        }
        one.field("topologyKey").must_be_set(errors);
        one.field("whenUnsatisfiable").must_be_one_of(&["DoNotSchedule", "ScheduleAnyway"], errors);
        super::selector::validate_label_selector(&one.field("labelSelector"), errors);
    }
}
