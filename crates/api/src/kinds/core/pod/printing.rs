//! Prints Pods: a summary of their containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::read;
use crate::printing::age;

/// The reason in the status of a Pod whose node was lost.
const NODE_LOST: &str = "NodeLost";

pub(in crate::kinds) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = ContainerSummary::of(pod);
    let ready = format!("{}/{}", summary.ready, summary.containers);
    let restarts = summary.restarts.print(now);
    vec![
        read::name(pod).into(),
        ready.into(),
        summary.reason(pod).into(),
        restarts.into(),
        age::age_of_object(pod, now).into(),
        read::list_at(pod, "status.podIPs")
            .first()
            .map_or("<none>", |ip| read::string_at_or(ip, "ip", "<none>"))
            .into(),
        read::string_at_or(pod, "spec.nodeName", "<none>").into(),
        read::string_at_or(pod, "status.nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// Returns a condition for the row of a finished Pod, so that clients may hide it.
pub(in crate::kinds) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match read::string_at(pod, "status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = read::list_at(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| read::has_true_condition(pod, read::string_at(gate, "conditionType")))
        .count();
    format!("{open}/{}", gates.len())
}

/// A summary of the containers of a Pod.
#[derive(Default)]
struct ContainerSummary {
    containers: usize,
    ready: usize,
    restarts: RestartCount,
    reason: String,
}

#[derive(Clone, Copy, Default)]
struct RestartCount {
    count: i64,
    last: Option<Timestamp>,
}

impl RestartCount {
    fn add(&mut self, status: &Value) {
        self.count += read::integer_at(status, "restartCount");
        self.last = self.last.max(read::time_at(status, "lastState.terminated.finishedAt"));
    }

    fn print(&self, now: Timestamp) -> String {
        match (self.count, self.last) {
            (0, _) | (_, None) => self.count.to_string(),
            (count, last) => format!("{count} ({} ago)", age::format_age_since(last, now)),
        }
    }
}

impl ContainerSummary {
    fn of(pod: &Value) -> Self {
        let sidecars: Vec<_> = read::list_at(pod, "spec.initContainers")
            .iter()
            .filter(|container| read::string_at(container, "restartPolicy") == "Always")
            .map(|container| read::string_at(container, "name"))
            .collect();
        let mut summary = Self {
            containers: read::list_at(pod, "spec.containers").len() + sidecars.len(),
            reason: phase(pod).to_owned(),
            ..Self::default()
        };
        let mut of_sidecars = RestartCount::default();
        let is_initializing = summary.read_init_containers(pod, &sidecars, &mut of_sidecars);
        if !is_initializing || read::has_true_condition(pod, "Initialized") {
            // Once a Pod runs, only the restarts of sidecars still count among those of its init containers.
            summary.restarts = of_sidecars;
            summary.read_containers(pod);
        }
        summary
    }

    /// Reads the init containers up to the first unfinished one; returns whether there is one.
    fn read_init_containers(
        &mut self,
        pod: &Value,
        sidecars: &[&str],
        of_sidecars: &mut RestartCount,
    ) -> bool {
        for (at, status) in read::list_at(pod, "status.initContainerStatuses").iter().enumerate() {
            self.restarts.add(status);
            let is_sidecar = sidecars.contains(&read::string_at(status, "name"));
            if is_sidecar {
                of_sidecars.add(status);
            }
            let terminated = read::value_at(status, "state.terminated");
            if terminated.is_some_and(|state| read::integer_at(state, "exitCode") == 0) {
                continue;
            }
            if is_sidecar && read::bool_at(status, "started") {
                self.ready += usize::from(read::bool_at(status, "ready"));
                continue;
            }
            let waiting = read::string_at(status, "state.waiting.reason");
            self.reason = match (terminated, waiting) {
                (Some(state), _) => format!("Init:{}", end_of(state)),
                (None, "" | "PodInitializing") => {
                    format!("Init:{at}/{}", read::list_at(pod, "spec.initContainers").len())
                }
                (None, waiting) => format!("Init:{waiting}"),
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        let mut error = None;
        for status in read::list_at(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waiting = read::string_at(status, "state.waiting.reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(state) = read::value_at(status, "state.terminated") {
                self.reason = end_of(state);
                if read::integer_at(state, "exitCode") != 0 {
                    error = Some(self.reason.clone());
                }
            } else if read::bool_at(status, "ready") && read::value_at(status, "state.running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            self.reason = match (has_running, error) {
                (true, _) if read::has_true_condition(pod, "Ready") => "Running".to_owned(),
                (_, Some(error)) => error,
                (true, None) => "NotReady".to_owned(),
                (false, None) => "Completed".to_owned(),
            };
        }
    }

    fn reason(self, pod: &Value) -> String {
        if !read::is_deleted(pod) {
            return self.reason;
        }
        match (read::string_at(pod, "status.reason"), read::string_at(pod, "status.phase")) {
            (NODE_LOST, _) => "Unknown".to_owned(),
            (_, "Failed" | "Succeeded") => self.reason,
            _ => "Terminating".to_owned(),
        }
    }
}

/// Returns the phase, or a more specific reason.
fn phase(pod: &Value) -> &str {
    let is_gated = read::condition(pod, "PodScheduled")
        .is_some_and(|condition| read::string_at(condition, "reason") == "SchedulingGated");
    if is_gated {
        return "SchedulingGated";
    }
    read::string_at_or(pod, "status.reason", read::string_at(pod, "status.phase"))
}

/// Returns why a container terminated.
fn end_of(state: &Value) -> String {
    match (read::string_at(state, "reason"), read::integer_at(state, "signal")) {
        ("", 0) => format!("ExitCode:{}", read::integer_at(state, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pod: &Value, expected: &[&str]) {
        let now = "2020-01-01T00:10:00Z".parse().expect("a time");
        let printed = cells(pod, now);
        assert_eq!(
            printed.iter().map(|cell| cell.as_str().unwrap()).collect::<Vec<_>>()[1..4],
            *expected,
            "{pod}"
        );
    }

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    fn with(containers: usize, status: Value) -> Value {
        let containers: Vec<_> = (0..containers).map(|at| json!({"name": format!("c{at}")})).collect();
        json!({"metadata": {"name": "p"}, "spec": {"containers": containers}, "status": status})
    }

    #[test]
    fn pods_are_summed_up() {
        check(&with(1, json!({"phase": "Pending"})), &["0/1", "Pending", "0"]);
        let running = json!({"ready": true, "restartCount": 2, "state": {"running": {}}});
        check(
            &with(1, json!({"phase": "Running", "containerStatuses": [running]})),
            &["1/1", "Running", "2"],
        );
        let crashed = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:05:00Z"}}});
        let crashed = with(2, json!({"phase": "Running", "containerStatuses": [crashed, running]}));
        check(&crashed, &["1/2", "CrashLoopBackOff", "5 (5m ago)"]);
        let ended = |code: i64| json!({"state": {"terminated": {"exitCode": code}}});
        check(
            &with(1, json!({"phase": "Failed", "containerStatuses": [ended(3)]})),
            &["0/1", "ExitCode:3", "0"],
        );
        let gated = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
        check(&with(1, gated), &["0/1", "SchedulingGated", "0"]);
        let completed = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let one_left = json!({"phase": "Running", "containerStatuses": [completed, running]});
        check(&with(2, one_left), &["1/2", "NotReady", "2"]);
    }

    #[test]
    fn init_containers_and_sidecars_count_in_their_own_way() {
        let mut pod = with(
            1,
            json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i0", "state": {"terminated": {"exitCode": 0}}},
            {"name": "i1", "restartCount": 4, "state": {"waiting": {"reason": "PodInitializing"}}}]}),
        );
        pod["spec"]["initContainers"] = json!([{"name": "i0"}, {"name": "i1"}]);
        check(&pod, &["0/1", "Init:1/2", "4"]);
        pod["spec"]["initContainers"] = json!([{"name": "i0"}, {"name": "i1", "restartPolicy": "Always"}]);
        pod["status"] = json!({"phase": "Running", "initContainerStatuses": [
            {"name": "i0", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}},
            {"name": "i1", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [{"ready": true, "state": {"running": {}}}]});
        check(&pod, &["2/2", "Running", "1"]);
    }

    #[test]
    fn pods_on_their_way_out_say_so() {
        let mut pod = with(1, json!({"phase": "Running"}));
        pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
        check(&pod, &["0/1", "Terminating", "0"]);
        pod["status"] = json!({"phase": "Running", "reason": "NodeLost"});
        check(&pod, &["0/1", "Unknown", "0"]);
        pod["status"] = json!({"phase": "Succeeded"});
        check(&pod, &["0/1", "Succeeded", "0"]);
        assert_eq!(row_conditions(&pod).expect("is finished")[0]["reason"], "Succeeded");
    }
}
