//! Operators keep the conditions of other writers, in a kind that declares conditions as a map and in one with a plain
//! list.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Fault, Simulation, edit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kinds::{BUDGET, check_fault};

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

/// The broken version replaces the whole list; the cured one applies only its own condition.
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

/// A kind with a plain list of conditions, as most CRD generators declare it.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct ShopStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

/// How a reconciler writes its condition into the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// A merge patch with only its own condition.
    Alone,
    /// An update that keeps the stored conditions.
    Among,
    /// An apply, which owns and replaces the whole list.
    Applied,
}

async fn open_shop(shop: Arc<Shop>, cx: Context<Shop>, write: Write) -> Result<Action> {
    let generation = shop.metadata.generation;
    let is_ready = |one: &&Condition| one.type_ == "Ready" && one.observed_generation == generation;
    if shop.status.iter().flat_map(|status| &status.conditions).any(|one| is_ready(&one)) {
        return Ok(Action::await_change());
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation});
    let shops: Api<Shop> = Api::namespaced(cx.client().clone(), "default");
    let mut patch = json!({"status": {"conditions": [ready.clone()]}});
    match write {
        Write::Alone => {
            shops.patch_status("home", &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Write::Applied => {
            patch["apiVersion"] = "demo.dev/v1".into();
            patch["kind"] = "Shop".into();
            shops.patch_status("home", &PatchParams::apply("shops").force(), &Patch::Apply(patch)).await?;
        }
        Write::Among => {
            let mut stored = shops.get("home").await?;
            let conditions = &mut stored.status.get_or_insert_default().conditions;
            conditions.retain(|one| one.type_ != "Ready");
            conditions.push(serde_json::from_value(ready)?);
            shops.replace_status("home", &PostParams::default(), &stored).await?;
        }
    }
    Ok(Action::await_change())
}

fn shops(write: Write) -> Simulation {
    let mut shop = Shop::new("home", ShopSpec { text: "a".into() });
    shop.metadata.namespace = Some("default".into());
    Simulation::new(move || {
        let shops = Controller::<Shop>::new().reconcile(move |shop, cx| open_shop(shop, cx, write));
        Operator::new("shops.demo.dev").crd::<Shop>().control(shops)
    })
    .given(shop)
    .then(edit::<Shop>("home", |shop| shop.spec.text = "b".into()))
}

#[test]
fn a_plain_list_keeps_conditions_of_others_unless_it_is_applied() {
    let at = "patch shops.demo.dev default/home/status #2";
    let pair = [Write::Alone, Write::Applied].map(shops);
    check_fault(pair, at, &Fault::ForeignWrite, "foreign fields kept");
    let outcome = shops(Write::Among).budget(BUDGET).explore();
    assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap().report);
}
