//! Describes the state of a Database's Pod in one word and one sentence.

use homeostat::prelude::*;
use k8s_openapi::api::core::v1::ContainerStatus;

use crate::children::PREPARE;

/// The exit code of a shell for a missing command, and of `prepare.sh`.
const NOT_INSTALLED: i32 = 127;

/// The exit code of `serve.sh` if another program has the port (EADDRINUSE).
const PORT_TAKEN: i32 = 98;

/// What to do without PostgreSQL.
const HOW_TO_INSTALL: &str = "PostgreSQL is not installed where the Pods run: apt-get install postgresql, \
    dnf install postgresql-server or brew install postgresql; it is then found automatically";

/// The health of a Database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) is_ready: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Returns the health of the Pod; a missing one is being created.
pub(crate) fn health(pod: Option<&Pod>) -> Health {
    let Some(pod) = pod else { return not("Starting", "its Pod is being created") };
    if pod.metadata.deletion_timestamp.is_some() {
        return not("Restarting", "its Pod is being replaced");
    }
    let status = pod.status.as_ref();
    let prepare = status.and_then(|status| named(status.init_container_statuses.as_deref(), PREPARE));
    let serve = status.and_then(|status| named(status.container_statuses.as_deref(), "postgres"));
    if let Some(code) = prepare.and_then(failure) {
        return match code {
            NOT_INSTALLED => not("PostgresNotInstalled", HOW_TO_INSTALL),
            code => not(
                "PrepareFailed",
                format!("prepare exited with code {code}: see kubectl logs -c {PREPARE}"),
            ),
        };
    }
    match serve {
        Some(serve) if serve.ready => {
            Health { is_ready: true, reason: "Ready", message: "it answers".to_owned() }
        }
        Some(serve) => match failure(serve) {
            Some(PORT_TAKEN) => not("PortTaken", port_taken_words(pod)),
            Some(code) => not("Crashed", format!("postgres exited with code {code}: see kubectl logs")),
            None => not("Starting", "it does not answer yet"),
        },
        None => not("Starting", "its Pod is waiting to run"),
    }
}

/// Returns this Pod's port if another program has it.
pub(crate) fn taken_port(pod: &Pod) -> Option<u16> {
    let serve = named(pod.status.as_ref()?.container_statuses.as_deref(), "postgres")?;
    failure(serve).filter(|code| *code == PORT_TAKEN)?;
    port(pod)
}

fn port(pod: &Pod) -> Option<u16> {
    let port = pod.spec.as_ref()?.containers.first()?.ports.as_ref()?.first()?.container_port;
    u16::try_from(port).ok()
}

fn port_taken_words(pod: &Pod) -> String {
    let port = port(pod).map_or_else(|| "its port".to_owned(), |port| format!("port {port}"));
    format!(
        "another program on the Pod's machine uses {port}: stop it, choose another port, or leave the port out"
    )
}

fn not(reason: &'static str, message: impl Into<String>) -> Health {
    Health { is_ready: false, reason, message: message.into() }
}

fn named<'a>(all: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    all?.iter().find(|status| status.name == name)
}

/// Returns the code a container exited with, if it failed and does not run now.
fn failure(status: &ContainerStatus) -> Option<i32> {
    let now = status.state.as_ref();
    if now.is_some_and(|state| state.running.is_some()) {
        return None;
    }
    let last = status.last_state.as_ref();
    let ended = [now, last].into_iter().flatten().find_map(|state| state.terminated.as_ref())?;
    (ended.exit_code != 0).then_some(ended.exit_code)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: &Value, expected: &str) {
        let pod: Pod = serde_json::from_value(json!({ "status": status })).unwrap();
        assert_eq!(health(Some(&pod)).reason, expected);
    }

    fn container(name: &str, ready: bool, state: &Value, last: &Value) -> Value {
        json!([{
            "name": name, "image": "", "imageID": "", "restartCount": 0, "ready": ready,
            "state": state, "lastState": last,
        }])
    }

    #[test]
    fn a_pod_in_one_word() {
        assert_eq!(health(None).reason, "Starting");
        check(&json!({}), "Starting");
        let ended = |code: i32| json!({"terminated": {"exitCode": code}});
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let prepare = |state: Value, last: Value| json!({"initContainerStatuses": container("prepare", false, &state, &last)});
        check(&prepare(ended(127), json!({})), "PostgresNotInstalled");
        check(&prepare(waits.clone(), ended(127)), "PostgresNotInstalled");
        check(&prepare(ended(1), json!({})), "PrepareFailed");
        check(&prepare(json!({"running": {}}), ended(1)), "Starting");
        let serve = |ready, state: Value, last: Value| json!({"containerStatuses": container("postgres", ready, &state, &last)});
        check(&serve(true, json!({"running": {}}), json!({})), "Ready");
        check(&serve(false, json!({"running": {}}), json!({})), "Starting");
        check(&serve(false, waits.clone(), ended(1)), "Crashed");
        check(&serve(false, waits, ended(98)), "PortTaken");
    }
}
