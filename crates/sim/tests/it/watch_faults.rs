//! Injects one fault of a watch at a time, and restarts on old states.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use homeostat_runtime::handlers::OperatorContext;
use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Fault, Simulation, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};

use crate::kinds::{Page, PageSpec, both, check_fault, child, config_maps, ensure, operator, page};

/// Creates a child. The broken version also creates one for every former text that it has seen.
fn archive(remembers: bool) -> Operator {
    let last: Arc<Mutex<String>> = Arc::default();
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(move |page, cx| {
        let before = std::mem::replace(
            &mut *last.lock().expect("nobody panics while it holds the lock"),
            page.spec.text.clone(),
        );
        async move {
            if remembers && !before.is_empty() && before != page.spec.text {
                ensure(&config_maps(&cx), &child(&page, &format!("was-{before}"), "")).await?;
            }
            ensure(&config_maps(&cx), &child(&page, "child", "")).await?;
            Ok(Action::await_change())
        }
    });
    operator().control(pages)
}

#[test]
fn a_state_that_is_never_seen() {
    let pair = [true, false].map(|remembers| {
        Simulation::new(move || archive(remembers))
            .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
            .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
            .then(edit::<Page>("home", |page| page.spec.text = "c".into()))
    });
    check_fault(pair, "watch pages.demo.dev: modified default/home", &Fault::Coalesce, "same end");
}

/// Copies the texts of pages with its own watch. The broken version does not reopen the watch.
fn mirror(opens_again: bool) -> Operator {
    operator().on_startup("mirror", move |activity: OperatorContext| async move {
        tokio::spawn(copy_texts(activity.client().clone(), opens_again));
        Ok(())
    })
}

async fn copy_texts(client: kube::Client, opens_again: bool) {
    let pages: Api<Page> = Api::namespaced(client.clone(), "default");
    let children: Api<ConfigMap> = Api::namespaced(client, "default");
    loop {
        for page in pages.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            copy_text(&children, &page).await;
        }
        if let Ok(stream) = pages.watch(&WatchParams::default(), "0").await {
            let mut stream = stream.boxed();
            while let Ok(Some(WatchEvent::Added(page) | WatchEvent::Modified(page))) = stream.try_next().await
            {
                copy_text(&children, &page).await;
            }
        }
        if !opens_again {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn copy_text(children: &Api<ConfigMap>, page: &Page) {
    let object = child(page, "copy", &page.spec.text);
    let how = PatchParams::apply("mirror").force();
    while children.patch("copy", &how, &Patch::Apply(&object)).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_watch_that_ends() {
    for fault in [Fault::Cut, Fault::Expire] {
        let pair = [false, true].map(|opens_again| {
            Simulation::new(move || mirror(opens_again))
                .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
                .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
        });
        check_fault(pair, "watch pages.demo.dev: modified default/home", &fault, "same end");
    }
}

/// Grows a child and never shrinks it. The broken version recreates it whenever its size is not the wanted one.
async fn grow(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    let size = |stored: &ConfigMap| {
        stored.data.as_ref().and_then(|data| data.get("text")?.parse::<usize>().ok()).unwrap_or_default()
    };
    let wanted = child(&page, "disk", &page.spec.count.to_string());
    match cx.get::<ConfigMap>("disk")? {
        None => ensure(&api, &wanted).await?,
        Some(stored) if is_cured && size(&stored) < page.spec.count => {
            let patch = Patch::Merge(serde_json::json!({"data": wanted.data}));
            api.patch("disk", &PatchParams::default(), &patch).await?;
        }
        Some(stored) if !is_cured && size(&stored) != page.spec.count => {
            api.delete("disk", &DeleteParams::default()).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

#[test]
fn one_cache_is_older_than_the_others() {
    let pair = both(grow).map(|one| one.then(edit::<Page>("home", |page| page.spec.count = 2)));
    let fault = Fault::RestartOldOf { resource: "pages.demo.dev".into(), step: 1 };
    check_fault(pair, "at rest after edit pages.demo.dev default/home", &fault, "justified deletion");
}

/// The broken version treats a child that its cache does not show yet as lost.
async fn follow(page: Arc<Page>, cx: Context<Page>, is_cured: bool) -> Result<Action> {
    let api = config_maps(&cx);
    if page.status.as_ref().is_none_or(|status| status.seen.is_empty()) {
        ensure(&api, &child(&page, "first", "")).await?;
        let pages: Api<Page> = Api::namespaced(cx.client().clone(), "default");
        let status = Patch::Merge(serde_json::json!({"status": {"seen": "made"}}));
        pages.patch_status("home", &PatchParams::default(), &status).await?;
        return Ok(Action::requeue(Duration::from_secs(1)));
    }
    if cx.get::<ConfigMap>("first")?.is_none() && !(is_cured && api.get_opt("first").await?.is_some()) {
        ensure(&api, &child(&page, "lost", "")).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_cache_that_lags() {
    for fault in [Fault::Delay { seconds: 5 }, Fault::Hold { writes: 2 }] {
        check_fault(both(follow), "watch configmaps: added default/first", &fault, "same end");
    }
}
