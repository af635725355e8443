//! Tests each source of triggers: main, owned, related, referenced, external, retry, periodic.

use std::time::Duration;

use futures::stream;
use homeostat_core::journal::{Cause, Change, Entry};
use homeostat_core::selector::LabelSelector;
use homeostat_runtime::{Action, Controller, Predicate, changed, retry_after};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::test_cluster::{TestCluster, Widget, WidgetSpec, config, entries};

fn causes(entry: Entry) -> Option<Vec<Cause>> {
    match entry {
        Entry::Started { causes, .. } => Some(causes),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn the_object_itself_created_changed_deleted() {
    let mut lab = TestCluster::new().await;
    lab.widget("old").await;
    let running = lab.run_logging(|controller| controller).await;
    assert_eq!(lab.log.take(), ["old"]);
    lab.widget("new").await;
    assert_eq!(lab.log.take(), ["new"]);
    lab.patch::<Widget>("new", json!({"spec": {"size": 2}})).await;
    assert_eq!(lab.log.take(), ["new"]);
    lab.delete::<Widget>("new").await;
    assert!(lab.log.take().is_empty(), "there is no object to call it with");
    assert_eq!(entries(&running, "old", causes), [[Cause::Listed]]);
    assert_eq!(entries(&running, "new", causes), [[Cause::Created], [Cause::Edited], [Cause::Deleted]]);
}

#[tokio::test(start_paused = true)]
async fn predicates_hold_back_what_does_not_matter() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.when(changed::generation() | changed::annotation("force"))).await;
    lab.widget("w").await;
    lab.log.take();
    lab.patch::<Widget>("w", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert!(lab.log.take().is_empty());
    lab.patch::<Widget>("w", json!({"metadata": {"annotations": {"force": "1"}}})).await;
    lab.patch::<Widget>("w", json!({"spec": {"size": 3}})).await;
    assert_eq!(lab.log.take(), ["w", "w"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_hold_back_changes_of_children_and_related_ones() {
    let mut lab = TestCluster::new().await;
    let data = || Predicate::new(|old: &ConfigMap, new: &ConfigMap| old.data != new.data);
    lab.run_logging(|controller| {
        controller
            .filter(data())
            .owns::<ConfigMap>()
            .watches::<Secret, _>(|secret| {
                secret.metadata.annotations.as_ref().and_then(|notes| notes.get("widget").cloned())
            })
            .filter::<Secret>(changed::labels())
    })
    .await;
    let (one, two) = (lab.widget("one").await, lab.widget("two").await);
    lab.create(&config("child", &[&one])).await;
    let secret = json!({"metadata": {"name": "s", "namespace": "default", "annotations": {"widget": "two"}}});
    lab.create(&serde_json::from_value::<Secret>(secret).unwrap()).await;
    lab.log.take();
    lab.patch::<ConfigMap>("child", json!({"metadata": {"labels": {"a": "b"}}})).await;
    lab.patch::<Secret>("s", json!({"stringData": {"a": "b"}})).await;
    assert!(lab.log.take().is_empty(), "neither data nor labels changed");
    lab.patch::<ConfigMap>("child", json!({"data": {"a": "b"}})).await;
    lab.patch::<Secret>("s", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(lab.log.take(), ["one", "two"]);
    let references = config("child", &[&two]).metadata.owner_references;
    lab.patch::<ConfigMap>("child", json!({"metadata": {"ownerReferences": references}})).await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["one", "two"], "a change of owners is never held back");
    lab.patch::<Secret>("s", json!({"metadata": {"annotations": {"widget": "one"}}})).await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["one", "two"], "neither is a change of whom the mapping names");
}

/// A filter applies to every relation to its kind, and all filters for a kind must pass.
#[tokio::test(start_paused = true)]
async fn a_filter_holds_in_every_relation_to_its_kind() {
    let mut lab = TestCluster::new().await;
    let labelled = |label: &'static str| {
        let value =
            move |map: &ConfigMap| map.metadata.labels.as_ref().and_then(|all| all.get(label).cloned());
        Predicate::new(move |old: &ConfigMap, new: &ConfigMap| value(old) != value(new))
    };
    lab.run_logging(|controller| {
        controller
            .references::<ConfigMap, _>(|widget| widget.spec.config.clone())
            .filter(labelled("a"))
            .filter(labelled("b"))
            .selects::<ConfigMap, _>(|widget| {
                let selector = format!("of={}", widget.metadata.name.as_deref().unwrap_or_default());
                LabelSelector::parse(&selector).ok()
            })
    })
    .await;
    lab.create(&Widget::new("names", WidgetSpec { size: 1, config: Some("map".into()) })).await;
    lab.widget("chooses").await;
    lab.create(&config("map", &[])).await;
    lab.log.take();
    lab.patch::<ConfigMap>("map", json!({"metadata": {"labels": {"of": "chooses"}}})).await;
    assert_eq!(
        lab.log.take(),
        ["chooses"],
        "that it matches now is never held back; the other one's filter does not pass"
    );
    lab.patch::<ConfigMap>("map", json!({"data": {"x": "y"}})).await;
    lab.patch::<ConfigMap>("map", json!({"metadata": {"labels": {"a": "1"}}})).await;
    assert!(lab.log.take().is_empty(), "both filters must pass");
    lab.patch::<ConfigMap>("map", json!({"metadata": {"labels": {"a": "2", "b": "2"}}})).await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["chooses", "names"]);
    lab.delete::<ConfigMap>("map").await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["chooses", "names"], "that it is gone always passes");
}

