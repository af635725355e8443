//! LimitRanger: keeps Pods and claims within the LimitRanges of their namespace, and gives containers their defaults.

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
use crate::seen_kinds::RareKind;
use crate::stored::encode;

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(mutate),
    validate: Validate::Now(validate),
    ..Plugin::new("LimitRanger", |resource| {
        is_kind(resource, &POD) || is_kind(resource, &PERSISTENT_VOLUME_CLAIM)
    })
};

/// The annotation that lists the defaults that were set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The maximum number of limits times containers: about a hundred times more than any cluster has. Every limit is
/// compared with every container, and may give it a default.
const WORK_MAX: usize = 50_000;
/// The maximum stored size of all LimitRanges in a namespace that a write is checked against: about five hundred times
/// what a cluster has. They are parsed for every Pod, and take ten times as much memory once parsed.
const RANGES_BYTES_MAX: usize = 256 * 1024;
/// What all defaults of a namespace may add to one Pod, in bytes of JSON: a hundred times what a Pod with many containers
/// gets. Half of it are names in the annotation, and with more that would be longer than annotations may be. Without a
/// limit, long names in a LimitRange would make many megabytes of a small Pod before it is refused for that.
const DEFAULTS_BYTES_MAX: usize = 512 * 1024;
/// The maximum number of violations that are listed.
const ERRORS_MAX: usize = 100;

fn mutate(request: &AdmissionRequest<'_>, object: &mut Value) {
    if !is_concerned(request) || !is_kind(request.resource, &POD) {
        return;
    }
    // If there is too much to do, `validate` refuses the Pod.
    let _ = for_each_range(request, object, |object, range| {
        set_defaults(object, range);
        Ok(())
    });
}

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    if !is_concerned(request) {
        return Ok(());
    }
    let mut amounts = None;
    let check = |object: &mut &Value, range: &Value| {
        let mut violations = Violations::default();
        if is_kind(request.resource, &POD) {
            check_pod(amounts.get_or_insert_with(|| PodAmounts::parse(object)), range, &mut violations);
        } else {
            check_claim(object, range, &mut violations);
        }
        violations.into_result()
    };
    for_each_range(request, &mut &*object, check).map_err(|why| request.forbidden(object, &why))
}

/// Visits the LimitRanges of the request's namespace one after the other, so that only one of them is in memory. Fails
/// before the first if they are too large, and at the one with which the limits or their defaults are too much for the
/// Pod.
fn for_each_range<T: std::borrow::Borrow<Value>>(
    request: &AdmissionRequest<'_>,
    object: &mut T,
    mut visit: impl FnMut(&mut T, &Value) -> Result<(), String>,
) -> Result<(), String> {
    let (snapshot, prefix) = (request.snapshot(), LIMIT_RANGE.storage().prefix_in(request.namespace));
    let bytes = snapshot.range(&prefix, "").map(|entry| entry.bytes.len()).sum::<usize>();
    if bytes > RANGES_BYTES_MAX {
        let (bytes, most) = (bytes / 1024, RANGES_BYTES_MAX / 1024);
        return Err(format!(
            "the LimitRanges of the namespace are too large: {bytes} KiB, and at most {most} KiB are checked"
        ));
    }
    let containers = if is_kind(request.resource, &POD) { count_containers((*object).borrow()) } else { 0 };
    let mut budget = PodBudget { containers, work: 0, defaults_bytes: 0 };
    for entry in snapshot.range(&prefix, "") {
        let range = encode::parse_entry(entry);
        budget.spend(&range)?;
        visit(object, &range)?;
    }
    Ok(())
}

/// What the LimitRanges cost a Pod so far. It counts what they may cost, whatever the Pod brings itself, so that `mutate`
/// and `validate` come to the same result.
struct PodBudget {
    containers: usize,
    /// Limits times containers.
    work: usize,
    /// The size of the defaults of all containers.
    defaults_bytes: usize,
}

impl PodBudget {
    fn spend(&mut self, range: &Value) -> Result<(), String> {
        let times = |count: usize| count.saturating_mul(self.containers);
        self.work = self.work.saturating_add(times(count_entries(range)));
        self.defaults_bytes = self.defaults_bytes.saturating_add(times(count_default_bytes(range)));
        if self.work > WORK_MAX {
            return Err(
                "the LimitRanges of the namespace have too many limits for so many containers".to_owned()
            );
        }
        if self.defaults_bytes > DEFAULTS_BYTES_MAX {
            let most = DEFAULTS_BYTES_MAX / 1024;
            return Err(format!(
                "the defaults of the LimitRanges of the namespace are too large for so many containers: at most {most} \
                 KiB are added to a Pod"
            ));
        }
        Ok(())
    }
}

/// Returns how many bytes the defaults of a LimitRange add for one container: to the container itself, and to the
/// annotation that lists them.
fn count_default_bytes(range: &Value) -> usize {
    /// Quotation marks, colons and commas around a default, and the separator of the annotation.
    const PUNCTUATION_BYTES: usize = 8;
    let bytes = |(name, amount): (&String, &Value)| {
        2 * name.len() + amount.as_str().map_or(0, str::len) + PUNCTUATION_BYTES
    };
    let defaults =
        limits_of_type(range, "Container").flat_map(|limit| [&limit["default"], &limit["defaultRequest"]]);
    defaults.filter_map(Value::as_object).flatten().map(bytes).sum()
}

