//! Deleted objects: a total that ignores deletions, and a namespace in which nothing can be created any more.

use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Simulation, delete};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, ResourceExt};

use crate::kinds::{Page, PageSpec, check_undisturbed, child, ensure, operator, page};

/// Writes the number of pages into a child of the page `index`.
async fn count_pages(_: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    if let Some(index) = cx.get::<Page>("index")? {
        let total = cx.list::<Page>()?.len();
        cx.apply_unowned(child(&index, "total", &total.to_string())).await?;
    }
    Ok(Action::await_change())
}

/// The broken version counts only when a page is reconciled, but a deleted page is never reconciled.
#[test]
fn a_total_that_forgets_deletions() {
    let pair = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<ConfigMap>();
            let pages = pages.watches::<Page, _>(move |_| is_cured.then(|| "index".to_owned()));
            operator().control(pages.reconcile(count_pages))
        })
        .given(page("index", PageSpec::default()))
        .given(page("other", PageSpec::default()))
        .then(delete::<Page>("other"))
    });
    check_undisturbed(pair, "quiet at rest");
}

/// The broken version creates a ConfigMap when a page is deleted. The server refuses this if the namespace is being
/// deleted as well.
#[test]
fn a_write_into_a_namespace_that_is_being_deleted() {
    let pair = [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().writes::<ConfigMap>();
            let pages = pages.cleanup(move |page: Arc<Page>, cx: Context<Page>| async move {
                let mut farewell = child(&page, "farewell", "");
                farewell.metadata.owner_references = None;
                farewell.metadata.namespace = page.namespace();
                let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.key().namespace());
                match ensure(&api, &farewell).await {
                    Err(_) if is_cured => {}
                    other => other?,
                }
                Ok(Action::await_change())
            });
            operator().control(pages.reconcile(|_, _| async { Ok(Action::await_change()) }))
        })
        .given(Namespace {
            metadata: kube::api::ObjectMeta { name: Some("team".to_owned()), ..Default::default() },
            ..Namespace::default()
        })
        .given({
            let mut page = page("home", PageSpec::default());
            page.metadata.namespace = Some("team".to_owned());
            page
        })
        .then(delete::<Namespace>("team"))
    });
    check_undisturbed(pair, "converges");
}