#[tokio::test(start_paused = true)]
async fn an_owned_object_triggers_its_owner() {
    let mut lab = TestCluster::new().await;
    let running = lab.run_logging(|controller| controller.owns::<ConfigMap>()).await;
    let owner = lab.widget("owner").await;
    lab.widget("other").await;
    lab.log.take();
    let child = lab.create(&config("child", &[&owner])).await;
    lab.patch::<ConfigMap>("child", json!({"data": {"a": "b"}})).await;
    lab.delete::<ConfigMap>("child").await;
    assert_eq!(lab.log.take(), ["owner", "owner", "owner"]);
    let key = homeostat_runtime::kind::key_of(&child);
    let expected = [Change::Added, Change::Modified, Change::Deleted]
        .map(|change| vec![Cause::Owned { child: key.clone(), change }]);
    assert_eq!(entries(&running, "owner", causes)[1..], expected);
}

#[tokio::test(start_paused = true)]
async fn metadata_is_enough_to_trigger_an_owner() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.metadata_only::<ConfigMap>().owns::<ConfigMap>()).await;
    let owner = lab.widget("owner").await;
    lab.log.take();
    lab.create(&config("child", &[&owner])).await;
    lab.delete::<ConfigMap>("child").await;
    assert_eq!(lab.log.take(), ["owner", "owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_owner_triggers_the_old_and_the_new() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.owns::<ConfigMap>()).await;
    let (one, two) = (lab.widget("one").await, lab.widget("two").await);
    lab.create(&config("child", &[&one])).await;
    lab.log.take();
    let references = config("child", &[&two]).metadata.owner_references;
    lab.patch::<ConfigMap>("child", json!({"metadata": {"ownerReferences": references}})).await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_sees_old_and_new() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| {
        controller
            .watches::<ConfigMap, _>(|map| map.data.as_ref().and_then(|data| data.get("widget").cloned()))
    })
    .await;
    lab.widget("one").await;
    lab.widget("two").await;
    let mut map = config("map", &[]);
    map.data = Some([("widget".to_owned(), "one".to_owned())].into());
    lab.log.take();
    lab.create(&map).await;
    assert_eq!(lab.log.take(), ["one"]);
    lab.patch::<ConfigMap>("map", json!({"data": {"widget": "two"}})).await;
    let mut called = lab.log.take();
    called.sort();
    assert_eq!(called, ["one", "two"]);
    lab.delete::<ConfigMap>("map").await;
    assert_eq!(lab.log.take(), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn a_reference_triggers_until_it_is_dropped() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| controller.references::<Secret, _>(|widget| widget.spec.config.clone()))
        .await;
    lab.create(&Widget::new("w", WidgetSpec { size: 0, config: Some("key".into()) })).await;
    lab.log.take();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "key", "namespace": "default"}})).unwrap();
    lab.create(&secret).await;
    assert_eq!(lab.log.take(), ["w"], "the named secret appeared");
    lab.patch::<Secret>("key", json!({"stringData": {"a": "b"}})).await;
    assert_eq!(lab.log.take(), ["w"]);
    lab.patch::<Widget>("w", json!({"spec": {"config": null}})).await;
    assert_eq!(lab.log.take(), ["w"], "dropping it is a change of the widget");
    lab.delete::<Secret>("key").await;
    assert!(lab.log.take().is_empty(), "the secret no longer concerns it");
}

