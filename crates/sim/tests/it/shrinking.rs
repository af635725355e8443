//! A failure is shrunk to the steps it needs, and no further.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::edit;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};

use crate::kinds::{BUDGET, Page, both, child, config_maps};

/// Ignores failed writes, unless it is careful.
async fn write_carelessly(page: Arc<Page>, cx: Context<Page>, is_careful: bool) -> Result<Action> {
    let how = PatchParams::apply("pages").force();
    let wanted = child(&page, "child", &page.spec.text);
    let written = config_maps(&cx).patch("child", &how, &Patch::Apply(&wanted)).await;
    if is_careful {
        written?;
    }
    Ok(Action::await_change())
}

/// Without the edit the condition cannot hold, even without faults, so the shorter scenario would fail for another
/// reason.
#[test]
fn a_step_that_the_condition_needs_is_kept() {
    let [careless, _] = both(write_carelessly);
    let found = careless
        .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
        .eventually(|cluster| {
            let data = cluster.get::<ConfigMap>("child").and_then(|child| child.data).unwrap_or_default();
            data.get("text").is_some_and(|text| text == "b")
        })
        .budget(BUDGET)
        .explore();
    let failure = found.failure.expect("the lost write is noticed");
    assert_eq!(failure.oracle, "eventually", "{}", failure.report);
    assert_eq!(failure.trace.deviations.len(), 1, "{}", failure.report);
    assert!(failure.trace.skipped.is_empty(), "{}", failure.report);
}
