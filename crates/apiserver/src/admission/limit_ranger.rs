//! LimitRanger: Pods and claims keep within the LimitRanges of their namespace, and containers get their defaults.

use homeostat_api::kinds::core::limit_range::LIMIT_RANGE;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::quantity::Quantity;
use serde_json::Value;

use super::plugin::{Mutate, Plugin, Validate};
use super::pod_resources::{Amounts, parse_amounts, total};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(mutate),
    validate: Validate::Now(validate),
    ..Plugin::new("LimitRanger", |resource| {
        is_kind(resource, &POD) || is_kind(resource, &PERSISTENT_VOLUME_CLAIM)
    })
};

/// Says which defaults were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The most limits times containers: some hundred times what anybody has. Every limit is compared with every container, and may give
/// it a default.
const WORK_MAX: usize = 50_000;
/// The most violations that are listed.
const ERRORS_MAX: usize = 100;

fn mutate(request: &AdmissionRequest<'_>, object: &mut Value) {
    if is_concerned(request) && is_kind(request.resource, &POD) {
        let ranges = request.load_all(&LIMIT_RANGE, request.namespace);
        // Too many are refused afterwards.
        if work(object, &ranges) <= WORK_MAX {
            for range in &ranges {
                set_defaults(object, range);
            }
        }
    }
}

/// Returns the number of limits times that of containers.
fn work(pod: &Value, ranges: &[Value]) -> usize {
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    let containers = count(&pod["spec"]["containers"]) + count(&pod["spec"]["initContainers"]);
    let entries = |limit: &Value| {
        let fields = limit.as_object().into_iter().flat_map(|fields| fields.values());
        1 + fields.filter_map(Value::as_object).map(serde_json::Map::len).sum::<usize>()
    };
    let limits = ranges.iter().flat_map(|range| range["spec"]["limits"].as_array().into_iter().flatten());
    limits.map(entries).sum::<usize>().saturating_mul(containers)
}

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    if !is_concerned(request) {
        return Ok(());
    }
    let ranges = request.load_all(&LIMIT_RANGE, request.namespace);
    if is_kind(request.resource, &POD) && work(object, &ranges) > WORK_MAX {
        let why = "the LimitRanges of the namespace have too many limits for so many containers";
        return Err(request.forbidden(object, why));
    }
    for range in ranges {
        let errors = if is_kind(request.resource, &POD) {
            check_pod(object, &range)
        } else {
            check_claim(object, &range)
        };
        if !errors.is_empty() {
            return Err(request.forbidden(object, &aggregate(errors)));
        }
    }
    Ok(())
}

/// Returns whether limits apply to this write: those of a Pod's containers change only by a resize.
fn is_concerned(request: &AdmissionRequest<'_>) -> bool {
    if request.old.is_some_and(meta::is_deleting) {
        return false;
    }
    match (request.operation, request.subresource) {
        (Operation::Create, "") => true,
        (Operation::Update, "resize") => is_kind(request.resource, &POD),
        (Operation::Update, "") => is_kind(request.resource, &PERSISTENT_VOLUME_CLAIM),
        _ => false,
    }
}

/// Returns several errors as Kubernetes prints them together.
fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    errors.truncate(ERRORS_MAX);
    if let [one] = &*errors { one.clone() } else { format!("[{}]", errors.join(", ")) }
}

fn limits_of_type<'a>(range: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |limit| limit["type"] == kind)
}

/// Gives the containers of a Pod the default requests and limits.
fn set_defaults(pod: &mut Value, range: &Value) {
    let mut defaults = [("requests", "defaultRequest"), ("limits", "default")].map(|(list, field)| {
        let mut all = serde_json::Map::new();
        for limit in limits_of_type(range, "Container") {
            all.extend(limit[field].as_object().cloned().unwrap_or_default());
        }
        (list, all)
    });
    // Limits first, as in Kubernetes: a missing request does not become the default limit.
    defaults.reverse();
    let mut said = Vec::new();
    for (list, shown) in [("containers", "container"), ("initContainers", "init container")] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let [limits, requests] = defaults.each_ref().map(|(list, all)| {
                let set = all.iter().filter(|(name, amount)| set_if_absent(container, list, name, amount));
                set.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            });
            for (set, what) in [(requests, "request"), (limits, "limit")] {
                if !set.is_empty() {
                    said.push(format!("{set} {what} for {shown} {name}"));
                }
            }
        }
    }
    if !said.is_empty() {
        let text = format!("LimitRanger plugin set: {}", said.join("; "));
        pod["metadata"]["annotations"][ANNOTATION] = text.into();
    }
}

fn set_if_absent(container: &mut Value, list: &str, name: &str, amount: &Value) -> bool {
    if container["resources"][list].get(name).is_some() {
        return false;
    }
    container["resources"][list][name] = amount.clone();
    true
}

fn check_pod(pod: &Value, range: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in limits_of_type(range, "Container") {
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                let of = |which: &str| parse_amounts(&container["resources"][which]);
                check_limit(limit, &of("requests"), &of("limits"), &mut errors);
            }
        }
    }
    for limit in limits_of_type(range, "Pod") {
        check_limit(limit, &total(pod, "requests"), &total(pod, "limits"), &mut errors);
    }
    errors
}

