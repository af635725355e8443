//! Deployments and their like, Jobs and CronJobs.

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
