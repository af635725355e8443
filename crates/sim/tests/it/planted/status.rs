//! Wrong status: a phase that describes a former spec, and conditions of others that are replaced.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Result};
use homeostat_sim::edit;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::check;
use crate::kinds::{Page, both, check_undisturbed};

/// The broken version writes a phase if it succeeds, and nothing if it fails.
async fn say_phase(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let phase = if page.spec.text == "bad" { "Refused" } else { "Ready" };
    if phase == "Refused" && !is_cured {
        return Ok(Action::await_change());
    }
    if page.status.as_ref().is_none_or(|status| status.seen != phase) {
        let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        let status = Patch::Merge(json!({"status": {"seen": phase}}));
        pages.patch_status("home", &PatchParams::default(), &status).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_phase_that_outlives_its_spec() {
    let pair =
        both(say_phase).map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "bad".into())));
    check_undisturbed(pair, "path independence");
}

/// The broken version replaces the list of conditions.
async fn replace_conditions(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let stored = page.status.as_ref().map(|status| status.base.conditions.clone()).unwrap_or_default();
    if stored.iter().any(|one| one.type_ == "Synced" && one.message == page.spec.text) {
        return Ok(Action::await_change());
    }
    let own = json!({"type": "Synced", "status": "True", "reason": "Done", "message": page.spec.text,
                     "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = vec![own];
    let mut meta = json!({});
    if is_cured {
        for other in stored.iter().filter(|one| one.type_ != "Synced") {
            conditions.push(serde_json::to_value(other)?);
        }
        meta = json!({"resourceVersion": page.metadata.resource_version});
    }
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    let patch = Patch::Merge(json!({"metadata": meta, "status": {"conditions": conditions}}));
    pages.patch_status("home", &PatchParams::default(), &patch).await?;
    Ok(Action::await_change())
}

#[test]
fn conditions_that_are_replaced() {
    let [broken, cured] = both(replace_conditions)
        .map(|one| one.then(edit::<Page>("home", |page| page.spec.text = "b".into())));
    check(broken, cured, &["foreign fields kept"]);
}
