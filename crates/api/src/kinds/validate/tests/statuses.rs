//! Tests what the endpoints below an object reject: invalid statuses and decisions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const REQUESTS: (&str, &str) = ("certificates.k8s.io", "CertificateSigningRequest");

/// Validates the change from `old` to the object with this status.
#[track_caller]
fn status((group, kind): (&str, &str), old: &Value, status: Value, expected: &[&str]) {
    let mut new = old.clone();
    new["status"] = status;
    check(&validate_update(group, kind, "status", &new, old), expected);
}

#[test]
fn the_phase_of_a_namespace_says_whether_it_goes() {
    let kind = ("", "Namespace");
    let there = json!({"metadata": {"name": "n"}});
    let going = json!({"metadata": {"name": "n", "deletionTimestamp": "2020-01-01T00:00:00Z"}});
    status(kind, &there, json!({"phase": "Active"}), &[]);
    status(kind, &there, json!({}), &[]);
    status(kind, &going, json!({"phase": "Terminating"}), &[]);
    for phase in ["Terminating", "Odd"] {
        let said = format!(
            "Invalid status.Phase: Invalid value: {phase:?}: may only be 'Active' if `deletionTimestamp` is empty"
        );
        status(kind, &there, json!({ "phase": phase }), &[&said]);
    }
    let said = "Invalid status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty";
    status(kind, &going, json!({"phase": "Active"}), &[said]);
    let finalize = |finalizers: Value, expected: &[&str]| {
        let new = json!({"spec": {"finalizers": finalizers}});
        check(&validate_update("", "Namespace", "finalize", &new, &json!({})), expected);
    };
    finalize(json!(["kubernetes", "example.com/x"]), &[]);
    finalize(json!(["odd"]), &["Invalid spec.finalizers[0]: Invalid value: \"odd\": name is neither"]);
}

#[test]
fn the_status_of_a_pod() {
    let kind = ("", "Pod");
    let old = json!({"spec": {"nodeName": "n", "restartPolicy": "OnFailure", "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"qosClass": "BestEffort", "podIPs": [{"ip": "odd"}], "containerStatuses": [
            {"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"terminated": {"exitCode": 1}}}]}});
    let with = |more: Value, expected: &[&str]| {
        let mut new = old["status"].clone();
        for (name, value) in more.as_object().into_iter().flatten() {
            new[name] = value.clone();
        }
        status(kind, &old, new, expected);
    };
    with(
        json!({"conditions": [{"type": "Ready"}, {"type": "example.com/gate"}], "observedGeneration": 1}),
        &[],
    );
    with(
        json!({"qosClass": "Burstable"}),
        &["Invalid status.qosClass: Invalid value: \"Burstable\": field is immutable"],
    );
    with(
        json!({"conditions": [{"type": "a b"}, {"type": "c", "observedGeneration": -1}]}),
        &[
            "Invalid status.conditions[0].Type: Invalid value: \"a b\": name part must consist",
            "Invalid status.conditions[1].observedGeneration: Invalid value: -1: must be a non-negative integer",
        ],
    );
    with(
        json!({"podIPs": [{"ip": "x"}]}),
        &["Invalid status.podIPs[0]: Invalid value: \"x\": must be a valid IP"],
    );
    with(json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}), &[]);
    with(
        json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}),
        &[
            "Invalid status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
        ],
    );
    with(json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}), &[]);
    with(
        json!({"hostIPs": [{"ip": "10.0.0.1"}]}),
        &["Invalid status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"],
    );
    with(
        json!({"nominatedNodeName": "m"}),
        &[
            "Forbidden status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
        ],
    );
    let running = json!({"running": {}});
    with(
        json!({"containerStatuses": [{"name": "a", "state": running}, {"name": "b", "state": running}]}),
        &[
            "Forbidden status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
        ],
    );
}

#[test]
fn the_counts_of_workloads_add_up() {
    let over = |name: &str, number: i64| {
        format!("Invalid status.{name}: Invalid value: {number}: cannot be greater than status.replicas")
    };
    for kind in [("apps", "ReplicaSet"), ("", "ReplicationController")] {
        let counts =
            json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 3});
        let expected = [
            over("fullyLabeledReplicas", 2),
            over("readyReplicas", 2),
            over("availableReplicas", 3),
            "Invalid status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas"
                .to_owned(),
        ];
        status(kind, &json!({}), counts, &expected.each_ref().map(String::as_str));
        status(kind, &json!({}), json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1}), &[]);
    }
    let set = ("apps", "StatefulSet");
    status(set, &json!({}), json!({"replicas": 1, "updatedReplicas": 2}), &[&over("updatedReplicas", 2)]);
    let old = json!({"status": {"collisionCount": 2}});
    let fewer = "Invalid status.collisionCount: Invalid value: 0: cannot be decremented";
    status(("apps", "DaemonSet"), &old, json!({}), &[fewer]);
    status(
        ("policy", "PodDisruptionBudget"),
        &json!({}),
        json!({"disruptionsAllowed": -1, "expectedPods": -2}),
        &[
            "Invalid status.disruptionsAllowed: Invalid value: -1",
            "Invalid status.expectedPods: Invalid value: -2",
        ],
    );
}

