//! Names and labels: children that are found by a label that changes, owners in another namespace, objects of others.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Simulation, edit};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::check;
use crate::kinds::{Page, PageSpec, both, check_undisturbed, child, config_maps, ensure, operator, page};

/// A namespace that every cluster has besides `default`.
const OTHER_NAMESPACE: &str = "kube-public";

/// The broken version finds its children by a label that an edit changes.
async fn find_by_label(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let mut wanted = child(&page, &format!("child-{}", page.spec.text), "");
    wanted.labels_mut().insert("text".to_owned(), page.spec.text.clone());
    wanted.labels_mut().insert("page".to_owned(), page.name_any());
    let selector = if is_cured { "page=home".to_owned() } else { format!("text={}", page.spec.text) };
    ensure(&api, &wanted).await?;
    let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
    if pages.get_opt("home").await?.is_none_or(|live| live.spec.text != page.spec.text) {
        return Ok(Action::await_change());
    }
    for other in api.list(&ListParams::default().labels(&selector)).await? {
        if other.name_any() != wanted.name_any() {
            cx.delete(&other).await?;
        }
    }
    Ok(Action::await_change())
}

#[test]
fn a_label_that_changes() {
    let edited = |one: Simulation| one.then(edit::<Page>("home", |page| page.spec.text = "b".into()));
    check_undisturbed(both(find_by_label).map(edited), "path independence");
}

/// The broken version changes the selector of a Deployment, which is immutable.
async fn select_by_text(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let mut labels = json!({"page": page.name_any()});
    let selector = if is_cured { labels.clone() } else { json!({"text": page.spec.text}) };
    labels["text"] = json!(page.spec.text);
    let deployment: Deployment = serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": labels},
                 "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    }))?;
    cx.apply(deployment).await?;
    Ok(Action::await_change())
}

#[test]
fn a_selector_that_changes() {
    let pair = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<Deployment>();
            operator().control(pages.reconcile(move |page, cx| select_by_text(page, cx, is_cured)))
        })
        .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
        .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
    });
    check_undisturbed(pair, "converges");
}

/// The broken version sets an owner on an object in another namespace, where garbage collection does not find the
/// owner.
async fn own_elsewhere(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let namespace = if is_cured { "default" } else { OTHER_NAMESPACE };
    let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), namespace);
    let mut wanted = child(&page, "child", "");
    wanted.metadata.namespace = Some(namespace.to_owned());
    ensure(&api, &wanted).await?;
    Ok(Action::await_change())
}

#[test]
fn an_owner_in_another_namespace() {
    let [broken, cured] = both(own_elsewhere);
    check(broken, cured, &["quiet at rest", "hot loop"]);
}

/// The broken version takes over any object that has the name it wants.
async fn take_over(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let wanted = child(&page, "notes", &page.spec.text);
    if is_cured {
        let stored = config_maps(&cx).get_opt("notes").await?;
        let is_ours =
            |stored: &ConfigMap| stored.metadata.owner_references == wanted.metadata.owner_references;
        if stored.as_ref().is_some_and(|stored| !is_ours(stored)) {
            return Ok(Action::await_change());
        }
    }
    let how = PatchParams::apply("pages").force();
    config_maps(&cx).patch("notes", &how, &Patch::Apply(&wanted)).await?;
    Ok(Action::await_change())
}

/// Adopting a user's object may be intended, so only a condition of the user can say that it is not. Either of the two
/// may create the object first, so the schedule in which the user is too late is not judged.
#[test]
fn an_object_of_somebody_else() {
    let [broken, cured] = both(take_over).map(|one| {
        let mut notes = child(&page("none", PageSpec::default()), "notes", "mine");
        notes.metadata.owner_references = None;
        one.given(notes).eventually(|cluster| {
            let notes = cluster.get::<ConfigMap>("notes").and_then(|notes| notes.data).unwrap_or_default();
            notes.get("text").is_none_or(|text| text == "mine")
        })
    });
    check(broken, cured, &["eventually"]);
}
