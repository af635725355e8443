//! Time: a deadline that is missed if the operator is late.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Result};

use super::check;
use crate::kinds::{Page, both, child, config_maps, ensure};

/// How long after its creation a page is published.
const WAIT: Duration = Duration::from_secs(600);

/// By how much the broken version may be late.
const PUNCTUAL_SECONDS: i64 = 60;

/// The broken version publishes on time or never.
async fn publish_at(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let Some(created) = &page.metadata.creation_timestamp else { return Ok(Action::await_change()) };
    let age = cx.now().duration_since(created.0).as_secs();
    let wait = i64::try_from(WAIT.as_secs()).unwrap_or_default();
    if age < wait {
        return Ok(Action::requeue(Duration::from_secs((wait - age).unsigned_abs())));
    }
    if is_cured || age < wait + PUNCTUAL_SECONDS {
        ensure(&config_maps(&cx), &child(&page, "published", "")).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_deadline_that_is_missed() {
    let [broken, cured] = both(publish_at);
    check(broken, cured, &["same end"]);
}
