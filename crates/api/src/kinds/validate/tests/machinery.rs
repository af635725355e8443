//! Tests kinds that the cluster itself creates: classes, revisions, APIs, flows, attachments and addresses.

use super::*;

const NETWORKING: &str = "networking.k8s.io";

#[test]
fn ingress_classes() {
    let class =
        |spec: Value, expected: &[&str]| create(NETWORKING, "IngressClass", json!({"spec": spec}), expected);
    class(json!({"controller": "example.com/ingress"}), &[]);
    class(json!({}), &["Required spec.controller: Required value"]);
    class(
        json!({"controller": "nginx"}),
        &[
            "Invalid spec.controller: Invalid value: \"nginx\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ],
    );
    class(
        json!({"controller": "A/b c"}),
        &[
            "Invalid spec.controller: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            "Invalid spec.controller: Invalid value: \"b c\": Invalid path (regex used",
        ],
    );
    class(
        json!({"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}}),
        &["Required spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
    );
    update(
        NETWORKING,
        "IngressClass",
        json!({"spec": {"controller": "a.b/c"}}),
        |new| new["spec"]["controller"] = json!("a.b/d"),
        &["Invalid spec.controller: Invalid value: \"a.b/d\": field is immutable"],
    );
}

#[test]
fn revisions() {
    create("apps", "ControllerRevision", json!({"revision": 0, "data": {}}), &[]);
    create(
        "apps",
        "ControllerRevision",
        json!({"revision": -1}),
        &[
            "Required data: Required value: data is mandatory",
            "Invalid revision: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    update(
        "apps",
        "ControllerRevision",
        json!({"revision": 1, "data": {"a": 1}}),
        |new| new["data"] = json!({"a": 2}),
        &["Invalid data: Invalid value: {\"a\":2}: field is immutable"],
    );
}

#[test]
fn api_services() {
    let service = |name: &str, spec: Value, expected: &[&str]| {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        create("apiregistration.k8s.io", "APIService", object, expected);
    };
    let good = json!({"group": "a.dev", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "service": {"namespace": "n", "name": "s"}});
    service("v1.a.dev", good.clone(), &[]);
    service("v1.", json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}), &[]);
    service(
        "other",
        good,
        &[
            "Invalid metadata.name: Invalid value: \"other\": must be `spec.version+\".\"+spec.group`: \"v1.a.dev\"",
        ],
    );
    service(
        "v1.a.dev",
        json!({"group": "a.dev", "version": "v1", "versionPriority": 1001, "service": {"name": "s", "port": 70000}}),
        &[
            "Invalid spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            "Invalid spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            "Required spec.service.namespace: Required value",
            "Invalid spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
        ],
    );
}

#[test]
fn flows() {
    let group = "flowcontrol.apiserver.k8s.io";
    let schema = |spec: Value, expected: &[&str]| {
        create(group, "FlowSchema", json!({"metadata": {"name": "f"}, "spec": spec}), expected);
    };
    let level = json!({"name": "workload-low"});
    schema(json!({"priorityLevelConfiguration": level}), &[]);
    schema(
        json!({}),
        &["Required spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
    );
    for (precedence, expected) in [
        (-1, "must be a positive value"),
        (1, "only the schema named 'exempt' may have matchingPrecedence 1"),
        (10_001, "must not be greater than 10000"),
    ] {
        let text = format!("Invalid spec.matchingPrecedence: Invalid value: {precedence}: {expected}");
        schema(json!({"matchingPrecedence": precedence, "priorityLevelConfiguration": level}), &[&text]);
    }
    schema(
        json!({"priorityLevelConfiguration": level, "distinguisherMethod": {"type": "ByMood"}, "rules": [{}]}),
        &[
            "NotSupported spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"ByMood\"}: supported values: \"ByNamespace\", \"ByUser\"",
            "Required spec.rules[0].subjects: Required value: subjects must contain at least one value",
            "Required spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ],
    );
    let level = |spec: Value, expected: &[&str]| {
        create(
            group,
            "PriorityLevelConfiguration",
            json!({"metadata": {"name": "l"}, "spec": spec}),
            expected,
        );
    };
    level(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}), &[]);
    level(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}), &[]);
    level(
        json!({"type": "Some"}),
        &["NotSupported spec.type: Unsupported value: \"Some\": supported values: \"Exempt\", \"Limited\""],
    );
    level(
        json!({"type": "Exempt"}),
        &["Invalid spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"],
    );
    level(
        json!({"type": "Limited"}),
        &["Required spec.limited: Required value: must not be empty when type is Limited"],
    );
    level(
        json!({"type": "Limited", "limited": {"lendablePercent": 101,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 5}}}}),
        &[
            "Invalid spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            "Invalid spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)",
        ],
    );
}

