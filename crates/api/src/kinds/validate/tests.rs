//! Tests with objects that kube-apiserver rejected, and the causes it gave: field and reason, in any order.

mod limits;
mod machinery;
mod pods;
mod statuses;
mod workloads;

use serde_json::json;

use super::*;
use crate::field::Error;
use crate::kinds::declared;
use crate::kinds::rbac::GROUP as RBAC;

fn validate_create(group: &str, kind: &str, object: &Value) -> Errors {
    super::validate_create(declared(group, "v1", kind), object)
}

fn validate_update(group: &str, kind: &str, subresource: &str, new: &Value, old: &Value) -> Errors {
    super::validate_update(declared(group, "v1", kind), subresource, new, old)
}

fn default(group: &str, kind: &str, object: &mut Value) {
    crate::kinds::defaults::default(declared(group, "v1", kind), object);
}

fn causes(errors: &[Error]) -> Vec<String> {
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| format!("{} {}", error.kind.reason().trim_start_matches("FieldValue"), error))
        .collect();
    causes.sort();
    causes
}

/// Compares errors with the expected causes: reason, field, and as much of the text as matters.
#[track_caller]
fn check(errors: &[Error], expected: &[&str]) {
    let causes = causes(errors);
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let fits = causes.len() == expected.len()
        && causes.iter().zip(&expected).all(|(cause, start)| cause.starts_with(start));
    assert!(fits, "got {causes:#?}\nexpected {expected:#?}");
}

#[track_caller]
fn create(group: &str, kind: &str, mut object: Value, expected: &[&str]) {
    default(group, kind, &mut object);
    check(&validate_create(group, kind, &object), expected);
}

/// Validates an update from `old` to the result of `change`.
#[track_caller]
fn update(group: &str, kind: &str, mut old: Value, change: impl Fn(&mut Value), expected: &[&str]) {
    default(group, kind, &mut old);
    let mut new = old.clone();
    change(&mut new);
    check(&validate_update(group, kind, "", &new, &old), expected);
}

