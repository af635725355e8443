//! Tests Deployments and similar kinds, Jobs and CronJobs.

use super::*;

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
fn failure_policies() {
    let with = |rules: Value, restart: &str, expected: &[&str]| {
        let mut object = job();
        object["spec"]["podFailurePolicy"] = json!({"rules": rules});
        object["spec"]["template"]["spec"]["restartPolicy"] = json!(restart);
        create("batch", "Job", object, expected);
    };
    let codes = json!({"operator": "In", "values": [1, 42]});
    let good = json!([{"action": "FailJob", "onExitCodes": codes},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    with(good.clone(), "Never", &[]);
    let only = "Invalid spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified";
    with(good, "OnFailure", &[only]);
    let rule = "spec.podFailurePolicy.rules[0]";
    let one = |rule: Value, expected: &[String]| {
        with(json!([rule]), "Never", &expected.iter().map(|text| &**text).collect::<Vec<_>>());
    };
    one(
        json!({"action": "Panic", "onExitCodes": codes}),
        &[format!(
            "NotSupported {rule}.action: Unsupported value: \"Panic\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""
        )],
    );
    one(
        json!({"action": "FailIndex", "onExitCodes": codes}),
        &[format!(
            "Invalid {rule}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"
        )],
    );
    one(
        json!({}),
        &[
            format!(
                "Required {rule}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"
            ),
            format!(
                "Invalid {rule}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
            ),
        ],
    );
    one(
        json!({"action": "Count", "onExitCodes": codes, "onPodConditions": [{"type": "Ready", "status": "No"}]}),
        &[
            format!(
                "Invalid {rule}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
            ),
            format!(
                "NotSupported {rule}.onPodConditions[0].status: Unsupported value: \"No\": supported values: \"False\", \"True\", \"Unknown\""
            ),
        ],
    );
    one(
        json!({"action": "Count", "onExitCodes": {"operator": "In", "containerName": "x", "values": [2, 0, 2]}}),
        &[
            format!(
                "Invalid {rule}.onExitCodes.containerName: Invalid value: \"x\": must be one of the container or"
            ),
            format!(
                "Invalid {rule}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"
            ),
            format!("Duplicate {rule}.onExitCodes.values[2]: Duplicate value: 2"),
            format!("Invalid {rule}.onExitCodes.values: Invalid value: [2,0,2]: must be ordered"),
        ],
    );
    one(
        json!({"action": "Count", "onExitCodes": {"operator": "Is", "values": []}}),
        &[
            format!(
                "NotSupported {rule}.onExitCodes.operator: Unsupported value: \"Is\": supported values: \"In\", \"NotIn\""
            ),
            format!("Invalid {rule}.onExitCodes.values: Invalid value: []: at least one value is required"),
        ],
    );
}

#[test]
fn who_runs_a_job_has_a_domain() {
    let with = |manager: &str, expected: &[&str]| {
        let mut object = job();
        object["spec"]["managedBy"] = json!(manager);
        create("batch", "Job", object, expected);
    };
    with("example.com/runner", &[]);
    with("runner", &["Invalid spec.managedBy: Invalid value: \"runner\": must be a domain-prefixed path"]);
    with("", &["Required spec.managedBy"]);
    with(&format!("example.com/{}", "x".repeat(60)), &["TooLong spec.managedBy"]);
}

#[test]
fn ordinals_start_at_zero_or_above() {
    let mut object = deployment();
    object["spec"]["ordinals"] = json!({"start": -1});
    create(
        "apps",
        "StatefulSet",
        object,
        &["Invalid spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
    );
}
