//! Conditions of others, in a kind that says that its conditions have several writers.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Fault, Simulation, edit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kinds::check_fault;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
struct SiteSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct SiteStatus {
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

/// The broken one replaces the whole list; the cured one applies its own condition.
async fn say_ready(site: Arc<Site>, cx: Context<Site>, is_cured: bool) -> Result<Action> {
    let generation = site.metadata.generation;
    let mut stored = site.status.iter().flat_map(|status| &status.conditions);
    if stored.any(|one| one.type_ == "Ready" && one.observed_generation == generation) {
        return Ok(Action::await_change());
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation});
    let mut patch = json!({"status": {"conditions": [ready]}});
    let sites: Api<Site> = Api::namespaced(cx.client().clone(), "default");
    if is_cured {
        patch["apiVersion"] = "demo.dev/v1".into();
        patch["kind"] = "Site".into();
        sites.patch_status("home", &PatchParams::apply("sites").force(), &Patch::Apply(patch)).await?;
    } else {
        sites.patch_status("home", &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn conditions_of_others_are_kept() {
    let pair = [false, true].map(|is_cured| {
        let mut site = Site::new("home", SiteSpec { text: "a".into() });
        site.metadata.namespace = Some("default".into());
        Simulation::new(move || {
            let sites = Controller::<Site>::new().reconcile(move |site, cx| say_ready(site, cx, is_cured));
            Operator::new("sites.demo.dev").crd::<Site>().control(sites)
        })
        .given(site)
        .then(edit::<Site>("home", |site| site.spec.text = "b".into()))
    });
    let at = "patch sites.demo.dev default/home/status #2";
    check_fault(pair, at, &Fault::ForeignWrite, "foreign fields kept");
}
