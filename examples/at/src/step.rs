//! Decides what to do next with an At: no I/O, no clock.
//!
//! **Invariant:** a phase only moves forward, one step per reconcile: each write triggers the next reconcile.

use std::time::Duration;

use homeostat::k8s_openapi::api::core::v1::Pod;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::fmt::temporal::Pieces;

use crate::at::{At, Phase};

/// The next step of an At.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Wait this long for its time.
    Wait(Duration),
    /// Its time has come: start.
    Begin,
    /// Create its Pod.
    Launch,
    /// Wait for its Pod: its events trigger the next reconcile.
    Watch,
    /// Its Pod has ended: record how.
    Finish(Ending),
    /// Do nothing: everything is done.
    Rest,
}

/// How a Pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether the command exited with code 0.
    pub is_success: bool,
    /// A description.
    pub message: String,
}

/// Returns the next step of `at`, whose Pod is `pod`, at the time `now`.
///
/// # Errors
/// If the schedule cannot be read. Once the time has come, the schedule is not read any more.
pub fn next(at: &At, pod: Option<&Pod>, now: Timestamp) -> Result<Step, jiff::Error> {
    Ok(match phase(at) {
        Phase::Pending => {
            let due = moment(&at.spec.schedule)?;
            match Duration::try_from(due.duration_since(now)) {
                Ok(left) if !left.is_zero() => Step::Wait(left),
                _ => Step::Begin,
            }
        }
        Phase::Running => match pod {
            None => Step::Launch,
            Some(pod) => ending(pod).map_or(Step::Watch, Step::Finish),
        },
        Phase::Done => Step::Rest,
    })
}

/// Parses the schedule. The last hours of the year 9999 have no [`Timestamp`]; the last possible one is used instead.
fn moment(schedule: &str) -> Result<Timestamp, jiff::Error> {
    schedule.parse().or_else(|error| {
        let pieces = Pieces::parse(schedule)?;
        let is_last = pieces.date().year() == Date::MAX.year();
        let is_moment = pieces.time().is_some() && pieces.offset().is_some();
        if is_last && is_moment { Ok(Timestamp::MAX) } else { Err(error) }
    })
}

/// Returns the phase; an At that was never reconciled is pending.
fn phase(at: &At) -> Phase {
    at.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

/// Returns how the Pod ended, if it has.
fn ending(pod: &Pod) -> Option<Ending> {
    let status = pod.status.as_ref()?;
    let is_success = match status.phase.as_deref()? {
        "Succeeded" => true,
        "Failed" => false,
        _ => return None,
    };
    let code = exit_code(pod).map(|code| format!("the command exited with code {code}"));
    let reported = status.message.clone().or_else(|| status.reason.clone());
    let message = code.or(reported).unwrap_or_else(|| "the Pod has ended".to_owned());
    Some(Ending { is_success, message })
}

fn exit_code(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    Some(containers.first()?.state.as_ref()?.terminated.as_ref()?.exit_code)
}

#[cfg(test)]
mod tests {
    use homeostat::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const DUE: &str = "2026-02-10T20:35:00Z";

    #[expect(clippy::needless_pass_by_value, reason = "rows are written in place")]
    #[track_caller]
    fn check(phase: Option<&str>, pod: Option<Value>, now: &str, expected: Step) {
        let mut at = At::new("demo", crate::AtSpec { schedule: DUE.to_owned(), command: String::new() });
        at.status = phase.map(|phase| serde_json::from_value(json!({ "phase": phase })).unwrap());
        let pod: Option<Pod> = pod.map(|status| serde_json::from_value(json!({ "status": status })).unwrap());
        assert_eq!(next(&at, pod.as_ref(), now.parse().unwrap()).unwrap(), expected);
    }

    fn finish(is_success: bool, message: &str) -> Step {
        Step::Finish(Ending { is_success, message: message.to_owned() })
    }

    #[test]
    fn pending_waits_exactly_until_it_is_time() {
        let five = Step::Wait(Duration::from_secs(300));
        check(None, None, "2026-02-10T20:30:00Z", five);
        check(Some("PENDING"), None, "2026-02-10T20:34:59.9Z", Step::Wait(Duration::from_millis(100)));
        check(Some("PENDING"), None, DUE, Step::Begin);
        for last in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "9999-12-30T22:00:01Z"] {
            assert_eq!(moment(last).unwrap(), Timestamp::MAX, "{last}");
        }
        check(Some("PENDING"), None, "2027-01-01T00:00:00Z", Step::Begin);
    }

    #[test]
    fn running_follows_its_pod() {
        check(Some("RUNNING"), None, DUE, Step::Launch);
        check(Some("RUNNING"), Some(json!({})), DUE, Step::Watch);
        check(Some("RUNNING"), Some(json!({"phase": "Pending"})), DUE, Step::Watch);
        check(Some("RUNNING"), Some(json!({"phase": "Running"})), DUE, Step::Watch);
        let evicted = json!({"phase": "Failed", "reason": "Evicted"});
        check(Some("RUNNING"), Some(evicted), DUE, finish(false, "Evicted"));
        let exited = json!({"phase": "Failed", "containerStatuses": [{
            "name": "command", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 3}},
        }]});
        check(Some("RUNNING"), Some(exited), DUE, finish(false, "the command exited with code 3"));
        check(Some("RUNNING"), Some(json!({"phase": "Succeeded"})), DUE, finish(true, "the Pod has ended"));
    }

    #[test]
    fn done_is_the_end() {
        check(Some("DONE"), None, DUE, Step::Rest);
    }

    #[test]
    fn a_schedule_that_is_no_time_is_an_error_only_while_it_matters() {
        let spec = crate::AtSpec { schedule: "tomorrow".to_owned(), command: String::new() };
        let mut at = At::new("demo", spec);
        let now: Timestamp = DUE.parse().unwrap();
        assert!(next(&at, None, now).is_err());
        for schedule in ["9999-12-31", "9999-12-31T23:59:59", "9999-13-01T00:00:00Z", "10000-01-01T00:00:00Z"]
        {
            at.spec.schedule = schedule.to_owned();
            assert!(next(&at, None, now).is_err(), "{schedule}");
        }
        at.status = serde_json::from_value(json!({"phase": "RUNNING"})).unwrap();
        assert_eq!(next(&at, None, now).unwrap(), Step::Launch);
    }
}
