//! Tests Pods: containers, volumes, numbers, and which fields may change.

use super::*;

fn pod(containers: &Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}})
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
    with(|pod| pod["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "x"}]), forbidden);
    with(
        |pod| pod["spec"]["containers"] = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]),
        &["Forbidden spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
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

/// Returns a Pod with one valid container with fields merged into its spec.
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
    // A negative grace period becomes one second.
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

#[test]
fn variables_and_files_show_known_fields() {
    let shows = |source: Value, expected: &[&str]| {
        let containers = json!([{"name": "a", "image": "i", "env": [{"name": "N", "valueFrom": source}]}]);
        create("", "Pod", pod(&containers), expected);
    };
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    for good in
        ["metadata.uid", "status.podIPs", "spec.host", "metadata.labels['a/b']", "metadata.annotations['A']"]
    {
        shows(field(good), &[]);
    }
    let place = "spec.containers[0].env[0].valueFrom";
    let text = format!(
        "Invalid {place}.fieldRef.fieldPath: Invalid value: \"metadata.foo\": error converting fieldPath: field label not supported: metadata.foo"
    );
    shows(field("metadata.foo"), &[&text]);
    let text = format!(
        "NotSupported {place}.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\""
    );
    shows(field("status.phase"), &[&text]);
    let text = format!("Invalid {place}.fieldRef: Invalid value: \"/\": prefix part must be non-empty");
    let others = format!("Invalid {place}.fieldRef: Invalid value: \"/\": name part must");
    shows(field("metadata.labels['/']"), &[&text, &others, &others]);
    let text = format!(
        "Invalid {place}.fieldRef.fieldPath: Invalid value: \"spec.x['y']\": error converting fieldPath: field label does not support subscript: spec.x['y']"
    );
    shows(field("spec.x['y']"), &[&text]);
    let resource =
        |name: &str, divisor: &str| json!({"resourceFieldRef": {"resource": name, "divisor": divisor}});
    shows(resource("limits.memory", "1Mi"), &[]);
    shows(resource("requests.hugepages-2Mi", "0"), &[]);
    let text = format!(
        "NotSupported {place}.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\""
    );
    shows(resource("limits.gpu", "0"), &[&text]);
    let text = format!(
        "Invalid {place}.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
    );
    shows(resource("limits.cpu", "1Ki"), &[&text]);
    let items = json!([{"path": "n", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "m", "fieldRef": {"fieldPath": "spec.nodeName"}}, {"path": "r", "resourceFieldRef": {"resource": "limits.cpu"}}]);
    create(
        "",
        "Pod",
        pod_with(&json!({"volumes": [{"name": "d", "downwardAPI": {"items": items}}]})),
        &[
            "NotSupported spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\"",
            "Required spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value",
        ],
    );
}

#[test]
fn affinity_terms_are_well_formed() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let node = |expressions: Value, expected: &[&str]| {
        let affinity =
            json!({"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}});
        create("", "Pod", pod_with(&json!({"affinity": affinity})), expected);
    };
    node(
        json!([{"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "Gt", "values": ["1"]},
        {"key": "a", "operator": "Exists"}]),
        &[],
    );
    let place = format!("spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[0].matchExpressions");
    let expected = [
        format!("Invalid {place}[0].operator: Invalid value: \"Has\": not a valid selector operator"),
        format!(
            "Required {place}[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
        ),
        format!(
            "Forbidden {place}[2].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        ),
        format!(
            "Required {place}[3].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
        ),
        format!(
            "Invalid {place}[4].values[0]: Invalid value: \"a b\": a valid label must be an empty string"
        ),
    ];
    node(
        json!([{"key": "a", "operator": "Has"}, {"key": "a", "operator": "NotIn"},
            {"key": "a", "operator": "Exists", "values": ["b"]}, {"key": "a", "operator": "Lt", "values": ["1", "2"]},
            {"key": "a", "operator": "In", "values": ["a b"]}]),
        &expected.each_ref().map(|text| &**text),
    );
    let affinity = json!({"nodeAffinity": {required: {"nodeSelectorTerms": []}}, "podAffinity": {required: [{}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101,
            "podAffinityTerm": {"topologyKey": "zone"}}]}});
    let key = format!("spec.affinity.podAffinity.{required}[0].topologyKey");
    let expected = [
        format!("Required spec.affinity.nodeAffinity.{required}.nodeSelectorTerms: Required value: must have at least one node selector term"),
        format!("Required {key}: Required value: can not be empty"),
        format!("Invalid {key}: Invalid value: \"\": name part must be non-empty"),
        format!("Invalid {key}: Invalid value: \"\": name part must consist of"),
        "Invalid spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100".into(),
    ];
    create("", "Pod", pod_with(&json!({"affinity": affinity})), &expected.each_ref().map(|text| &**text));
}

#[test]
fn what_others_define_comes_in_whole_pieces() {
    let asks = |limits: Value, requests: Value, expected: &[&str]| {
        let containers =
            json!([{"name": "a", "image": "i", "resources": {"limits": limits, "requests": requests}}]);
        create("", "Pod", pod(&containers), expected);
    };
    let place = "spec.containers[0].resources";
    let card = |amount: &str| json!({"example.com/x": amount});
    asks(card("2"), card("2"), &[]);
    let text = format!("Invalid {place}.limits[example.com/x]: Invalid value: \"1500m\": must be an integer");
    let other = text.replace("limits", "requests");
    asks(card("1500m"), card("1500m"), &[&text, &other]);
    let text =
        format!("Invalid {place}.requests: Invalid value: \"1\": must be equal to example.com/x limit of 2");
    asks(card("2"), card("1"), &[&text]);
    let text = format!("Invalid {place}.limits[pigs]: Invalid value: \"pigs\": must be a standard resource");
    asks(
        json!({"pigs": "1"}),
        json!({"pigs": "1"}),
        &[&text, &text, &text.replace("limits", "requests"), &text.replace("limits", "requests")],
    );
    let text = format!("Forbidden {place}: Forbidden: HugePages require cpu or memory");
    asks(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi"}), &[&text]);
}

#[test]
fn kernel_settings_and_host_paths() {
    let sysctls = json!([{"name": "net.core.somaxconn", "value": "1"}, {"name": "Kernel", "value": "1"},
        {"name": "a..b", "value": "1"}, {"name": "kernel/shm_rmid_forced", "value": "1"},
        {"name": "kernel/shm_rmid_forced", "value": "1"}]);
    let place = "spec.securityContext.sysctls";
    let format_text = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let expected = [
        format!(
            "Invalid {place}[0].name: Invalid value: \"net.core.somaxconn\": may not be specified when 'hostNetwork' is true"
        ),
        format!("Invalid {place}[1].name: Invalid value: \"Kernel\": {format_text}"),
        format!("Invalid {place}[2].name: Invalid value: \"a..b\": {format_text}"),
        format!("Duplicate {place}[4].name: Duplicate value: \"kernel/shm_rmid_forced\""),
    ];
    create(
        "",
        "Pod",
        pod_with(&json!({"hostNetwork": true, "securityContext": {"sysctls": sysctls}})),
        &expected.each_ref().map(|text| &**text),
    );
    let volumes = json!([{"name": "a", "hostPath": {"path": "/a/../b"}}, {"name": "b", "hostPath": {"path": "/b", "type": "Dir"}},
        {"name": "c", "hostPath": {"path": "/..c", "type": "Directory"}}]);
    create(
        "",
        "Pod",
        pod_with(&json!({"volumes": volumes})),
        &[
            "Invalid spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            "NotSupported spec.volumes[1].hostPath.type: Unsupported value: \"Dir\": supported values: \"\", \"BlockDevice\"",
        ],
    );
}

#[test]
fn containers_say_what_fits_their_pod() {
    let with = |container: Value, spec: Value, expected: &[&str]| {
        let mut object = pod(&json!([{"name": "a", "image": "x"}]));
        let merge = |target: &mut Value, more: &Value| {
            for (name, value) in more.as_object().into_iter().flatten() {
                target[name] = value.clone();
            }
        };
        merge(&mut object["spec"]["containers"][0], &container);
        merge(&mut object["spec"], &spec);
        create("", "Pod", object, expected);
    };
    let (place, plain) = ("spec.containers[0]", json!({}));
    for image in [" x", "x "] {
        let said = format!(
            "Invalid {place}.image: Invalid value: {image:?}: must not have leading or trailing whitespace"
        );
        with(json!({"image": image}), plain.clone(), &[&said]);
    }
    let refused =
        |context: &str| format!("Invalid {place}.securityContext: Invalid value: {context}: cannot set");
    let context = json!({"allowPrivilegeEscalation": false, "privileged": true});
    with(json!({"securityContext": context}), plain.clone(), &[&refused(&context.to_string())]);
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}});
    with(json!({"securityContext": context}), plain.clone(), &[&refused(&context.to_string())]);
    with(
        json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
        json!({"securityContext": {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}}}),
        &[
            "Required spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when",
            "Invalid spec.securityContext.seccompProfile.localhostProfile: Invalid value: {\"LocalhostProfile\":\"a\"",
        ],
    );
    with(
        json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "/a/.."}}}),
        json!({"securityContext": {"seccompProfile": {}}}),
        &[
            "Invalid spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: \"/a/..\": must be a r",
            "Invalid spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: \"/a/..\": must not co",
            "Required spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set",
        ],
    );
    with(
        json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "cpu", "restartPolicy": "Maybe"}, {"resourceName": "disk", "restartPolicy": "NotRequired"}]}),
        plain.clone(),
        &[
            "Duplicate spec.containers[0].resizePolicy[1]: Duplicate value: \"cpu\"",
            "NotSupported spec.containers[0].resizePolicy: Unsupported value: \"Maybe\": supported values: \"NotRequired\"",
            "NotSupported spec.containers[0].resizePolicy: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"",
        ],
    );
    with(
        json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
        json!({"restartPolicy": "Never"}),
        &[
            "Invalid spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when",
        ],
    );
    let system = "NotSupported spec.os: Unsupported value: \"dos\": supported values: \"linux\", \"windows\"";
    with(plain.clone(), json!({"os": {"name": "dos"}}), &[system]);
    with(plain.clone(), json!({"os": {"name": "linux"}}), &[]);
    with(plain.clone(), json!({"os": {}}), &["Required spec.os.name"]);
    with(plain.clone(), json!({"dnsConfig": {"searches": ["_a.b_c.", ".", "x.y"]}}), &[]);
    with(
        plain,
        json!({"dnsConfig": {"searches": ["A b"]}}),
        &[
            "Invalid spec.dnsConfig.searches[0]: Invalid value: \"A b\": a lowercase RFC 1123 subdomain must consist",
        ],
    );
    let long: Vec<String> = (0..9).map(|_| "a".repeat(250)).collect();
    with(
        json!({}),
        json!({"dnsConfig": {"searches": long}}),
        &["Invalid spec.dnsConfig.searches: Invalid value: "],
    );
}