#[tokio::test(start_paused = true)]
async fn the_outside_world_triggers_by_name() {
    let mut lab = TestCluster::new().await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<(String, String)>(1);
    let pushes =
        stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|item| (item, receiver)) });
    let running = lab.run_logging(move |controller| controller.on("webhook", pushes)).await;
    lab.widget("w").await;
    lab.log.take();
    sender.send(("default".into(), "w".into())).await.unwrap();
    lab.rest().await;
    assert_eq!(lab.log.take(), ["w"]);
    let expected = vec![Cause::Outside { source: "webhook".into() }];
    assert_eq!(entries(&running, "w", causes).last(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_failed_reconcile_is_retried() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let running = lab
        .run_with(move |_, cx| {
            log.say(cx.failures().to_string());
            async move {
                match cx.failures() {
                    0 => Err("not yet")?,
                    1 => Err(retry_after(Duration::from_secs(20), "busy")),
                    _ => Ok(homeostat_runtime::Action::await_change()),
                }
            }
        })
        .await;
    lab.widget("w").await;
    lab.pass(2).await;
    assert_eq!(lab.log.take(), ["0", "1"]);
    lab.pass(18).await;
    assert!(lab.log.take().is_empty());
    lab.pass(2).await;
    assert_eq!(lab.log.take(), ["2"]);
    assert_eq!(entries(&running, "w", causes).last(), Some(&vec![Cause::Retried]));
}

#[tokio::test(start_paused = true)]
async fn a_settled_object_is_looked_at_again_once_per_period() {
    let mut lab = TestCluster::new().await;
    let hour = Duration::from_secs(3600);
    let running = lab.run_logging(move |controller| controller.resync(hour)).await;
    lab.widget("w").await;
    lab.log.take();
    lab.pass(3600 * 10).await;
    let count = lab.log.take().len();
    assert!((10..=13).contains(&count), "{count} in ten periods of 0.8 to 1 hour");
    assert_eq!(entries(&running, "w", causes).last(), Some(&vec![Cause::Resync]));
}

/// The index is identified by the type of its values.
#[derive(Hash, PartialEq, Eq)]
struct Colour(String);

#[tokio::test(start_paused = true)]
async fn a_typed_index_answers_from_the_cache() {
    let mut lab = TestCluster::new().await;
    let log = lab.log.clone();
    let control = homeostat_runtime::Controller::<Widget>::new()
        .index::<ConfigMap, Colour, _>(|map| map.data.as_ref()?.get("colour").cloned().map(Colour))
        .reconcile(move |_, cx| {
            let log = log.clone();
            async move {
                let red = cx.indexed::<ConfigMap, Colour>(&Colour("red".into()))?;
                log.say(red.len().to_string());
                Ok(homeostat_runtime::Action::await_change())
            }
        });
    lab.run(|operator| operator.control(control));
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut map = config(name, &[]);
        map.data = Some([("colour".to_owned(), colour.to_owned())].into());
        lab.create(&map).await;
    }
    lab.widget("w").await;
    assert_eq!(lab.log.take(), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_does_not_end_the_watch() {
    let mut lab = TestCluster::new().await;
    lab.run_logging(|controller| {
        controller.watches::<ConfigMap, _>(|map| {
            let data = map.data.clone().unwrap_or_default();
            assert!(!data.contains_key("bomb"), "boom");
            data.get("widget").cloned()
        })
    })
    .await;
    lab.widget("w").await;
    lab.log.take();
    let mut bomb = config("bomb", &[]);
    bomb.data = Some([("bomb".to_owned(), String::new())].into());
    lab.create(&bomb).await;
    let mut map = config("map", &[]);
    map.data = Some([("widget".to_owned(), "w".to_owned())].into());
    lab.create(&map).await;
    assert_eq!(lab.log.take(), ["w"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_from_outside_without_a_namespace_means_that_of_the_operator() {
    let mut lab = TestCluster::new().await;
    let api: Api<Widget> = Api::namespaced(lab.client.clone(), "kube-system");
    api.create(&PostParams::default(), &Widget::new("w", WidgetSpec::default())).await.unwrap();
    let (sender, receiver) = tokio::sync::mpsc::channel::<String>(1);
    let pushes =
        stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|name| (name, receiver)) });
    let log = lab.log.clone();
    let control = Controller::<Widget>::new().on("webhook", pushes).reconcile(move |widget, _| {
        log.say(widget.metadata.name.clone().unwrap_or_default());
        async { Ok(Action::await_change()) }
    });
    lab.run(|operator| operator.namespace("kube-system").control(control));
    lab.rest().await;
    assert_eq!(lab.log.take(), ["w"], "it is listed");
    sender.send("w".into()).await.unwrap();
    lab.rest().await;
    assert_eq!(lab.log.take(), ["w"], "and called for");
}
