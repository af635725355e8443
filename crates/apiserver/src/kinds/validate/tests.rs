//! What the real server refused, and the causes it gave: field and reason, in any order.

use serde_json::json;

use super::*;

fn causes(errors: &[Error]) -> Vec<String> {
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| format!("{} {}", error.kind.reason().trim_start_matches("FieldValue"), error))
        .collect();
    causes.sort();
    causes
}

/// Each expected cause is the start of one: reason, field, and as much of the text as matters.
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
    crate::kinds::defaults::default(group, "v1", kind, &mut object);
    check(&validate_create(group, kind, &object), expected);
}

/// `change` is merged into `old` one level below `spec` (or at the top).
#[track_caller]
fn update(group: &str, kind: &str, mut old: Value, change: impl Fn(&mut Value), expected: &[&str]) {
    crate::kinds::defaults::default(group, "v1", kind, &mut old);
    let mut new = old.clone();
    change(&mut new);
    check(&validate_update(group, kind, "", &new, &old), expected);
}

fn pod(containers: &Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}})
}

fn deployment() -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "x"}]}}}})
}

fn job() -> Value {
    let labels = json!({"controller-uid": "u", "job-name": "j", "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j"});
    json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"suspend": true,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {"metadata": {"labels": labels},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}}})
}

#[test]
fn pods() {
    create("", "Pod", pod(&json!([{"name": "a", "image": "x"}])), &[]);
    create("", "Pod", pod(&json!([])), &["Required spec.containers: Required value"]);
    create("", "Pod", pod(&json!([{"name": "a"}])), &["Required spec.containers[0].image"]);
    create(
        "",
        "Pod",
        pod(&json!([{"name": "A_b", "image": "x"}])),
        &["Invalid spec.containers[0].name: Invalid value: \"A_b\": a lowercase RFC 1123 label"],
    );
    create(
        "",
        "Pod",
        pod(&json!([{"name": "a", "image": "x"}, {"name": "a", "image": "x"}])),
        &["Duplicate spec.containers[1].name: Duplicate value: \"a\""],
    );
    create(
        "",
        "Pod",
        pod(&json!([{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}])),
        &["NotFound spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
    );
    create(
        "",
        "Pod",
        pod(&json!([{"name": "a", "image": "x", "ports": [{"containerPort": 70000}]}])),
        &[
            "Invalid spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    );
    create(
        "",
        "Pod",
        pod(&json!([{"name": "a", "image": "x", "env": [{"value": "1"}]}])),
        &["Required spec.containers[0].env[0].name"],
    );
    create(
        "",
        "Pod",
        pod(
            &json!([{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
        ),
        &[
            "Invalid spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ],
    );
    let mut odd = pod(&json!([{"name": "a", "image": "x"}]));
    odd["spec"]["restartPolicy"] = json!("Maybe");
    create(
        "",
        "Pod",
        odd,
        &[
            "NotSupported spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn a_full_pod_is_refused_for_its_token_only() {
    let full = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"tcpSocket": {"port": "http"}},
        "startupProbe": {"exec": {"command": ["x"]}}, "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        "resources": {"limits": {"cpu": "1"}}, "volumeMounts": [{"name": "cm", "mountPath": "/cm"}]}],
        "initContainers": [{"name": "i", "image": "y:1"}],
        "volumes": [{"name": "cm", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}},
            {"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}},
                {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}});
    create(
        "",
        "Pod",
        full,
        &["Forbidden spec.volumes[4].projected.sources[0].serviceAccountToken: Forbidden: must not be"],
    );
}

#[test]
fn a_volume_has_one_source() {
    let mut object = pod(&json!([{"name": "a", "image": "x"}]));
    object["spec"]["volumes"] =
        json!([{"name": "v", "configMap": {"name": "c"}, "secret": {"secretName": "s"}}]);
    create(
        "",
        "Pod",
        object,
        &["Forbidden spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
    );
}

#[test]
fn changed_pods() {
    let old = pod(&json!([{"name": "a", "image": "x"}]));
    let with = |change: fn(&mut Value), expected: &[&str]| update("", "Pod", old.clone(), change, expected);
    with(|pod| pod["spec"]["containers"][0]["image"] = json!("y"), &[]);
    with(|pod| pod["spec"]["activeDeadlineSeconds"] = json!(5), &[]);
    let forbidden = &["Forbidden spec: Forbidden: pod updates may not change fields other than"];
    with(|pod| pod["spec"]["hostname"] = json!("h"), forbidden);
    with(|pod| pod["spec"]["nodeName"] = json!("h"), forbidden);
    with(
        |pod| pod["spec"]["containers"] = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]),
        &["Forbidden spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
}

#[test]
fn deployments() {
    create("apps", "Deployment", deployment(), &[]);
    let with = |change: fn(&mut Value), expected: &[&str]| {
        let mut object = deployment();
        change(&mut object);
        create("apps", "Deployment", object, expected);
    };
    with(
        |object| object["spec"]["selector"] = json!({"matchLabels": {"app": "other"}}),
        &[
            "Invalid spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
    with(
        |object| object["spec"]["replicas"] = json!(-1),
        &["Invalid spec.replicas: Invalid value: -1: must be greater"],
    );
    with(
        |object| object["spec"] = json!({}),
        &[
            "Required spec.selector",
            "Invalid spec.template.metadata.labels: Invalid value: null: `selector` does not match",
            "Required spec.template.spec.containers",
        ],
    );
    with(
        |object| object["spec"]["strategy"] = json!({"type": "Recreate", "rollingUpdate": {}}),
        &[
            "Forbidden spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ],
    );
    with(
        |object| object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        &[
            "Invalid spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ],
    );
    update(
        "apps",
        "Deployment",
        deployment(),
        |new| {
            new["spec"]["selector"] = json!({"matchLabels": {"app": "other"}});
            new["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
        },
        &["Invalid spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable"],
    );
}

#[test]
fn the_status_of_a_deployment() {
    check(
        &validate_update("apps", "Deployment", "status", &json!({"status": {"replicas": -1}}), &json!({})),
        &[
            "Invalid status.replicas: Invalid value: -1: must be greater than or equal to 0",
            "Invalid status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "Invalid status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "Invalid status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
        ],
    );
}

#[test]
fn other_workloads() {
    let labels = json!({"app": "w"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "x"}]}});
    let spec =
        json!({"spec": {"selector": {"matchLabels": labels}, "template": template, "serviceName": "s"}});
    for kind in ["ReplicaSet", "StatefulSet", "DaemonSet"] {
        create("apps", kind, spec.clone(), &[]);
        let mut empty = spec.clone();
        empty["spec"]["selector"] = json!({});
        let own = if kind == "ReplicaSet" { "deployment".into() } else { kind.to_lowercase() };
        create(
            "apps",
            kind,
            empty,
            &[&format!("Invalid spec.selector: Invalid value: {{}}: empty selector is invalid for {own}")],
        );
    }
    create("", "ReplicationController", json!({"spec": {"template": template}}), &[]);
    let mut claimed = spec.clone();
    claimed["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "www", "mountPath": "/www"}]);
    claimed["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "www"}, "spec": {}}]);
    create("apps", "StatefulSet", claimed, &[]);
    update(
        "apps",
        "StatefulSet",
        spec,
        |new| new["spec"]["serviceName"] = json!("t"),
        &["Forbidden spec: Forbidden: updates to statefulset spec for fields other than"],
    );
}

#[test]
fn jobs() {
    create("batch", "Job", job(), &[]);
    update("batch", "Job", job(), |new| new["spec"]["parallelism"] = json!(2), &[]);
    update(
        "batch",
        "Job",
        job(),
        |new| new["spec"]["completions"] = json!(5),
        &["Invalid spec.completions: Invalid value: 5: field is immutable"],
    );
    let mut forever = job();
    forever["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    create(
        "batch",
        "Job",
        forever,
        &[
            "Required spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn cron_jobs() {
    let object = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec":
        {"template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "m", "image": "x"}]}}}}}});
    create("batch", "CronJob", object.clone(), &[]);
    let with = |change: fn(&mut Value), expected: &[&str]| {
        update("batch", "CronJob", object.clone(), change, expected);
    };
    with(
        |new| new["spec"]["schedule"] = json!("not a schedule"),
        &[
            "Invalid spec.schedule: Invalid value: \"not a schedule\": expected exactly 5 fields, found 3: [not a schedule]",
        ],
    );
    with(
        |new| new["spec"]["timeZone"] = json!("Nowhere/City"),
        &["Invalid spec.timeZone: Invalid value: \"Nowhere/City\": unknown time zone Nowhere/City"],
    );
    with(|new| new["spec"]["timeZone"] = json!("Europe/Berlin"), &[]);
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
        events::GROUP,
        "Event",
        event,
        &["Required eventTime", "Invalid type: Invalid value: \"\": has invalid value: "],
    );
    let newer = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"},
        "eventTime": "2020-01-01T00:00:00.000000Z", "reportingComponent": "example.test/op", "reportingInstance": "op-0",
        "action": "Sync", "reason": "Synced", "type": "Normal", "message": "done"});
    create(events::GROUP, "Event", newer.clone(), &[]);
    let changed = "Invalid reason: Invalid value: \"Other\": field is immutable";
    update(events::GROUP, "Event", newer, |new| new["reason"] = json!("Other"), &[changed, changed]);
}

#[test]
fn ephemeral_containers_only_grow() {
    let with = |names: &[&str]| {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "x"})).collect();
        json!({"spec": {"containers": [{"name": "a", "image": "x"}], "ephemeralContainers": list}})
    };
    check(&validate_update("", "Pod", "ephemeralcontainers", &with(&["b", "c"]), &with(&["b"])), &[]);
    check(
        &validate_update("", "Pod", "ephemeralcontainers", &with(&["c"]), &with(&["b"])),
        &[
            "Forbidden spec.ephemeralContainers: Forbidden: existing ephemeral containers \"b\" may not be removed",
        ],
    );
    check(
        &validate_update("", "Pod", "ephemeralcontainers", &with(&["a"]), &with(&[])),
        &["Duplicate spec.ephemeralContainers[0].name"],
    );
}

#[test]
fn binding_may_set_the_node() {
    let old = pod(&json!([{"name": "a", "image": "x"}]));
    let mut new = old.clone();
    new["spec"]["nodeName"] = json!("n");
    check(&validate_update("", "Pod", "binding", &new, &old), &[]);
}

/// A Pod of one good container with fields merged into its spec.
fn pod_with(fields: &Value) -> Value {
    let mut made = pod(&json!([{"name": "a", "image": "i"}]));
    for (name, value) in fields.as_object().into_iter().flatten() {
        made["spec"][name] = value.clone();
    }
    made
}

#[test]
fn users_and_groups_are_numbers_of_31_bits() {
    let range = "must be between 0 and 2147483647, inclusive";
    let context = json!({"runAsUser": -1, "runAsGroup": 4_294_967_296_i64, "fsGroup": 2_147_483_648_i64,
        "supplementalGroups": [0, 2_147_483_647, -7]});
    let place = "Invalid spec.securityContext";
    let expected = [
        format!("{place}.fsGroup: Invalid value: 2147483648: {range}"),
        format!("{place}.runAsGroup: Invalid value: 4294967296: {range}"),
        format!("{place}.runAsUser: Invalid value: -1: {range}"),
        format!("{place}.supplementalGroups[2]: Invalid value: -7: {range}"),
    ];
    create(
        "",
        "Pod",
        pod_with(&json!({"securityContext": context})),
        &expected.each_ref().map(|text| &**text),
    );
    let containers =
        json!([{"name": "a", "image": "i", "securityContext": {"runAsUser": 9_999_999_999_i64}}]);
    create(
        "",
        "Pod",
        pod(&containers),
        &[
            "Invalid spec.containers[0].securityContext.runAsUser: Invalid value: 9999999999: must be between 0 and 2147483647",
        ],
    );
    create("", "Pod", pod_with(&json!({"securityContext": {"runAsUser": 0, "fsGroup": 2_147_483_647}})), &[]);
}

#[test]
fn numbers_of_pods_are_in_their_ranges() {
    create(
        "",
        "Pod",
        pod_with(&json!({"activeDeadlineSeconds": 0})),
        &[
            "Invalid spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ],
    );
    // A Pod that would end before it was asked to ends after a second.
    create("", "Pod", pod_with(&json!({"terminationGracePeriodSeconds": -5})), &[]);
    let probed = |probe: Value| json!([{"name": "a", "image": "i", "readinessProbe": probe}]);
    let probe =
        json!({"tcpSocket": {"port": 70000}, "periodSeconds": -1, "terminationGracePeriodSeconds": 5});
    create(
        "",
        "Pod",
        pod(&probed(probe)),
        &[
            "Invalid spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            "Invalid spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 70000: must be between 1 and 65535",
            "Invalid spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set",
        ],
    );
    let sleeping = json!([{"name": "a", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}]);
    create(
        "",
        "Pod",
        pod(&sleeping),
        &[
            "Invalid spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
        ],
    );
}

#[test]
fn what_a_pod_shares_with_its_host_fits() {
    let port = json!([{"name": "a", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}]);
    create(
        "",
        "Pod",
        pod_with(&json!({"hostNetwork": true, "containers": port})),
        &["Invalid spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort`"],
    );
    create(
        "",
        "Pod",
        pod_with(&json!({"hostPID": true, "shareProcessNamespace": true})),
        &[
            "Invalid spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both",
        ],
    );
    let asks = json!([{"name": "a", "image": "i", "resources": {"requests": {"example.com/card": "1"}}}]);
    create(
        "",
        "Pod",
        pod(&asks),
        &[
            "Required spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable",
        ],
    );
    let config = json!({"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "x"], "options": [{}]});
    create(
        "",
        "Pod",
        pod_with(&json!({"dnsConfig": config})),
        &[
            "Invalid spec.dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"x\"]: must not have more than 3 nameservers",
            "Invalid spec.dnsConfig.nameservers[3]: Invalid value: \"x\": must be a valid IP address",
            "Required spec.dnsConfig.options[0]: Required value: must not be empty",
        ],
    );
}

#[test]
fn gates_are_named_once_and_only_leave() {
    let gates = json!([{"name": "a.dev/x"}, {"name": "a.dev/x"}]);
    create(
        "",
        "Pod",
        pod_with(&json!({"schedulingGates": gates})),
        &["Duplicate spec.schedulingGates[1]: Duplicate value: \"a.dev/x\""],
    );
    let waiting = pod_with(&json!({"schedulingGates": [{"name": "a.dev/x"}]}));
    let change = |pod: &mut Value| pod["spec"]["schedulingGates"] = json!([{"name": "a.dev/y"}]);
    update(
        "",
        "Pod",
        waiting,
        change,
        &[
            "Forbidden spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.dev/y'",
        ],
    );
}
