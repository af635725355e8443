//! Tests Jobs: counting completions, retries, indexes, suspension, and Pods that finalizers must not hold back.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition};

fn job(name: &str, image: &str, spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Returns the numbers of active, succeeded and failed Pods.
fn counts(job: &Value) -> [i64; 3] {
    ["active", "succeeded", "failed"].map(|field| job["status"][field].as_i64().unwrap_or(0))
}

async fn finish(lab: &TestCluster, phase: &str) {
    for pod in lab.list::<Pod>().await {
        let running = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        if running && pod.metadata.deletion_timestamp.is_none() {
            lab.say(pod.metadata.name.as_deref().unwrap(), json!({"phase": phase})).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("one", "succeed", json!({}))).await;
    let one = lab.get::<Job>("one").await;
    assert_eq!(counts(&one), [0, 1, 0]);
    assert_eq!(condition(&one, "SuccessCriteriaMet"), "True CompletionsReached");
    assert_eq!(condition(&one, "Complete"), "True CompletionsReached");
    assert!(one["status"]["completionTime"].is_string() && one["status"]["startTime"].is_string());
    assert_eq!(one["status"]["uncountedTerminatedPods"], json!({}));
    assert_eq!(one["status"]["ready"], 0);
    let pod = &lab.list::<Pod>().await[0];
    assert_eq!(pod.metadata.finalizers, None, "a counted Pod is free");
    let created = format!("SuccessfulCreate: Created pod: {}", pod.metadata.name.as_deref().unwrap());
    let mut events = lab.events("one").await;
    events.sort();
    assert_eq!(events, ["Completed: Job completed".to_owned(), created]);
}

#[tokio::test(start_paused = true)]
async fn completions_in_parallel() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("many", "wait", json!({"completions": 5, "parallelism": 2}))).await;
    for (done, active) in [(0, 2), (2, 2), (4, 1)] {
        assert_eq!(counts(&lab.get::<Job>("many").await), [active, done, 0]);
        finish(&lab, "Succeeded").await;
    }
    let many = lab.get::<Job>("many").await;
    assert_eq!(counts(&many), [0, 5, 0]);
    assert_eq!(condition(&many, "Complete"), "True CompletionsReached");
    assert_eq!(lab.pods().await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_later_and_later() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("bad", "fail", json!({"backoffLimit": 2}))).await;
    assert_eq!(counts(&lab.get::<Job>("bad").await), [0, 0, 1]);
    lab.pass(5).await;
    assert_eq!(lab.pods().await.len(), 1, "ten seconds before the first retry");
    lab.pass(6).await;
    assert_eq!(lab.pods().await.len(), 2);
    lab.pass(15).await;
    assert_eq!(lab.pods().await.len(), 2, "twenty before the second");
    lab.pass(20).await;
    let bad = lab.get::<Job>("bad").await;
    assert_eq!((counts(&bad), lab.pods().await.len()), ([0, 0, 3], 3));
    assert_eq!(condition(&bad, "FailureTarget"), "True BackoffLimitExceeded");
    assert_eq!(condition(&bad, "Failed"), "True BackoffLimitExceeded");
    let told = "BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert!(lab.events("bad").await.contains(&told.to_owned()));
    lab.pass(3600).await;
    assert_eq!(lab.pods().await.len(), 3, "a failed Job is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_it() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("late", "wait", json!({"activeDeadlineSeconds": 30, "parallelism": 2}))).await;
    lab.pass(29).await;
    assert_eq!(counts(&lab.get::<Job>("late").await), [2, 0, 0]);
    lab.pass(2).await;
    let late = lab.get::<Job>("late").await;
    assert_eq!(condition(&late, "Failed"), "True DeadlineExceeded");
    assert_eq!((counts(&late), lab.pods().await.len()), ([0, 0, 2], 0));
}

#[tokio::test(start_paused = true)]
async fn each_index_once() {
    let lab = TestCluster::new().await;
    let spec = json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"});
    lab.create::<Job>(job("rows", "wait", spec)).await;
    let pods = lab.list::<Pod>().await;
    assert!(lab.names::<Pod>().await[0].starts_with("rows-0-"));
    let spec = json!(pods[1].spec);
    assert_eq!(spec["hostname"], "rows-1");
    assert_eq!(spec["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    lab.say(pods[1].metadata.name.as_deref().unwrap(), json!({"phase": "Succeeded"})).await;
    let rows = lab.get::<Job>("rows").await;
    assert_eq!((counts(&rows), &rows["status"]["completedIndexes"]), ([2, 1, 0], &json!("1")));
    finish(&lab, "Succeeded").await;
    finish(&lab, "Succeeded").await;
    let rows = lab.get::<Job>("rows").await;
    assert_eq!((counts(&rows), &rows["status"]["completedIndexes"]), ([0, 4, 0], &json!("0-3")));
    assert_eq!(condition(&rows, "Complete"), "True CompletionsReached");
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_limit() {
    let lab = TestCluster::new().await;
    let spec =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    lab.create::<Job>(job("rows", "wait", spec)).await;
    for wait in [11, 1] {
        let failing = lab.list::<Pod>().await.into_iter().find(|pod| {
            let name = pod.metadata.name.as_deref().unwrap();
            name.starts_with("rows-0-") && pod.status.as_ref().unwrap().phase.as_deref() == Some("Running")
        });
        lab.say(failing.unwrap().metadata.name.as_deref().unwrap(), json!({"phase": "Failed"})).await;
        lab.pass(wait).await;
    }
    let rows = lab.get::<Job>("rows").await;
    assert_eq!((counts(&rows), &rows["status"]["failedIndexes"]), ([1, 0, 2], &json!("0")));
    finish(&lab, "Succeeded").await;
    let rows = lab.get::<Job>("rows").await;
    assert_eq!(condition(&rows, "Failed"), "True FailedIndexes");
    assert_eq!((counts(&rows), &rows["status"]["completedIndexes"]), ([0, 1, 2], &json!("1")));
}

#[tokio::test(start_paused = true)]
async fn policies_decide_early() {
    let lab = TestCluster::new().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
                      "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    lab.create::<Job>(job("enough", "wait", spec)).await;
    let first = lab.names::<Pod>().await.remove(0);
    lab.say(&first, json!({"phase": "Succeeded"})).await;
    let enough = lab.get::<Job>("enough").await;
    assert_eq!(condition(&enough, "Complete"), "True SuccessPolicy");
    assert_eq!(counts(&enough), [0, 1, 0], "those that are stopped have not failed");
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    lab.create::<Job>(job("fatal", "wait", json!({"podFailurePolicy": {"rules": [rule]}}))).await;
    let pod = lab.names::<Pod>().await.into_iter().find(|name| name.starts_with("fatal-")).unwrap();
    let exited = json!({"name": "main", "image": "wait", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"terminated": {"exitCode": 42}}});
    lab.say(&pod, json!({"phase": "Failed", "containerStatuses": [exited]})).await;
    assert_eq!(condition(&lab.get::<Job>("fatal").await, "Failed"), "True PodFailurePolicy");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("nap", "wait", json!({"suspend": true}))).await;
    let nap = lab.get::<Job>("nap").await;
    assert_eq!(
        (condition(&nap, "Suspended").as_str(), &nap["status"]["startTime"]),
        ("True JobSuspended", &Value::Null)
    );
    lab.patch::<Job>("nap", json!({"spec": {"suspend": false}})).await;
    assert_eq!(counts(&lab.get::<Job>("nap").await), [1, 0, 0]);
    lab.patch::<Job>("nap", json!({"spec": {"suspend": true}})).await;
    let nap = lab.get::<Job>("nap").await;
    assert_eq!((counts(&nap), lab.pods().await.len()), ([0, 0, 0], 0), "nothing failed");
    lab.patch::<Job>("nap", json!({"spec": {"suspend": false}})).await;
    finish(&lab, "Succeeded").await;
    assert_eq!(condition(&lab.get::<Job>("nap").await, "Complete"), "True CompletionsReached");
    assert_eq!(lab.events("nap").await.iter().filter(|event| event.starts_with("Resumed")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_after_its_time() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("brief", "succeed", json!({"ttlSecondsAfterFinished": 60}))).await;
    lab.pass(59).await;
    assert_eq!(lab.names::<Job>().await, ["brief"]);
    lab.pass(5).await;
    assert!(lab.names::<Job>().await.is_empty() && lab.pods().await.is_empty());
}

/// Another controller runs the Job, so no Pods are created here; its time to live still applies.
#[tokio::test(start_paused = true)]
async fn a_job_of_another_controller_goes_after_its_time() {
    let lab = TestCluster::new().await;
    let spec = json!({"ttlSecondsAfterFinished": 60, "managedBy": "demo.dev/theirs"});
    lab.create::<Job>(job("theirs", "succeed", spec)).await;
    lab.pass(10).await;
    assert!(lab.pods().await.is_empty());
    let now = "2027-01-15T08:00:00Z";
    let conditions = ["SuccessCriteriaMet", "Complete"].map(
        |r#type| json!({"type": r#type, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}),
    );
    let status = json!({"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions});
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    lab.api::<Job>().patch_status("theirs", &kube::api::PatchParams::default(), &patch).await.unwrap();
    lab.pass(70).await;
    assert!(lab.names::<Job>().await.is_empty());
}

/// A long Job name is truncated in the names of its Pods, but the index is not.
#[tokio::test(start_paused = true)]
async fn names_of_pods_keep_their_index() {
    let lab = TestCluster::new().await;
    let name = "a".repeat(58);
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    lab.create::<Job>(job(&name, "wait", spec)).await;
    let names = lab.names::<Pod>().await;
    let cut = "a".repeat(55);
    for (name, index) in names.iter().zip(0..2) {
        assert!(name.starts_with(&format!("{cut}-{index}-")) && name.len() == 63, "{name}");
    }
    assert_eq!(names.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_not_held() {
    let lab = TestCluster::new().await;
    for how in [DeleteParams::background(), DeleteParams::foreground()] {
        lab.create::<Job>(job("gone", "wait", json!({"parallelism": 3}))).await;
        lab.delete::<Job>("gone", &how).await;
        lab.pass(5).await;
        assert!(lab.names::<Job>().await.is_empty() && lab.pods().await.is_empty(), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_by_hand_counts_and_is_replaced() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("one", "wait", json!({}))).await;
    let first = lab.names::<Pod>().await.remove(0);
    lab.delete::<Pod>(&first, &DeleteParams::default()).await;
    lab.pass(11).await;
    assert_eq!(counts(&lab.get::<Job>("one").await), [1, 0, 1]);
    finish(&lab, "Succeeded").await;
    assert_eq!(counts(&lab.get::<Job>("one").await), [0, 1, 1]);
}

/// Stopping the node does not fail the Job, even one without retries.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_was_stopped_is_replaced_and_does_not_count() {
    let lab = TestCluster::new().await;
    lab.create::<Job>(job("one", "wait", json!({"backoffLimit": 0}))).await;
    let first = lab.names::<Pod>().await.remove(0);
    let stopped = json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"});
    lab.say(&first, json!({"phase": "Failed", "conditions": [stopped]})).await;
    assert_eq!(counts(&lab.get::<Job>("one").await), [1, 0, 0], "replaced at once");
    finish(&lab, "Succeeded").await;
    assert_eq!(counts(&lab.get::<Job>("one").await), [0, 1, 0]);
}
