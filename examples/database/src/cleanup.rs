//! Cleans up a Database whose data is deleted with it: first PostgreSQL stops, then a Pod erases the folder where it
//! is.
//!
//! The operator never touches the folder itself: it may run on another machine. In a namespace that is being deleted
//! nothing can be created any more; then the Pod that erases is created in the namespace that always exists.

use homeostat::prelude::*;

use crate::children::{LABEL, eraser, eraser_name, pod_name};
use crate::database::Database;
use crate::problem::check_name;
use crate::settings::Settings;

/// How often to check whether the last step is done, in case no event arrives.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The namespace that cannot be deleted.
const REFUGE: &str = "default";

pub(crate) async fn cleanup(database: Arc<Database>, cx: Context<Database>) -> Result<Action> {
    if check_name(&database.name_any()).is_err() {
        // It never had anything.
        return Ok(Action::await_change());
    }
    let settings = cx.state::<Settings>();
    for set in cx.owned::<StatefulSet>()? {
        cx.delete(&*set).await?;
    }
    if cx.get::<Pod>(&*pod_name(&database))?.is_some() {
        return Ok(Action::requeue(LOOK_AGAIN));
    }
    let elsewhere = cx.get::<Pod>((REFUGE, refuge_name(&database)))?;
    match elsewhere.or(cx.get::<Pod>(&*eraser_name(&database))?) {
        Some(pod) if has_succeeded(&pod) => {
            // Not owned, because owners must be in the same namespace: it would stay.
            if pod.name_any() == refuge_name(&database) {
                cx.delete(&*pod).await?;
            }
            return Ok(Action::await_change());
        }
        Some(_) => {}
        None => erase(&database, &cx, &settings).await?,
    }
    Ok(Action::requeue(LOOK_AGAIN))
}

async fn erase(database: &Database, cx: &Context<Database>, settings: &Settings) -> Result<()> {
    let made: Result<Arc<Pod>, Error> = cx.create(eraser(database, settings)?).await;
    match made {
        Err(error) if is_terminating(&error) => {
            let mut pod = eraser(database, settings)?;
            pod.metadata.namespace = Some(REFUGE.to_owned());
            pod.metadata.name = Some(refuge_name(database));
            // The Service of a Database there must not select it.
            pod.metadata.labels.get_or_insert_default().remove(LABEL);
            let _: Arc<Pod> = cx.create_unowned(pod).await?;
        }
        made => drop(made?),
    }
    cx.event(Severity::Normal, "Erasing", "PostgreSQL has stopped; its data is being erased");
    Ok(())
}

fn refuge_name(database: &Database) -> String {
    format!("erase-{}", database.uid().unwrap_or_default())
}

/// Returns whether the namespace is being deleted.
fn is_terminating(error: &Error) -> bool {
    let Error::Api { status, .. } = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn has_succeeded(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}