#[test]
fn attachments() {
    let attachment = |spec: Value, expected: &[&str]| {
        create("storage.k8s.io", "VolumeAttachment", json!({"spec": spec}), expected);
    };
    attachment(
        json!({"attacher": "csi.a.dev", "nodeName": "n", "source": {"persistentVolumeName": "v"}}),
        &[],
    );
    attachment(
        json!({}),
        &[
            "Required spec.attacher: Required value",
            "Required spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            "Invalid spec.nodeName: Invalid value: \"\": a lowercase RFC 1123 subdomain",
        ],
    );
    update(
        "storage.k8s.io",
        "VolumeAttachment",
        json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        |new| new["spec"]["nodeName"] = json!("m"),
        &["Invalid spec: Invalid value: {"],
    );
}

#[test]
fn addresses() {
    let address = |name: &str, expected: &[&str]| {
        let parent = json!({"resource": "services", "name": "s", "namespace": "n"});
        let object = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        create(NETWORKING, "IPAddress", object, expected);
    };
    for good in ["10.0.0.1", "2001:db8::1"] {
        address(good, &[]);
    }
    for (name, expected) in [
        ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("2001:DB8::1", "must be in canonical form (\"2001:db8::1\")"),
    ] {
        address(name, &[&format!("Invalid metadata.name: Invalid value: \"{name}\": {expected}")]);
    }
    create(
        NETWORKING,
        "IPAddress",
        json!({"metadata": {"name": "10.0.0.1"}}),
        &["Required spec.parentRef: Required value"],
    );
}

#[test]
fn ranges() {
    let ranges = |cidrs: Value, expected: &[&str]| {
        create(NETWORKING, "ServiceCIDR", json!({"spec": {"cidrs": cidrs}}), expected);
    };
    ranges(json!(["10.0.0.0/24", "2001:db8::/64"]), &[]);
    ranges(json!([]), &["Required spec.cidrs: Required value: at least one CIDR required"]);
    ranges(
        json!(["10.0.0.0/33"]),
        &["Invalid spec.cidrs[0]: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value"],
    );
    ranges(
        json!(["10.0.0.1/24"]),
        &[
            "Invalid spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
        ],
    );
    ranges(json!(["0.0.0.0/0"]), &[]);
    ranges(
        json!(["10.0.0.0/24", "10.1.0.0/24"]),
        &[
            "Invalid spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family",
        ],
    );
    let old = json!({"spec": {"cidrs": ["10.0.0.0/24"]}});
    let with = |cidrs: Value, expected: &[&str]| {
        update(NETWORKING, "ServiceCIDR", old.clone(), |new| new["spec"]["cidrs"] = cidrs.clone(), expected);
    };
    with(json!(["10.0.0.0/24", "2001:db8::/64"]), &[]);
    with(
        json!(["10.1.0.0/24"]),
        &["Invalid spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
    );
}

#[test]
fn access_reviews() {
    let review = |spec: Value, expected: &[&str]| check(&access(&spec), expected);
    let path = json!({"path": "/", "verb": "get"});
    review(json!({"resourceAttributes": {}}), &[]);
    review(json!({"nonResourceAttributes": path}), &[]);
    review(
        json!({}),
        &["Invalid spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes"],
    );
    review(
        json!({"resourceAttributes": {}, "nonResourceAttributes": path}),
        &[
            "Invalid spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in combination",
        ],
    );
    let exists = json!([{"key": "a", "operator": "Exists"}]);
    for name in ["fieldSelector", "labelSelector"] {
        let with = |selector: Value, expected: &[String]| {
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            let mut spec = json!({"resourceAttributes": {}});
            spec["resourceAttributes"][name] = selector;
            review(spec, &expected);
        };
        let place = format!("spec.resourceAttributes.{name}");
        with(json!({"rawSelector": "a=b"}), &[]);
        with(json!({"requirements": exists}), &[]);
        with(json!({"requirements": [{"key": "a", "operator": "Newer", "values": ["x"]}]}), &[]);
        with(
            json!({"rawSelector": "a=b", "requirements": exists}),
            &[format!(
                "Invalid {place}.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"
            )],
        );
        let needed = format!("when {place} is specified, requirements or rawSelector is required");
        with(json!({}), &[format!("Required {place}.requirements: Required value: {needed}")]);
        with(
            json!({"requirements": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]}]}),
            &[
                format!("Required {place}.requirements[0].values"),
                format!("Forbidden {place}.requirements[1].values"),
            ],
        );
    }
}
