//! The end of a Database whose data is to go with it: first PostgreSQL stops, then a Pod erases the folder where it lies.
//!
//! The operator never touches the folder itself: it may run on another machine.

use homeostat::prelude::*;

use crate::children::{eraser, eraser_name, pod_name};
use crate::database::Database;
use crate::problem::check_name;
use crate::settings::Settings;

/// How often to look whether the last step is done, in case nobody tells.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

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
    match cx.get::<Pod>(&*eraser_name(&database))? {
        None => {
            let _: Arc<Pod> = cx.create(eraser(&database, &settings)?).await?;
            cx.event(Severity::Normal, "Erasing", "PostgreSQL has ended; its data is being erased");
            Ok(Action::requeue(LOOK_AGAIN))
        }
        Some(pod) if has_succeeded(&pod) => Ok(Action::await_change()),
        Some(_) => Ok(Action::requeue(LOOK_AGAIN)),
    }
}

fn has_succeeded(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded")
}
