//! Tests CronJobs: a Job on time, under each policy. The test cluster starts on the hour.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::{Value, json};

use super::test_cluster::TestCluster;

fn cron(schedule: &str, image: &str, spec: Value) -> Value {
    let mut cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": {
        "metadata": {"labels": {"made-by": "tick"}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}}}}});
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

/// The minute at which the test cluster starts, as it appears in names.
const START: i64 = 1_800_000_000 / 60;

async fn runs(lab: &TestCluster) -> Vec<i64> {
    let names = lab.names::<Job>().await;
    names.iter().map(|name| name.strip_prefix("tick-").unwrap().parse::<i64>().unwrap() - START).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_at_every_time() {
    let lab = TestCluster::new().await;
    lab.create::<CronJob>(cron("*/5 * * * *", "succeed", json!({"successfulJobsHistoryLimit": 2}))).await;
    assert!(runs(&lab).await.is_empty());
    lab.pass(301).await;
    assert_eq!(runs(&lab).await, [5]);
    let job = &lab.list::<Job>().await[0];
    let annotations = job.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2027-01-15T08:05:00Z");
    assert_eq!(job.metadata.labels.as_ref().unwrap()["made-by"], "tick");
    let tick = lab.get::<CronJob>("tick").await;
    assert_eq!(tick["status"]["lastScheduleTime"], "2027-01-15T08:05:00Z");
    assert_eq!(tick["status"]["lastSuccessfulTime"], "2027-01-15T08:05:00Z");
    assert_eq!(tick["status"]["active"], Value::Null);
    lab.pass(1200).await;
    assert_eq!(runs(&lab).await, [20, 25], "two are kept");
    let events = lab.events("tick").await;
    for told in [
        format!("SuccessfulCreate: Created job tick-{}", START + 5),
        format!("SawCompletedJob: Saw completed job: tick-{}, condition: Complete", START + 5),
        format!("SuccessfulDelete: Deleted job tick-{}", START + 5),
    ] {
        assert!(events.contains(&told), "{told} is not in {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_never_comes_is_told() {
    let lab = TestCluster::new().await;
    lab.create::<CronJob>(cron("59 23 31 2 *", "succeed", json!({}))).await;
    lab.pass(60).await;
    assert!(runs(&lab).await.is_empty());
    let events = lab.events("tick").await;
    assert!(
        events.iter().any(|event| event.starts_with("InvalidSchedule: invalid schedule: 59 23 31 2 *")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_policy_for_runs_that_overlap() {
    for (policy, expected) in [("Allow", vec![1, 2, 3]), ("Forbid", vec![1]), ("Replace", vec![3])] {
        let lab = TestCluster::new().await;
        lab.create::<CronJob>(cron("* * * * *", "wait", json!({"concurrencyPolicy": policy}))).await;
        lab.pass(185).await;
        assert_eq!(runs(&lab).await, expected, "{policy}");
        let active = lab.get::<CronJob>("tick").await["status"]["active"].as_array().unwrap().len();
        assert_eq!(active, expected.len(), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn suspended_runs_are_made_up_for_once() {
    let lab = TestCluster::new().await;
    lab.create::<CronJob>(cron("* * * * *", "succeed", json!({"suspend": true}))).await;
    lab.pass(600).await;
    assert!(runs(&lab).await.is_empty());
    lab.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    assert_eq!(runs(&lab).await, [10]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_lets_old_runs_lie() {
    let lab = TestCluster::new().await;
    let spec = json!({"suspend": true, "startingDeadlineSeconds": 10});
    lab.create::<CronJob>(cron("*/10 * * * *", "succeed", spec)).await;
    lab.pass(660).await;
    lab.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    assert!(runs(&lab).await.is_empty());
    assert!(lab.events("tick").await[0].starts_with("MissSchedule: "));
    lab.pass(560).await;
    assert_eq!(runs(&lab).await, [20]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_in_a_zone() {
    let lab = TestCluster::new().await;
    lab.create::<CronJob>(cron("30 9 * * *", "succeed", json!({"timeZone": "Europe/Berlin"}))).await;
    lab.pass(1801).await;
    assert_eq!(runs(&lab).await, [30], "09:30 in Berlin is 08:30 in UTC");
    let annotations = lab.list::<Job>().await[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"], "2027-01-15T09:30:00+01:00");
}
