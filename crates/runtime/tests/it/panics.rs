//! Tests operator code that panics outside of reconciles, because of one object: the panic is reported, and nothing
//! else is affected.

use homeostat::testing::InjectedFault;
use homeostat_core::journal::Entry;
use homeostat_runtime::{Action, Controller, Predicate};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::test_cluster::{Running, TestCluster, Widget, WidgetSpec, config};

/// A ConfigMap for which [`mapped_or_panic`] panics.
fn bomb(name: &str, widget: &str) -> ConfigMap {
    let data = [("bomb".to_owned(), String::new()), ("widget".to_owned(), widget.to_owned())];
    ConfigMap { data: Some(data.into()), ..config(name, &[]) }
}

fn mapped(map: &ConfigMap) -> Option<String> {
    map.data.as_ref().and_then(|data| data.get("widget").cloned())
}

fn mapped_or_panic(map: &ConfigMap) -> Option<String> {
    assert!(map.data.as_ref().is_none_or(|data| !data.contains_key("bomb")), "boom");
    mapped(map)
}

/// Returns whether the operator still reconciles.
async fn lives(lab: &TestCluster) -> bool {
    lab.log.take();
    lab.widget("canary").await;
    lab.pass(5).await;
    let lives = lab.log.take().contains(&"canary".to_owned());
    lab.delete::<Widget>("canary").await;
    lives && !lab.has_logged("a task of the runtime failed; stopping")
}

