//! An operator that only observes and fills the timeline. It writes nothing to the API.

use homeostat::prelude::*;

use homeostat_example_at::{At, Phase};
use homeostat_example_database::Database;
use homeostat_example_shapes::Shape;

use super::timeline::Timeline;

/// Returns the observer.
pub(super) fn operator(timeline: &Timeline) -> Operator {
    Operator::new("observer.homeostat.dev")
        .state(timeline.clone())
        .control(
            Controller::<At>::new()
                .needs_state::<Timeline>()
                .reconcile(|at, cx| async move { Ok(look(&cx, at_words(&at))) }),
        )
        .control(
            Controller::<Database>::new()
                .needs_state::<Timeline>()
                .reconcile(|database, cx| async move { Ok(look(&cx, database_words(&database))) }),
        )
        .control(
            Controller::<Shape>::new()
                .needs_state::<Timeline>()
                .reconcile(|shape, cx| async move { Ok(look(&cx, shape_words(&shape))) }),
        )
        .control(
            Controller::<Pod>::new()
                .needs_state::<Timeline>()
                .reconcile(|pod, cx| async move { Ok(look(&cx, pod_words(&pod))) }),
        )
}

/// Prints the object's state, if there is something to print.
fn look<K>(cx: &Context<K>, words: Option<String>) -> Action
where
    K: homeostat::runtime::Kind,
{
    if let Some(words) = words {
        let who = format!("{}/{}", K::kind(&()), cx.key().name());
        cx.state::<Timeline>().line_if_new(&who, &words);
    }
    Action::await_change()
}

fn at_words(at: &At) -> Option<String> {
    let status = at.status.as_ref()?;
    Some(match status.phase? {
        Phase::Pending => format!("PENDING until {}", at.spec.schedule),
        Phase::Running => "RUNNING".to_owned(),
        Phase::Done => "DONE".to_owned(),
    })
}

fn database_words(database: &Database) -> Option<String> {
    let status = database.status.as_ref()?;
    let ready = status.base.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(match &status.endpoint {
        Some(endpoint) => format!("{} at {endpoint}", ready.reason),
        None => format!("{}: {}", ready.reason, ready.message),
    })
}

fn shape_words(shape: &Shape) -> Option<String> {
    let synced =
        shape.status.as_ref()?.base.conditions.iter().find(|condition| condition.type_ == "Synced")?;
    Some(format!("{} {:?}: {}", shape.spec.color, shape.spec.form, synced.reason).to_lowercase())
}

fn pod_words(pod: &Pod) -> Option<String> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("ends".to_owned());
    }
    let status = pod.status.as_ref()?;
    let is_ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let phase = status.phase.as_deref()?;
    Some(if is_ready { format!("{phase}, ready") } else { phase.to_owned() })
}
