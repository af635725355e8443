//! Workloads that finish: the kinds of `batch`, one file each.

pub(crate) mod cron_job;
pub(crate) mod job;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[&cron_job::CRON_JOB, &job::JOB];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn jobs_tell_how_far_they_are() {
        let now = "2020-01-01T00:10:00Z".parse().expect("a time");
        let mut object = json!({"metadata": {"name": "j", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"completions": 2, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"succeeded": 1, "startTime": "2020-01-01T00:00:05Z"}});
        let printed = json!(["j", "Running", "1/2", "9m55s", "10m", "", "", "a=b"]);
        assert_eq!(Value::from(crate::kinds::batch::job::cells(&object, now)), printed);
        object["spec"] = json!({"parallelism": 3});
        object["status"] = json!({"succeeded": 1, "startTime": "2020-01-01T00:00:05Z",
            "completionTime": "2020-01-01T00:00:10Z", "conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(
            crate::kinds::batch::job::cells(&object, now)[1..4],
            [json!("Complete"), json!("1/1 of 3"), json!("5s")]
        );
        object["spec"] = json!({"schedule": "@daily", "suspend": false});
        let printed = json!(["j", "@daily", "<none>", "False", 0, "<none>", "10m", "", "", "<none>"]);
        assert_eq!(Value::from(crate::kinds::batch::cron_job::cells(&object, now)), printed);
    }
}