/// Returns the panics in the journal of an operator.
fn panics(running: &Running) -> Vec<String> {
    let records = running.journal.records().into_iter();
    let told = records.filter_map(|record| match record.entry {
        Entry::Panicked { object, function, message } => {
            Some(format!("{function} over {}: {message}", object.name()))
        }
        _ => None,
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_takes_no_trigger_from_another_controller() {
    let mut lab = TestCluster::new().await;
    let (one, two) = (lab.log.clone(), lab.log.clone());
    let first =
        Controller::<Widget>::new().watches::<ConfigMap, _>(mapped_or_panic).reconcile(move |_, _| {
            one.say("first");
            async { Ok(Action::await_change()) }
        });
    let second =
        Controller::<Widget>::new().named("second").watches::<ConfigMap, _>(mapped).reconcile(move |_, _| {
            two.say("second");
            async { Ok(Action::await_change()) }
        });
    let running = lab.run(|operator| operator.control(first).control(second));
    lab.widget("w").await;
    lab.log.take();
    lab.create(&bomb("map", "w")).await;
    lab.pass(60).await;
    assert_eq!(lab.log.take(), ["second"]);
    assert_eq!(panics(&running), ["a mapping over map: boom"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_over_one_state_is_asked_about_the_other() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.watches::<ConfigMap, _>(mapped_or_panic)).await;
    lab.widget("w").await;
    let mut map = bomb("map", "w");
    map.data.as_mut().unwrap().remove("bomb");
    lab.create(&map).await;
    lab.log.take();
    lab.patch::<ConfigMap>("map", json!({"data": {"bomb": ""}})).await;
    assert_eq!(lab.log.take(), ["w"], "what it pointed to before is reconciled");
}

#[tokio::test(start_paused = true)]
async fn a_predicate_that_panics_holds_nothing_back() {
    let mut lab = TestCluster::new().await;
    let running = lab
        .run_logging(|controller| {
            controller.when(Predicate::new(|_, new: &Widget| {
                assert!(new.spec.size != 13, "thirteen");
                false
            }))
        })
        .await;
    lab.widget("w").await;
    lab.log.take();
    lab.patch::<Widget>("w", json!({"spec": {"size": 12}})).await;
    assert!(lab.log.take().is_empty(), "it does not matter");
    lab.patch::<Widget>("w", json!({"spec": {"size": 13}})).await;
    assert_eq!(lab.log.take(), ["w"]);
    assert_eq!(panics(&running), ["a predicate over w: thirteen"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_over_a_missed_deletion_does_not_end_the_operator() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.watches::<ConfigMap, _>(mapped_or_panic)).await;
    lab.create(&bomb("map", "w")).await;
    assert!(lives(&lab).await, "after a change");
    lab.faults.set(|_| Some(InjectedFault::Unreachable));
    lab.faults.cut();
    lab.delete::<ConfigMap>("map").await;
    lab.return_without_history().await;
    assert!(lives(&lab).await, "after a list");
}

#[derive(Hash, PartialEq, Eq)]
struct Size(i64);

#[tokio::test(start_paused = true)]
async fn an_index_that_panics_over_an_object_does_not_end_the_operator() {
    let mut lab = crate::degraded::lab_that_accepts_anything().await;
    let running = lab
        .run_logging(|controller| {
            controller.index::<Widget, Size, _>(|widget| {
                assert!(widget.spec.size != 13, "thirteen");
                [Size(widget.spec.size)]
            })
        })
        .await;
    lab.create(&Widget::new("bad", WidgetSpec { size: 13, config: None })).await;
    assert!(lives(&lab).await, "after a change");
    assert_eq!(panics(&running), ["an index over bad: thirteen"]);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let poison = Patch::Merge(json!({"spec": {"size": "many"}}));
    api.patch("bad", &PatchParams::default(), &poison).await.unwrap();
    lab.rest().await;
    assert!(lives(&lab).await, "when it no longer decodes");
}

/// A kind whose type panics when it decodes some texts.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "test.dev", version = "v1", kind = "Fuse", namespaced)]
struct FuseSpec {
    #[serde(default, deserialize_with = "fragile")]
    #[schemars(with = "String")]
    text: String,
}

fn fragile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    assert!(text != "boom", "the type panics");
    Ok(text)
}

#[tokio::test(start_paused = true)]
async fn a_type_that_panics_over_an_object_does_not_end_the_operator() {
    for (is_there_before, is_paged) in [(true, false), (true, true), (false, false)] {
        let mut lab = TestCluster::new().await;
        if is_paged {
            lab.faults.set(|request| {
                let is_stream = request.uri().query().unwrap_or_default().contains("sendInitialEvents");
                is_stream.then_some(InjectedFault::Refuse(422, "no streams"))
            });
        }
        let crds: Api<CustomResourceDefinition> = Api::all(lab.client.clone());
        crds.create(&PostParams::default(), &Fuse::crd()).await.unwrap();
        lab.rest().await;
        lab.await_served("/apis/test.dev/v1/fuses").await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Fuse"));
        let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
        let fuse =
            |name: &str, text: &str| DynamicObject::new(name, &kind).data(json!({"spec": {"text": text}}));
        let (bad, good) = (fuse("bad", "boom"), fuse("good", "calm"));
        if is_there_before {
            api.create(&PostParams::default(), &bad).await.unwrap();
        }
        let (log, other) = (lab.log.clone(), lab.log.clone());
        let fuses = Controller::<Fuse>::new().reconcile(move |fuse, _| {
            other.say(fuse.metadata.name.clone().unwrap_or_default());
            async { Ok(Action::await_change()) }
        });
        let widgets = Controller::<Widget>::new().reconcile(move |widget, _| {
            log.say(widget.metadata.name.clone().unwrap_or_default());
            async { Ok(Action::await_change()) }
        });
        let running = lab.run(|operator| operator.control(fuses).control(widgets));
        lab.rest().await;
        if !is_there_before {
            api.create(&PostParams::default(), &bad).await.unwrap();
        }
        api.create(&PostParams::default(), &good).await.unwrap();
        lab.rest().await;
        assert_eq!(lab.log.take(), ["good"], "its neighbours are reconciled");
        assert!(lives(&lab).await);
        let ready = running.page("/readyz").await;
        assert!(ready.contains("decoding it panicked: the type panics"), "{ready}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_triggers_that_panics_ends_alone() {
    let mut lab = TestCluster::new().await;
    let stream = futures::stream::unfold((), |()| async { panic!("the webhook broke") });
    let stream = futures::StreamExt::map(stream, |name: String| name);
    lab.run_logging(|controller| controller.on("webhook", stream)).await;
    assert!(lives(&lab).await);
    assert!(lab.has_logged("the webhook broke"));
}