#[test]
fn services() {
    create("", "Service", json!({"spec": {"ports": [{"port": 80}]}}), &[]);
    create("", "Service", json!({"spec": {}}), &["Required spec.ports"]);
    create("", "Service", json!({"spec": {"clusterIP": "None"}}), &[]);
    create(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 0}]}}),
        &[
            "Invalid spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "Invalid spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ],
    );
    create(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
        &["Required spec.ports[0].name", "Required spec.ports[1].name"],
    );
    create(
        "",
        "Service",
        json!({"spec": {"type": "Fancy", "ports": [{"port": 80}]}}),
        &[
            "NotSupported spec.type: Unsupported value: \"Fancy\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ],
    );
    create(
        "",
        "Service",
        json!({"spec": {"ports": [{"port": 80, "protocol": "ICMP"}]}}),
        &[
            "NotSupported spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ],
    );
    create("", "Service", json!({"spec": {"type": "ExternalName"}}), &["Required spec.externalName"]);
    update(
        "",
        "Service",
        json!({"spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80}]}}),
        |new| {
            new["spec"]["clusterIP"] = json!("None");
            new["spec"]["clusterIPs"] = json!(["None"]);
        },
        &["Invalid spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"],
    );
}

#[test]
fn services_are_reached_from_outside() {
    let service = |name: &str, value: Value, expected: &[&str]| {
        let mut object = json!({"spec": {"ports": [{"port": 80}]}});
        object["spec"][name] = value;
        create("", "Service", object, expected);
    };
    service("externalIPs", json!(["192.0.2.1", "2001:db8::1", "239.1.1.1"]), &[]);
    for (address, why) in [
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("::1", "may not be in the loopback range"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("169.254.1.1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("fe80::1", "may not be in the link-local range"),
        ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("ff02::1", "may not be in the link-local multicast range"),
        ("x", "must be a valid IP address"),
    ] {
        let said = format!("Invalid spec.externalIPs[0]: Invalid value: {address:?}: {why}");
        service("externalIPs", json!([address]), &[&said]);
    }
    service("trafficDistribution", json!("PreferSameNode"), &[]);
    service(
        "trafficDistribution",
        json!("Far"),
        &[
            "NotSupported spec.trafficDistribution: Unsupported value: \"Far\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
        ],
    );
}

#[test]
fn an_ingress_has_one_class() {
    let ingress = |class: Value| {
        json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}, "spec": {"ingressClassName": class,
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
    };
    let said = "Invalid annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when";
    create("networking.k8s.io", "Ingress", ingress(json!("b")), &[said]);
    create("networking.k8s.io", "Ingress", ingress(json!("a")), &[]);
    create("networking.k8s.io", "Ingress", ingress(Value::Null), &[]);
    let change = |new: &mut Value| new["spec"]["ingressClassName"] = json!("b");
    update("networking.k8s.io", "Ingress", ingress(json!("a")), change, &[]);
}

#[test]
fn config_maps_and_secrets() {
    let frozen = json!({"data": {"k": "1"}, "immutable": true});
    let forbidden = "Forbidden: field is immutable when `immutable` is set";
    update(
        "",
        "ConfigMap",
        frozen.clone(),
        |new| new["data"]["k"] = json!("2"),
        &[&format!("Forbidden data: {forbidden}")],
    );
    update(
        "",
        "ConfigMap",
        frozen,
        |new| new["immutable"] = Value::Null,
        &[&format!("Forbidden immutable: {forbidden}")],
    );
    create(
        "",
        "ConfigMap",
        json!({"data": {"": "x"}}),
        &["Invalid data[]: Invalid value: \"\": a valid config key"],
    );
    let big = "x".repeat(1024 * 1024 + 1);
    create(
        "",
        "ConfigMap",
        json!({"data": {"k": big}}),
        &["TooLong []: Too long: may not be more than 1048576 bytes"],
    );
    create(
        "",
        "Secret",
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
        &["Required data[tls.key]"],
    );
    create(
        "",
        "Secret",
        json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm90IGpzb24="}}),
        &["Invalid data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": "],
    );
    create(
        "",
        "Secret",
        json!({"type": "kubernetes.io/service-account-token"}),
        &["Required metadata.annotations[kubernetes.io/service-account.name]"],
    );
    update(
        "",
        "Secret",
        json!({"type": "a/b"}),
        |new| new["type"] = json!("Opaque"),
        &["Invalid type: Invalid value: \"Opaque\": field is immutable"],
    );
}

#[test]
fn roles_and_bindings() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"]});
    create(
        RBAC,
        "Role",
        json!({"rules": [rule]}),
        &["Required rules[0].verbs: Required value: verbs must contain at least one value"],
    );
    update(
        RBAC,
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
        |new| new["roleRef"]["name"] = json!("other"),
        &[
            "Invalid roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: cannot change roleRef",
        ],
    );
}

#[test]
fn leases_budgets_and_priorities() {
    let lease = |spec: Value, expected: &[&str]| {
        create("coordination.k8s.io", "Lease", json!({"spec": spec}), expected);
    };
    lease(json!({"leaseDurationSeconds": 15}), &[]);
    lease(
        json!({"leaseDurationSeconds": 0}),
        &["Invalid spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    );
    lease(
        json!({"leaseTransitions": -1}),
        &["Invalid spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
    );
    create("policy", "PodDisruptionBudget", json!({"spec": {"minAvailable": "50%"}}), &[]);
    create(
        "policy",
        "PodDisruptionBudget",
        json!({"spec": {"minAvailable": "half"}}),
        &["Invalid spec.minAvailable"],
    );
    create("scheduling.k8s.io", "PriorityClass", json!({"value": 10}), &[]);
    create("scheduling.k8s.io", "PriorityClass", json!({"value": 2_000_000_000}), &["Forbidden value"]);
}

#[test]
fn storage_and_network() {
    create(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
        &["Required spec.resources[storage]: Required value"],
    );
    update(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        |new| new["spec"]["accessModes"] = json!(["ReadWriteMany"]),
        &["Forbidden spec: Forbidden: spec is immutable after creation except resources.requests"],
    );
    update(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]}),
        |new| new["addressType"] = json!("IPv6"),
        &["Invalid addressType: Invalid value: \"IPv6\": field is immutable"],
    );
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    create("networking.k8s.io", "Ingress", json!({"spec": {"rules": [{"http": {"paths": [path]}}]}}), &[]);
    create(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {}}),
        &["Invalid spec: Invalid value: null: either"],
    );
    create(
        "networking.k8s.io",
        "NetworkPolicy",
        json!({"spec": {"ingress": [{"from": [{}]}]}}),
        &["Required spec.ingress[0].from[0]"],
    );
}

#[test]
fn autoscalers_and_webhooks() {
    let spec =
        json!({"minReplicas": 9, "maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "w"}});
    create(
        "autoscaling",
        "HorizontalPodAutoscaler",
        json!({"spec": spec}),
        &["Invalid spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
    );
    create(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        json!({"webhooks": [{"name": "nodots", "clientConfig": {}}]}),
        &[
            "Required webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            "Required webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            "Invalid webhooks[0].name: Invalid value: \"nodots\": should be a domain with at least three segments",
            "Required webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ],
    );
}

#[test]
fn events_have_two_sets_of_rules() {
    let event = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"kind": "ConfigMap",
        "name": "a", "namespace": "n"}});
    create("", "Event", event.clone(), &[]);
    create(
        "events.k8s.io",
        "Event",
        event,
        &["Required eventTime", "Invalid type: Invalid value: \"\": has invalid value: "],
    );
    let newer = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"},
        "eventTime": "2020-01-01T00:00:00.000000Z", "reportingComponent": "example.test/op", "reportingInstance": "op-0",
        "action": "Sync", "reason": "Synced", "type": "Normal", "message": "done"});
    create("events.k8s.io", "Event", newer.clone(), &[]);
    let changed = "Invalid reason: Invalid value: \"Other\": field is immutable";
    update("events.k8s.io", "Event", newer, |new| new["reason"] = json!("Other"), &[changed, changed]);
}