#[test]
fn containers_use_what_their_pod_has() {
    let with = |container: Value, claims: Value, volumes: Value, expected: &[&str]| {
        let mut object = pod(&json!([container]));
        object["spec"]["resourceClaims"] = claims;
        object["spec"]["volumes"] = volumes;
        create("", "Pod", object, expected);
    };
    let using = |claims: Value| json!({"name": "a", "image": "x", "resources": {"claims": claims}});
    let declared =
        json!([{"name": "c", "resourceClaimName": "one"}, {"name": "d", "resourceClaimTemplateName": "t"}]);
    with(using(json!([{"name": "c"}, {"name": "d", "request": "r"}])), declared.clone(), json!([]), &[]);
    with(
        using(json!([{"name": "e"}, {"name": "c", "request": "r"}, {"name": "c"}, {}])),
        declared,
        json!([]),
        &[
            "NotFound spec.containers[0].resources.claims[0]: Not found: \"e\": must be one of the names in pod.spec.resourceClaims: c, d",
            "Duplicate spec.containers[0].resources.claims[2]: Duplicate value: \"c\"",
            "Required spec.containers[0].resources.claims[3]",
        ],
    );
    with(
        using(json!([{"name": "e"}])),
        json!([]),
        json!([]),
        &[
            "NotFound spec.containers[0].resources.claims[0]: Not found: \"e\": must be one of the names in pod.spec.resourceClaims which is empty",
        ],
    );
    with(
        json!({"name": "a", "image": "x"}),
        json!([{"name": "c"}, {"name": "c", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
        json!([]),
        &[
            "Invalid spec.resourceClaims[0]: Invalid value: {\"Name\":\"c\"",
            "Duplicate spec.resourceClaims[1].name",
            "Invalid spec.resourceClaims[1]: Invalid value: {\"Name\":\"c\"",
        ],
    );
    let seeing = |devices: Value| json!({"name": "a", "image": "x", "volumeDevices": devices});
    let volumes =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "emptyDir": {}}]);
    with(seeing(json!([{"name": "v", "devicePath": "/dev/x"}])), json!([]), volumes.clone(), &[]);
    with(
        seeing(
            json!([{"name": "e", "devicePath": "/dev/x"}, {"name": "w", "devicePath": "/a/../b"}, {"name": "v"}]),
        ),
        json!([]),
        volumes,
        &[
            "Invalid spec.containers[0].volumeDevices[0].name: Invalid value: \"e\": can only use volume source type",
            "NotFound spec.containers[0].volumeDevices[1].name: Not found: \"w\"",
            "Invalid spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/a/../b\": can not contain backsteps",
            "Required spec.containers[0].volumeDevices[2].devicePath",
        ],
    );
    let mut object = pod(&json!([{"name": "a", "image": "x"}]));
    object["spec"]["serviceAccountName"] = json!("s");
    object["spec"]["volumes"] = json!([{"name": "e", "ephemeral": {}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 599}}]}}]);
    create(
        "",
        "Pod",
        object,
        &[
            "Required spec.volumes[0].ephemeral.volumeClaimTemplate",
            "Invalid spec.volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not",
            "Required spec.volumes[1].projected.path",
        ],
    );
}