fn check_claim(claim: &Value, range: &Value) -> Vec<String> {
    let requests = parse_amounts(&claim["spec"]["resources"]["requests"]);
    let mut errors = Vec::new();
    for limit in limits_of_type(range, "PersistentVolumeClaim") {
        for (name, least) in parse_amounts(&limit["min"]) {
            let given = RequestAndLimit::new(&name, &requests, &Amounts::new());
            errors.extend(check_least(limit, &name, least, &given).err());
        }
        for (name, most) in parse_amounts(&limit["max"]) {
            let bound = format!("maximum {name} usage per PersistentVolumeClaim is {most}");
            match requests.get(&name) {
                None => errors.push(format!("{bound}.  No request is specified")),
                Some(request) if request.nanos() > most.nanos() => {
                    errors.push(format!("{bound}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    errors
}

/// What is requested and limited of one resource.
struct RequestAndLimit {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl RequestAndLimit {
    fn new(name: &str, requests: &Amounts, limits: &Amounts) -> Self {
        Self { request: requests.get(name).copied(), limit: limits.get(name).copied() }
    }
}

fn check_limit(limit: &Value, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    type Check = fn(&Value, &str, Quantity, &RequestAndLimit) -> Result<(), String>;
    let checks: [(&str, Check); 3] =
        [("min", check_least), ("max", check_most), ("maxLimitRequestRatio", check_ratio)];
    for (field, check) in checks {
        for (name, bound) in parse_amounts(&limit[field]) {
            errors.extend(check(limit, &name, bound, &RequestAndLimit::new(&name, requests, limits)).err());
        }
    }
}

fn shown_type(limit: &Value) -> &str {
    limit["type"].as_str().unwrap_or_default()
}

fn check_least(limit: &Value, name: &str, least: Quantity, given: &RequestAndLimit) -> Result<(), String> {
    let bound = format!("minimum {name} usage per {} is {least}", shown_type(limit));
    let Some(request) = given.request else { return Err(format!("{bound}.  No request is specified")) };
    if request.nanos() < least.nanos() {
        return Err(format!("{bound}, but request is {request}"));
    }
    match given.limit.filter(|limit| limit.nanos() < least.nanos()) {
        Some(limit) => Err(format!("{bound}, but limit is {limit}")),
        None => Ok(()),
    }
}

fn check_most(limit: &Value, name: &str, most: Quantity, given: &RequestAndLimit) -> Result<(), String> {
    let bound = format!("maximum {name} usage per {} is {most}", shown_type(limit));
    let Some(limited) = given.limit else { return Err(format!("{bound}.  No limit is specified")) };
    if limited.nanos() > most.nanos() {
        return Err(format!("{bound}, but limit is {limited}"));
    }
    match given.request.filter(|request| request.nanos() > most.nanos()) {
        Some(request) => Err(format!("{bound}, but request is {request}")),
        None => Ok(()),
    }
}

fn check_ratio(limit: &Value, name: &str, most: Quantity, given: &RequestAndLimit) -> Result<(), String> {
    let bound = format!("{name} max limit to request ratio per {} is {most}", shown_type(limit));
    let positive = |amount: Option<Quantity>| amount.map(Quantity::nanos).filter(|nanos| *nanos != 0);
    let Some(request) = positive(given.request) else {
        return Err(format!("{bound}, but no request is specified or request is 0"));
    };
    let Some(limited) = positive(given.limit) else {
        return Err(format!("{bound}, but no limit is specified or limit is 0"));
    };
    #[expect(clippy::cast_precision_loss, reason = "Kubernetes compares floating point numbers, too")]
    let (ratio, most) = (limited as f64 / request as f64, most.nanos() as f64 / 1e9);
    if ratio > most { Err(format!("{bound}, but provided ratio is {ratio:.6}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limit: &Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    #[test]
    fn containers_get_defaults_and_an_annotation_that_says_so() {
        let defaults = json!({"type": "Container", "default": {"cpu": "2"},
            "defaultRequest": {"cpu": "1", "memory": "1Gi"}});
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c",
            "resources": {"requests": {"cpu": "500m"}}}]}});
        set_defaults(&mut pod, &range(&defaults));
        let resources = json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], resources);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: memory request for container c; cpu limit for container c"
        );
    }

    #[test]
    fn pods_keep_within_their_limits() {
        let check = |limit: Value, resources: Value, expected: &[&str]| {
            let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
            assert_eq!(check_pod(&pod, &range(&limit)), expected);
        };
        let given = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}});
        let of = |kind: &str, field: &str, cpu: &str| json!({"type": kind, field: {"cpu": cpu}});
        check(
            of("Container", "max", "2"),
            given.clone(),
            &["maximum cpu usage per Container is 2, but limit is 3"],
        );
        check(of("Pod", "max", "4"), given.clone(), &[]);
        check(of("Pod", "max", "4"), json!({}), &["maximum cpu usage per Pod is 4.  No limit is specified"]);
        check(
            of("Container", "min", "2"),
            given.clone(),
            &["minimum cpu usage per Container is 2, but request is 1"],
        );
        check(
            of("Container", "maxLimitRequestRatio", "2"),
            given,
            &["cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"],
        );
    }
}
