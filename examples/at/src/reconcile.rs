//! The reconciler: reads an At and its Pod, asks [`step`](crate::step) what is next, and does it.

use homeostat::prelude::*;
use serde_json::json;

use crate::at::{At, Phase};
use crate::step::{Ending, Step, next};

/// The image that runs the command on nodes with images; a node of processes runs the host's own shell.
const IMAGE: &str = "busybox";

/// Returns the operator. It starts fresh: a command that was run twice because a cache was old cannot be taken back.
pub fn operator() -> Operator {
    let ats = Controller::<At>::new().owns::<Pod>().starts_fresh().reconcile(reconcile);
    Operator::new("at.cnat.programming-kubernetes.info").crd::<At>().control(ats)
}

async fn reconcile(at: Arc<At>, cx: Context<At>) -> Result<Action> {
    let pod = cx.owned::<Pod>()?.into_iter().next();
    let step = match next(&at, pod.as_deref(), cx.now()) {
        Ok(step) => step,
        Err(error) => return Err(refuse(&at, &cx, &error)),
    };
    match step {
        Step::Wait(left) => {
            wait(&at, &cx);
            return Ok(Action::requeue(left));
        }
        Step::Begin => begin(&cx),
        Step::Launch => launch(&at, &cx).await?,
        Step::Finish(ending) => finish(&cx, ending),
        Step::Watch | Step::Rest => {}
    }
    // A process that ended after it created the Pod has not named it.
    if let Some(pod) = pod {
        cx.status(|status| status.pod = Some(pod.name_any()));
    }
    Ok(Action::await_change())
}

/// Refuses a schedule that cannot be read: only an edit of the At helps.
fn refuse(at: &At, cx: &Context<At>, error: &jiff::Error) -> Fault {
    let message = format!(
        "the schedule {:?} is not an RFC 3339 time, such as 2026-07-03T02:00:00Z: {error}",
        at.spec.schedule
    );
    cx.status(|status| status.phase = Some(Phase::Pending));
    cx.condition(condition("Scheduled", false, "BadSchedule", message.as_str()));
    cx.event(Severity::Warning, "BadSchedule", message.as_str());
    terminal(message)
}

fn wait(at: &At, cx: &Context<At>) {
    let message = format!("runs at {}", at.spec.schedule);
    let is_known = at.status.as_ref().is_some_and(|status| status.phase.is_some());
    if !is_known {
        cx.event(Severity::Normal, "Scheduled", message.as_str());
    }
    cx.status(|status| status.phase = Some(Phase::Pending));
    cx.condition(condition("Scheduled", true, "Scheduled", message));
}

fn begin(cx: &Context<At>) {
    cx.event(Severity::Normal, "Due", "its time has come");
    cx.status(|status| status.phase = Some(Phase::Running));
    cx.condition(condition("Scheduled", true, "Due", "its time has come"));
}

async fn launch(at: &At, cx: &Context<At>) -> Result<()> {
    let pod: Arc<Pod> = match cx.create(pod_of(at)?).await {
        Ok(pod) => pod,
        Err(error) => {
            let message = format!("cannot create its Pod: {error}");
            cx.event(Severity::Warning, "NotStarted", message.as_str());
            cx.condition(condition("Complete", false, "NotStarted", message));
            return Err(error.into());
        }
    };
    let name = pod.name_any();
    cx.event(Severity::Normal, "Started", format!("runs in Pod {name}"));
    cx.status(|status| status.pod = Some(name));
    Ok(())
}

fn finish(cx: &Context<At>, ending: Ending) {
    let (severity, reason) =
        if ending.is_success { (Severity::Normal, "Succeeded") } else { (Severity::Warning, "Failed") };
    cx.event(severity, reason, ending.message.as_str());
    cx.status(|status| status.phase = Some(Phase::Done));
    cx.condition(condition("Complete", true, reason, ending.message));
}

/// Returns the Pod that runs the command once.
fn pod_of(at: &At) -> Result<Pod> {
    Ok(from_json(&json!({
        "metadata": {
            "name": format!("{}-pod", short_name(at)),
            "labels": {"app.kubernetes.io/managed-by": "at", "app.kubernetes.io/instance": short_name(at)},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "command",
                "image": IMAGE,
                "command": ["sh", "-c", literal(&at.spec.command)],
            }],
        },
    }))?)
}

/// Returns the name, shortened to fit into a label and a Pod's host name, and made unique by the uid.
fn short_name(at: &At) -> String {
    /// A label's 63 letters without `-pod`, which makes it the Pod's name.
    const LETTERS_MAX: usize = 59;
    /// Enough letters of a uid to distinguish objects with similar names.
    const UID_LETTERS: usize = 8;
    let (name, uid) = (at.name_any(), at.uid().unwrap_or_default());
    if name.len() <= LETTERS_MAX {
        return name;
    }
    let head = &name[..LETTERS_MAX - 1 - UID_LETTERS];
    let uid: String = uid.chars().take(UID_LETTERS).collect();
    format!("{}-{uid}", head.trim_end_matches(['-', '.']))
}

/// Escapes the text, so that the shell gets it as written: Kubernetes would replace `$(NAME)` and `$$`.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
