//! What the bookkeeping of field managers costs per write, printed per case.
//!
//! Run with `cargo run --release -p homeostat-api --example managed_fields_cost`. Creates must stay below 15 µs: at
//! 15 000 creates a second on two cores the whole request has little more than 100 µs.

use std::hint::black_box;

use homeostat_api::patch::apply::{FieldManager, apply, track_update};
use homeostat_api::schema::{SchemaRef, built_in};
use homeostat_core::Clock;
use serde_json::{Value, json};

/// Writes per batch, and batches per case: the fastest batch counts, because others on the machine only slow one down.
const BATCH: u32 = 200;
const BATCHES: u32 = 100;

fn main() {
    let config_map = built_in("", "v1", "ConfigMap").expect("a built-in kind");
    let deployment = built_in("apps", "v1", "Deployment").expect("a built-in kind");
    cases("ConfigMap of 1 KB", "v1", "ConfigMap", &config_map, &one_kilobyte());
    cases("Deployment", "apps/v1", "Deployment", &deployment, &web());
}

fn cases(title: &str, api_version: &str, kind: &str, schema: &SchemaRef, object: &Value) {
    let manager =
        FieldManager { name: "someone", api_version, kind, subresource: "", time: Clock::system().now() };
    println!("{title} ({} bytes)", object.to_string().len());
    let objects = || object.clone();
    let nothing = || Value::Null;
    let track = |live: Option<&Value>, mut new: Value| {
        track_update(Some(schema), live, &mut new, &manager, &["status"]);
        new
    };
    measure("copying the object alone", nothing, |_| object.clone());
    measure("create", objects, |new| track(None, new));
    let live = track(None, object.clone());
    let changed = || {
        let mut new = live.clone();
        new["metadata"]["labels"]["app"] = "other".into();
        new
    };
    measure("update of one field", changed, |new| track(Some(&live), new));
    measure("update of nothing", || live.clone(), |new| track(Some(&live), new));
    let apply = |live: Option<&Value>, config: &Value| {
        apply(Some(schema), live, config, &manager, true, &["status"]).expect("no conflict")
    };
    let applied = apply(None, object);
    let mut less = object.clone();
    less["metadata"].as_object_mut().expect("metadata").remove("labels");
    measure("apply that creates", objects, |config| apply(None, &config));
    measure("apply of the same", objects, |config| apply(Some(&applied), &config));
    measure("apply that gives up fields", || less.clone(), |config| apply(Some(&applied), &config));
}

/// Prints the mean time of `act` in the fastest batch, without that of `prepare`.
fn measure(title: &str, prepare: impl Fn() -> Value, act: impl Fn(Value) -> Value) {
    let batch = || {
        let inputs = (0..BATCH).map(|_| prepare()).collect::<Vec<_>>();
        let clock = Clock::system();
        let start = clock.instant();
        let outputs = inputs.into_iter().map(|input| black_box(act(input))).collect::<Vec<_>>();
        let nanoseconds = clock.since(start).as_nanos() / u128::from(BATCH);
        drop(outputs);
        nanoseconds
    };
    let nanoseconds = (0..BATCHES).map(|_| batch()).min().unwrap_or_default();
    println!("  {title:<28} {:>6}.{:03} µs", nanoseconds / 1000, nanoseconds % 1000);
}

fn one_kilobyte() -> Value {
    let data = (0..16).map(|at| (format!("key-{at}"), json!("v".repeat(40)))).collect::<Value>();
    let metadata = json!({"name": "a", "namespace": "default", "labels": {"app": "a", "tier": "b"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn web() -> Value {
    let container = json!({
        "name": "main", "image": "example.test/app:1", "imagePullPolicy": "IfNotPresent", "resources": {},
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30
            }}
        },
        "status": {}
    })
}
