//! Jobs and CronJobs. A Job's state is the first of its conditions that says something final, then whether it is
//! being deleted, then what is going on; a CronJob tells when it last ran.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read, selector};
use super::containers;

/// What a Job is, by the first condition of these that holds.
const STATES: [(&str, &str); 2] = [("Complete", "Complete"), ("Failed", "Failed")];
/// What a Job that is neither finished nor being deleted is.
const LATER_STATES: [&str; 3] = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];

pub(crate) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        state(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age::of(object, now).into(),
        names,
        images,
        selector::selector(object, "spec.selector").into(),
    ]
}

pub(crate) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.jobTemplate.spec.template.spec.containers");
    let suspended = match read::at(object, "spec.suspend").and_then(Value::as_bool) {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = read::time(object, "status.lastScheduleTime");
    vec![
        read::name(object).into(),
        read::text(object, "spec.schedule").into(),
        read::text_or(object, "spec.timeZone", "<none>").into(),
        suspended.into(),
        read::list(object, "status.active").len().into(),
        last.map_or_else(|| "<none>".to_owned(), |last| age::since(Some(last), now)).into(),
        age::of(object, now).into(),
        names,
        images,
        selector::selector(object, "spec.jobTemplate.spec.selector").into(),
    ]
}

fn state(object: &Value) -> &'static str {
    if let Some((_, state)) = STATES.iter().find(|(condition, _)| read::holds(object, condition)) {
        return state;
    }
    if read::is_deleted(object) {
        return "Terminating";
    }
    LATER_STATES.iter().find(|condition| read::holds(object, condition)).copied().unwrap_or("Running")
}

fn completions(object: &Value) -> String {
    let succeeded = read::number(object, "status.succeeded");
    match (
        read::at(object, "spec.completions").and_then(Value::as_i64),
        read::number(object, "spec.parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, now: Timestamp) -> String {
    let Some(start) = read::time(object, "status.startTime") else { return String::new() };
    age::human(read::time(object, "status.completionTime").unwrap_or(now).duration_since(start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_tell_how_far_they_are() {
        let now = "2020-01-01T00:10:00Z".parse().expect("a time");
        let mut object = json!({"metadata": {"name": "j", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"completions": 2, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"succeeded": 1, "startTime": "2020-01-01T00:00:05Z"}});
        let printed = json!(["j", "Running", "1/2", "9m55s", "10m", "", "", "a=b"]);
        assert_eq!(Value::from(job(&object, now)), printed);
        object["spec"] = json!({"parallelism": 3});
        object["status"] = json!({"succeeded": 1, "startTime": "2020-01-01T00:00:05Z",
            "completionTime": "2020-01-01T00:00:10Z", "conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(job(&object, now)[1..4], [json!("Complete"), json!("1/1 of 3"), json!("5s")]);
        object["spec"] = json!({"schedule": "@daily", "suspend": false});
        let printed = json!(["j", "@daily", "<none>", "False", 0, "<none>", "10m", "", "", "<none>"]);
        assert_eq!(Value::from(cron_job(&object, now)), printed);
    }
}
