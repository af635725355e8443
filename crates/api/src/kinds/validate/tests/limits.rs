//! Tests limits in namespaces, and certificate signing requests.

use super::*;

#[test]
fn limit_ranges() {
    let limit = |limit: Value, expected: &[&str]| {
        create("", "LimitRange", json!({"spec": {"limits": [limit]}}), expected);
    };
    limit(
        json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "default": {"cpu": "500m"}}),
        &[],
    );
    limit(
        json!({"type": "Fruit"}),
        &[
            "Invalid spec.limits[0].type: Invalid value: \"Fruit\": must be a standard limit type or fully qualified",
        ],
    );
    limit(
        json!({"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}}),
        &[
            "Invalid spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
            "Forbidden spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ],
    );
    limit(
        json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "3"}, "default": {"cpu": "4"}, "defaultRequest": {"cpu": "1"}}),
        &[
            "Invalid spec.limits[0].default[cpu]: Invalid value: \"3\": default value 4 is greater than max value 3",
            "Invalid spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
        ],
    );
    limit(
        json!({"type": "PersistentVolumeClaim"}),
        &[
            "Required spec.limits[0].limits: Required value: either minimum or maximum storage value is required",
        ],
    );
    limit(
        json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
        &[
            "Invalid spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
        ],
    );
    create(
        "",
        "LimitRange",
        json!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}),
        &["Duplicate spec.limits[1].type: Duplicate value: \"Pod\""],
    );
}

#[test]
fn quotas() {
    let quota = |spec: Value, expected: &[&str]| create("", "ResourceQuota", json!({"spec": spec}), expected);
    quota(json!({"hard": {"pods": "10", "requests.cpu": "1500m", "count/widgets.example.com": "5"}}), &[]);
    quota(json!({"hard": {"pods": "10"}, "scopes": ["BestEffort"]}), &[]);
    quota(
        json!({"hard": {"pods": "-1", "pigs": "1", "services": "1500m"}}),
        &[
            "Invalid spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
            "Invalid spec.hard[pigs]: Invalid value: \"pigs\": must be a standard resource type or fully qualified",
            "Invalid spec.hard[pigs]: Invalid value: \"pigs\": must be a standard resource for quota",
            "Invalid spec.hard[services]: Invalid value: \"1500m\": must be an integer",
        ],
    );
    quota(
        json!({"hard": {"services": "1"}, "scopes": ["Terminating", "NotTerminating", "Odd"]}),
        &[
            "Invalid spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: unsupported scope",
            "Invalid spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: unsupported scope applied",
            "Invalid spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: unsupported scope applied",
            "Invalid spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: conflicting scopes",
        ],
    );
    quota(
        json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"},
            {"scopeName": "BestEffort", "operator": "Like"}]}}),
        &[
            "Required spec.scopeSelector.matchExpressions.values: Required value: must be at least one value",
            "Invalid spec.scopeSelector.matchExpressions.operator: Invalid value: \"Like\": must be 'Exists' when scope",
            "Invalid spec.scopeSelector.matchExpressions.operator: Invalid value: \"Like\": not a valid selector operator",
        ],
    );
    update(
        "",
        "ResourceQuota",
        json!({"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}),
        |new| new["spec"]["scopes"] = json!(["NotBestEffort"]),
        &["Invalid spec.scopes: Invalid value: [\"NotBestEffort\"]: field is immutable"],
    );
}

#[test]
fn certificate_requests() {
    // "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n"
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KQUE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let request = |spec: Value, expected: &[&str]| {
        create("certificates.k8s.io", "CertificateSigningRequest", json!({"spec": spec}), expected);
    };
    let signer = "kubernetes.io/kube-apiserver-client";
    request(json!({"request": pem, "signerName": signer, "usages": ["client auth"]}), &[]);
    request(
        json!({"request": "YWJj", "usages": ["client auth", "client auth", "fun"], "expirationSeconds": 599}),
        &[
            "Invalid spec.request: Invalid value: \"YWJj\": PEM block type must be CERTIFICATE REQUEST",
            "Required spec.signerName: Required value",
            "Duplicate spec.usages[1]: Duplicate value: \"client auth\"",
            "NotSupported spec.usages[2]: Unsupported value: \"fun\": supported values: \"any\", \"cert sign\"",
            "Invalid spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds",
        ],
    );
    for (name, expected) in [
        (
            "plain",
            vec![
                "Invalid spec.signerName: Invalid value: \"plain\": must be a fully qualified domain and path",
            ],
        ),
        (
            "here/x",
            vec![
                "Invalid spec.signerName: Invalid value: \"here\": should be a domain with at least two segments",
            ],
        ),
        (
            "a.b/X",
            vec![
                "Invalid spec.signerName: Invalid value: \"X\": validating label \"X\": a lowercase RFC 1123 subdomain",
            ],
        ),
        (
            "kubernetes.io/legacy-unknown",
            vec!["Invalid spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy"],
        ),
    ] {
        request(json!({"request": pem, "signerName": name, "usages": ["any"]}), &expected);
    }
    request(json!({"request": pem, "signerName": signer}), &["Required spec.usages: Required value"]);
}