fn count_containers(pod: &Value) -> usize {
    let count = |list: &str| pod["spec"][list].as_array().map_or(0, Vec::len);
    count("containers") + count("initContainers")
}

/// Returns the number of limits in a LimitRange, plus the number of amounts in them.
fn count_entries(range: &Value) -> usize {
    let entries = |limit: &Value| {
        let fields = limit.as_object().into_iter().flat_map(|fields| fields.values());
        1 + fields.filter_map(Value::as_object).map(serde_json::Map::len).sum::<usize>()
    };
    range["spec"]["limits"].as_array().into_iter().flatten().map(entries).sum()
}

/// Returns whether limits apply to this write. The amounts of an existing Pod's containers change only through a
/// resize.
fn is_concerned(request: &AdmissionRequest<'_>) -> bool {
    let may_have_ranges = request.backend.seen_kinds.may_have(RareKind::LimitRange);
    if !may_have_ranges || request.old.is_some_and(meta::is_deleting) {
        return false;
    }
    match (request.operation, request.subresource) {
        (Operation::Create, "") => true,
        (Operation::Update, "resize") => is_kind(request.resource, &POD),
        (Operation::Update, "") => is_kind(request.resource, &PERSISTENT_VOLUME_CLAIM),
        _ => false,
    }
}

/// The distinct violations of one LimitRange; only the first [`ERRORS_MAX`] are kept.
#[derive(Debug, Default)]
struct Violations(Vec<String>);

impl Violations {
    fn add(&mut self, violation: Option<String>) {
        if let Some(violation) = violation
            && self.0.len() < ERRORS_MAX
            && !self.0.contains(&violation)
        {
            self.0.push(violation);
        }
    }

    /// Formats the violations the way Kubernetes does.
    fn into_result(self) -> Result<(), String> {
        match &*self.0 {
            [] => Ok(()),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// The amounts that a Pod requests and is limited to, parsed once for all limits.
struct PodAmounts {
    /// The requests and the limits of each container.
    containers: Vec<(Amounts, Amounts)>,
    /// The requests and the limits of the Pod as a whole.
    total: (Amounts, Amounts),
}

impl PodAmounts {
    fn parse(pod: &Value) -> Self {
        let lists = ["containers", "initContainers"];
        let containers = lists.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
        let parse = |container: &Value, which: &str| parse_amounts(&container["resources"][which]);
        Self {
            containers: containers.map(|one| (parse(one, "requests"), parse(one, "limits"))).collect(),
            total: (total(pod, "requests"), total(pod, "limits")),
        }
    }
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
    // Limits come first, as in Kubernetes: a missing request does not become the default limit.
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

fn check_pod(pod: &PodAmounts, range: &Value, violations: &mut Violations) {
    for limit in limits_of_type(range, "Container") {
        for amounts in &pod.containers {
            check_limit(limit, amounts, violations);
        }
    }
    for limit in limits_of_type(range, "Pod") {
        check_limit(limit, &pod.total, violations);
    }
}

fn check_claim(claim: &Value, range: &Value, violations: &mut Violations) {
    let requests = parse_amounts(&claim["spec"]["resources"]["requests"]);
    for limit in limits_of_type(range, "PersistentVolumeClaim") {
        for (name, least) in parse_amounts(&limit["min"]) {
            let given = RequestAndLimit::new(&name, &requests, &Amounts::new());
            violations.add(check_least(limit, &name, least, &given).err());
        }
        for (name, most) in parse_amounts(&limit["max"]) {
            let bound = format!("maximum {name} usage per PersistentVolumeClaim is {most}");
            violations.add(match requests.get(&name) {
                None => Some(format!("{bound}.  No request is specified")),
                Some(request) if request.nanos() > most.nanos() => {
                    Some(format!("{bound}, but request is {request}"))
                }
                Some(_) => None,
            });
        }
    }
}

/// The request and the limit for one resource.
struct RequestAndLimit {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl RequestAndLimit {
    fn new(name: &str, requests: &Amounts, limits: &Amounts) -> Self {
        Self { request: requests.get(name).copied(), limit: limits.get(name).copied() }
    }
}

fn check_limit(limit: &Value, (requests, limits): &(Amounts, Amounts), violations: &mut Violations) {
    type Check = fn(&Value, &str, Quantity, &RequestAndLimit) -> Result<(), String>;
    let checks: [(&str, Check); 3] =
        [("min", check_least), ("max", check_most), ("maxLimitRequestRatio", check_ratio)];
    for (field, check) in checks {
        for (name, bound) in parse_amounts(&limit[field]) {
            let given = RequestAndLimit::new(&name, requests, limits);
            violations.add(check(limit, &name, bound, &given).err());
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
            let mut violations = Violations::default();
            check_pod(&PodAmounts::parse(&pod), &range(&limit), &mut violations);
            assert_eq!(violations.0, expected);
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

    #[test]
    fn violations_are_bounded_while_they_are_collected() {
        let limits =
            (0..3 * ERRORS_MAX).map(|at| json!({"type": "Pod", "max": {format!("r{}", at / 2): "1"}}));
        let range = json!({"spec": {"limits": limits.collect::<Vec<_>>()}});
        let mut violations = Violations::default();
        check_pod(&PodAmounts::parse(&json!({})), &range, &mut violations);
        assert_eq!(violations.0.len(), ERRORS_MAX);
        assert_eq!(violations.0[1], "maximum r1 usage per Pod is 1.  No limit is specified");
    }
}
