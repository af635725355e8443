//! Priority: gives Pods the priority of their class, and allows only one default class.

use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::scheduling::priority_class::PRIORITY_CLASS;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::plugin::{Mutate, Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};
use crate::stored::encode;

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Now(set_priority),
    validate: Validate::Now(check_default_class),
    ..Plugin::new("Priority", |resource| is_kind(resource, &POD) || is_kind(resource, &PRIORITY_CLASS))
};

/// The fields of a Pod that its class determines.
const DECIDED: [&str; 2] = ["priority", "preemptionPolicy"];

fn set_priority(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is_of(&POD) {
        return Ok(());
    }
    match (request.operation, request.old) {
        (Operation::Create, _) => set_priority_of_new(request, pod),
        (Operation::Update, Some(old)) => {
            for field in DECIDED {
                if pod["spec"][field].is_null() && !old["spec"][field].is_null() {
                    pod["spec"][field] = old["spec"][field].clone();
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn set_priority_of_new(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if name.is_empty() {
        default_class(request)
    } else {
        request.load(&PRIORITY_CLASS, "", &name).or_else(|| system_class(&name))
    };
    let class = match class {
        Some(class) => class,
        None if name.is_empty() => json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}),
        None => {
            return Err(request.forbidden(pod, &format!("no PriorityClass with name {name} was found")));
        }
    };
    if name.is_empty() && !meta::name(&class).is_empty() {
        pod["spec"]["priorityClassName"] = meta::name(&class).into();
    }
    let policy = class.get("preemptionPolicy").cloned().unwrap_or(json!("PreemptLowerPriority"));
    agree(pod, "priority", &class["value"], "the integer value of priority")
        .and_then(|()| agree(pod, "preemptionPolicy", &policy, "the string value of PreemptionPolicy"))
        .map_err(|why| request.forbidden(pod, &why))
}

/// Returns a class that every cluster has, even before it is stored.
fn system_class(name: &str) -> Option<Value> {
    match name {
        "system-cluster-critical" => Some(json!({"value": 2_000_000_000})),
        "system-node-critical" => Some(json!({"value": 2_000_001_000})),
        _ => None,
    }
}

/// Returns the default class; if there are several, the one with the lowest value.
fn default_class(request: &AdmissionRequest<'_>) -> Option<Value> {
    let (snapshot, all) = (request.snapshot(), PRIORITY_CLASS.storage().prefix());
    // The cheap test comes first: only an object that contains these words can be a default.
    let may_be_default = |bytes: &[u8]| memchr::memmem::find(bytes, b"\"globalDefault\":true").is_some();
    let entries = snapshot.range(&all, "").filter(|entry| may_be_default(&entry.bytes));
    entries
        .map(|entry| encode::parse_entry(entry))
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64().unwrap_or_default())
}

/// Sets a field to the value from the class. Refuses a Pod that specifies a different value.
fn agree(pod: &mut Value, field: &str, computed: &Value, what: &str) -> Result<(), String> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let said = &pod["spec"][field];
    if !said.is_null() && said != computed {
        return Err(format!(
            "{what} ({}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            shown(said),
            shown(computed)
        ));
    }
    pod["spec"][field] = computed.clone();
    Ok(())
}

/// Refuses a second default class.
fn check_default_class(request: &AdmissionRequest<'_>, class: &Value) -> Result<(), Status> {
    if !request.is_of(&PRIORITY_CLASS) || class["globalDefault"] != true {
        return Ok(());
    }
    let Some(default) = default_class(request) else { return Ok(()) };
    let (default, is_new) = (meta::name(&default), request.operation == Operation::Create);
    if is_new || default != meta::name(class) {
        let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
        return Err(request.forbidden(class, &why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_may_repeat_the_priority_of_its_class_and_name_no_other() {
        let check = |given: Value, expected: Result<(), &str>| {
            let mut pod = json!({"spec": {"priority": given}});
            let agreed = agree(&mut pod, "priority", &json!(7), "the integer value of priority");
            assert_eq!(agreed.as_ref().copied().map_err(|why| &why[..32]), expected);
            assert_eq!(pod["spec"]["priority"] == 7, agreed.is_ok());
        };
        check(Value::Null, Ok(()));
        check(json!(7), Ok(()));
        check(json!(8), Err("the integer value of priority (8"));
    }
}