#[test]
fn a_job_ends_once() {
    let kind = ("batch", "Job");
    let said = |kinds: &[&str]| -> Value {
        kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
    };
    let running = json!({"spec": {"completionMode": "NonIndexed"}, "status": {"startTime": "2020-01-01T00:00:00Z", "active": 1}});
    let time = "2020-01-01T00:00:00Z";
    let done = json!({"startTime": time, "completionTime": time, "conditions": said(&["SuccessCriteriaMet", "Complete"])});
    status(kind, &running, done.clone(), &[]);
    status(
        kind,
        &running,
        json!({"startTime": time, "conditions": said(&["FailureTarget", "Failed"]), "failed": 1}),
        &[],
    );
    let refused = |text: &str| format!("Invalid status.conditions: Invalid value: {text}");
    status(
        kind,
        &running,
        json!({"startTime": time, "completionTime": time,
            "conditions": said(&["SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"])}),
        &[
            &refused("cannot set Complete=True and Failed=true conditions"),
            &refused("cannot set Complete=True and FailureTarget=true conditions"),
            &refused("cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            &refused("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
        ],
    );
    status(
        kind,
        &running,
        json!({"conditions": said(&["Complete"]), "active": 1, "ready": 2}),
        &[
            &refused("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"),
            "Required status.completionTime: Required value: completionTime is required for Complete jobs",
            "Required status.startTime: Required value: startTime is required for finished job",
            "Invalid status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            "Invalid status.active: Invalid value: 1: active>0 is invalid for finished job",
            "Invalid status.ready: Invalid value: 2: cannot set more ready pods than active",
        ],
    );
    let over = json!({"spec": {}, "status": done});
    status(
        kind,
        &over,
        json!({"startTime": time, "completionTime": "2019-01-01T00:00:00Z", "conditions": said(&["SuccessCriteriaMet"])}),
        &[
            &refused("cannot disable the terminal Complete=True condition"),
            "Invalid status.completionTime: Invalid value: \"2019-01-01T00:00:00Z\": cannot set completionTime when there is no",
            "Invalid status.completionTime: Invalid value: \"2019-01-01T00:00:00Z\": must be equal to or after `startTime`",
            "Invalid status.completionTime: Invalid value: \"2019-01-01T00:00:00Z\": field is immutable",
        ],
    );
}

#[test]
fn where_load_balancers_are_reached() {
    let service = |kind: &str| json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [{"ip": "old"}]}}});
    let at = |ingress: Value| json!({"loadBalancer": {"ingress": [ingress]}});
    let kind = ("", "Service");
    status(kind, &service("LoadBalancer"), at(json!({"ip": "10.0.0.1", "ipMode": "VIP"})), &[]);
    status(kind, &service("LoadBalancer"), at(json!({"ip": "old", "ipMode": "Proxy"})), &[]);
    status(
        kind,
        &service("ClusterIP"),
        at(json!({"ip": "10.0.0.1"})),
        &[
            "Forbidden status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ],
    );
    status(
        kind,
        &service("LoadBalancer"),
        at(json!({"ip": "x", "hostname": "10.0.0.1"})),
        &[
            "Invalid status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address",
            "Required status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set",
            "Invalid status.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name",
        ],
    );
    let ingress = ("networking.k8s.io", "Ingress");
    status(ingress, &json!({}), at(json!({"ip": "10.0.0.1"})), &[]);
    status(ingress, &json!({}), at(json!({"ip": "x"})), &["Invalid status.loadBalancer.ingress[0].ip"]);
}

#[test]
fn what_others_gave_a_node_stays() {
    let twice =
        json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "10.0.0.1"}]);
    let said =
        "Duplicate status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"10.0.0.1\"}";
    status(("", "Node"), &json!({}), json!({"addresses": twice}), &[said]);
    let old = json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a"}});
    let change = |new: &mut Value| {
        new["spec"] = json!({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"], "providerID": "b"});
    };
    let changed = [
        "Forbidden spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
        "Forbidden spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
    ];
    update("", "Node", old, change, &changed);
    update("", "Node", json!({"spec": {}}), change, &[]);
}

#[test]
fn a_request_for_a_certificate_is_decided_once() {
    let (group, kind) = REQUESTS;
    let old = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]}});
    let decide = |old: &Value, conditions: Value, expected: &[&str]| {
        let new = json!({"status": {"conditions": conditions}});
        check(&validate_update(group, kind, "approval", &new, old), expected);
    };
    let fresh = json!({});
    decide(&fresh, json!([{"type": "Approved", "status": "True"}]), &[]);
    decide(&fresh, json!([{"type": "Mine", "status": "Unknown"}]), &[]);
    decide(
        &fresh,
        json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
        &[
            "Invalid status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
        ],
    );
    decide(
        &fresh,
        json!([{"type": "Denied", "status": "False"}, {"status": "True"}, {"type": "x"}, {"type": "x", "status": "True"}]),
        &[
            "NotSupported status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
            "Required status.conditions[1].type",
            "Required status.conditions[2].status",
            "Duplicate status.conditions[3].type: Duplicate value: \"x\"",
        ],
    );
    decide(
        &old,
        json!([]),
        &[
            "Forbidden status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
            "Forbidden status.conditions: Forbidden: updates may not remove a condition of type \"Failed\"",
        ],
    );
    let both = json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]);
    decide(&json!({"status": {"conditions": both}}), both, &[]);
}

#[test]
fn a_certificate_is_issued_once() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("signed").pem();
    let (good, bad) = (STANDARD.encode(certificate), STANDARD.encode("hello"));
    let issued = |certificate: &str| json!({ "certificate": certificate });
    status(REQUESTS, &json!({}), issued(&good), &[]);
    status(
        REQUESTS,
        &json!({}),
        issued(&bad),
        &[
            "Invalid status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
        ],
    );
    let stays =
        "Forbidden status.certificate: Forbidden: updates may not modify existing certificate content";
    let has = |certificate: &str| json!({"status": {"certificate": certificate}});
    status(REQUESTS, &has(&good), issued(&good), &[]);
    status(REQUESTS, &has(&good), json!({}), &[stays]);
    status(REQUESTS, &has(&bad), issued(&bad), &[]);
}