#[test]
fn files_stay_in_their_volume() {
    let mut object = pod(&json!([{"name": "a", "image": "x"}]));
    let item = |path: &str| json!({"key": "k", "path": path});
    object["spec"]["volumes"] = json!([
        {"name": "c", "configMap": {"name": "c", "items": [item("a/b"), item("/etc"), item("a/../b")]}},
        {"name": "s", "secret": {"secretName": "s", "items": [item("..data"), {"key": "", "path": "", "mode": 512}]}},
        {"name": "p", "projected": {"sources": [{"secret": {"name": "s", "items": [item("../x")]}},
            {"downwardAPI": {"items": [{"path": "/n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]);
    create(
        "",
        "Pod",
        object,
        &[
            "Invalid spec.volumes[0].configMap.items[1].path: Invalid value: \"/etc\": must be a relative",
            "Invalid spec.volumes[0].configMap.items[2].path: Invalid value: \"a/../b\": must not contain '..'",
            "Invalid spec.volumes[1].secret.items[0].path: Invalid value: \"..data\": must not start with '..'",
            "Required spec.volumes[1].secret.items[1].key",
            "Required spec.volumes[1].secret.items[1].path",
            "Invalid spec.volumes[1].secret.items[1].mode: Invalid value: 512: must be a number between",
            "Invalid spec.volumes[2].projected.sources[0].secret.items[0].path: Invalid value: \"../x\": must not contain",
            "Invalid spec.volumes[2].projected.sources[1].downwardAPI.path: Invalid value: \"/n\": must be a relative",
        ],
    );
}
