//! Resources outside the cluster that the operator has lost track of.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Outside, Simulation};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kinds::{Page, PageSpec, check, operator, page};

/// A cloud that assigns numbers to its machines. Each machine has the tag that it was created with.
#[derive(Clone, Debug, Default)]
struct Cloud {
    machines: BTreeMap<u32, String>,
}

async fn reconcile(
    page: Arc<Page>,
    cx: Context<Page>,
    cloud: Outside<Cloud>,
    looks_first: bool,
) -> Result<Action> {
    let name = page.metadata.name.clone().unwrap_or_default();
    if page.status.as_ref().is_some_and(|status| !status.seen.is_empty()) {
        return Ok(Action::await_change());
    }
    let api: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    // The cache may be old: nothing may be created outside for an object that is deleted or being deleted.
    if looks_first && api.get_opt(&name).await?.is_none_or(|page| page.metadata.deletion_timestamp.is_some())
    {
        return Ok(Action::await_change());
    }
    let tag = name.clone();
    let known = if looks_first {
        let tag = tag.clone();
        let found = cloud.read("list", move |cloud| {
            cloud.machines.iter().find(|(_, own)| **own == tag).map(|(id, _)| *id)
        });
        found.await?
    } else {
        None
    };
    let machine = if let Some(machine) = known {
        machine
    } else {
        let make = cloud.write("create", move |cloud| {
            // Creation is idempotent: there is one machine for each tag.
            if looks_first && let Some((id, _)) = cloud.machines.iter().find(|(_, own)| **own == tag) {
                return *id;
            }
            let id = cloud.machines.keys().next_back().map_or(1, |last| last + 1);
            cloud.machines.insert(id, tag);
            id
        });
        make.await?
    };
    let patch = Patch::Merge(json!({"status": {"seen": machine.to_string()}}));
    api.patch_status(&name, &PatchParams::default(), &patch).await?;
    Ok(Action::await_change())
}

async fn clean_up(page: Arc<Page>, _cx: Context<Page>, cloud: Outside<Cloud>) -> Result<Action> {
    let Some(machine) = page.status.as_ref().and_then(|status| status.seen.parse::<u32>().ok()) else {
        let tag = page.metadata.name.clone().unwrap_or_default();
        cloud.write("delete by tag", move |cloud| cloud.machines.retain(|_, own| *own != tag)).await?;
        return Ok(Action::await_change());
    };
    cloud.write("delete", move |cloud| cloud.machines.remove(&machine)).await?;
    Ok(Action::await_change())
}

fn simulation(looks_first: bool) -> Simulation {
    Simulation::with_outside(Cloud::default(), move |cloud: Outside<Cloud>| -> Operator {
        let other = cloud.clone();
        let pages = Controller::<Page>::new()
            .cleanup(move |page, cx| clean_up(page, cx, other.clone()))
            .reconcile(move |page, cx| reconcile(page, cx, cloud.clone(), looks_first));
        operator().control(pages)
    })
    .given(page("home", PageSpec::default()))
}

#[test]
fn an_orphan_outside_is_found() {
    check(simulation(false), simulation(true), &["same end", "no leak"]);
}
