//! Values that are generated once and must never change: passwords, keys, tokens.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;

use super::check;
use crate::kinds::{Page, PageSpec, operator, page};

/// The broken version writes a new password if its cache does not show the old one.
async fn make_password(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    if cx.get::<Secret>("password")?.is_some() {
        return Ok(Action::await_change());
    }
    let password = format!("{:x}", cx.entropy().below(u64::MAX));
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "password", "ownerReferences": [page.controller_owner_ref(&())]},
        "stringData": {"password": password},
    }))?;
    let secrets: Api<Secret> = Api::namespaced(cx.client().clone(), "default");
    if is_cured {
        match secrets.create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other?),
        }
    } else {
        secrets.patch("password", &PatchParams::apply("pages").force(), &Patch::Apply(&secret)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_password_that_is_generated_twice() {
    let [broken, cured] = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<Secret>();
            operator().control(pages.reconcile(move |page, cx| make_password(page, cx, is_cured)))
        })
        .given(page("home", PageSpec::default()))
        .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
    });
    check(broken, cured, &["generated once"]);
}
