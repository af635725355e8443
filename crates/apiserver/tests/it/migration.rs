//! Tests opening a folder that the first edition wrote: everything in it is unchanged, except for objects that should
//! never have been there.
//!
//! `first_edition.zz` is its log, compressed: built-in objects, two definitions with objects, and three definitions
//! that had taken over built-in resources (`clusterrolebindings`, which made Mallory an administrator;
//! `runtimeclasses`, which overwrote a built-in one; `events`).

use std::path::Path;
use std::sync::Arc;

use homeostat_apiserver::data_migrations::CONTENTS;
use homeostat_core::{Prefix, Revision};
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Store as _};
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "rbac.authorization.k8s.io";
const LAMPS: &str = "/apis/demo.dev/v1/namespaces/team/lamps";
/// The newest revision of the folder.
const NEWEST: Revision = Revision::new(46);

fn first_edition() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let log = miniz_oxide::inflate::decompress_to_vec_zlib(include_bytes!("first_edition.zz")).unwrap();
    std::fs::write(folder.path().join("log-00000000000000000000"), log).unwrap();
    folder
}

fn open(folder: &Path) -> Arc<Disk> {
    Arc::new(Disk::open(folder, &Config { contents: CONTENTS, ..Config::default() }).unwrap())
}

async fn names(plane: &TestServer, path: &str) -> Vec<String> {
    let list = plane.get(path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn conditions(definition: &Value) -> Vec<String> {
    let all = definition["status"]["conditions"].as_array().unwrap().iter();
    all.map(|one| format!("{} {}", one["type"].as_str().unwrap(), one["status"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn the_history_of_a_custom_kind_is_that_of_its_new_keys() {
    let folder = first_edition();
    let store = open(folder.path());
    assert_eq!(store.snapshot().revision(), NEWEST);
    let mut watch = store.watch(&Prefix::resource("crd:demo.dev", "lamps"), Revision::ZERO).unwrap();
    let events = watch.try_next().unwrap();
    let shown = events.iter().map(|event| {
        let what = match (&event.old, &event.new) {
            (None, _) => "added",
            (_, None) => "deleted",
            _ => "changed",
        };
        format!("{} {} {what}", event.revision, event.key.name())
    });
    let expected = [
        "25 desk added",
        "26 hall added",
        "27 broken added",
        "29 desk changed",
        "30 desk changed",
        "31 broken deleted",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert!(store.snapshot().range(&Prefix::resource("demo.dev", "lamps"), "").next().is_none());
    let mut watch = store.watch(&Prefix::resource("node.k8s.io", "runtimeclasses"), Revision::ZERO).unwrap();
    let last = watch.try_next().unwrap().pop().unwrap();
    assert_eq!((last.key.name(), last.new.is_none()), ("taken", true), "what was overwritten is gone");
}

#[tokio::test]
async fn all_objects_exist_and_can_be_used() {
    let folder = first_edition();
    let plane = TestServer::start_on(open(folder.path())).await;
    let desk = plane.get(&format!("{LAMPS}/desk")).await.expect(200);
    assert_eq!(desk["metadata"]["resourceVersion"], "30");
    assert_eq!((&desk["spec"], &desk["status"]), (&json!({"watts": 7}), &json!({"lit": true})));
    assert_eq!(names(&plane, "/apis/demo.dev/v1/lamps").await, ["desk", "hall"]);
    assert_eq!(names(&plane, "/apis/demo.dev/v1/lamps?labelSelector=room%3Dstudy").await, ["desk"]);
    let maps = "/api/v1/namespaces/team/configmaps";
    assert_eq!(plane.get(&format!("{maps}/settings")).await.expect(200)["data"]["colour"], "green");
    plane.get("/api/v1/namespaces/team/secrets/password").await.expect(200);
    let address =
        plane.get("/api/v1/namespaces/team/services/web").await.expect(200)["spec"]["clusterIP"].clone();
    let other =
        json!({"metadata": {"name": "other"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    plane.post("/api/v1/namespaces/team/services", other).await.expect(422);
    let jane = plane.acting_as("jane", &["system:authenticated"]);
    jane.get(&format!("{maps}/settings")).await.expect(200);
    jane.get("/api/v1/namespaces/team/secrets").await.expect(403);

    // Garbage collection, finalizers and the deletion of definitions find custom objects under their new keys.
    plane.delete(&format!("{LAMPS}/hall")).await.expect(200);
    plane.until_gone(&format!("{maps}/owned")).await;
    let star = "/apis/demo.dev/v1/stars/sun";
    plane.delete(&format!("{DEFINITIONS}/stars.demo.dev")).await.expect(200);
    plane.until(star, |answer| answer.body["metadata"].get("deletionTimestamp").is_some()).await;
    plane.patch(star, MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.until_gone(&format!("{DEFINITIONS}/stars.demo.dev")).await;
    plane.get(&format!("{LAMPS}/desk")).await.expect(200);
    plane.delete("/api/v1/namespaces/team").await.expect(200);
    plane.until_gone("/api/v1/namespaces/team").await;
    assert!(names(&plane, "/apis/demo.dev/v1/lamps").await.is_empty());
}

#[tokio::test]
async fn taken_over_resources_are_restored() {
    let folder = first_edition();
    let store = open(folder.path());
    let plane = TestServer::start_on(store.clone()).await;
    let mallory = plane.acting_as("mallory", &["system:authenticated"]);
    mallory.get("/api/v1/secrets").await.expect(403);
    plane.get(&format!("/apis/{RBAC}/v9/clusterrolebindings")).await.expect(404);
    let bindings = names(&plane, &format!("/apis/{RBAC}/v1/clusterrolebindings")).await;
    assert!(
        bindings.contains(&"watchers".to_owned()) && bindings.contains(&"cluster-admin".to_owned()),
        "{bindings:?}"
    );
    assert_eq!(names(&plane, "/apis/node.k8s.io/v1/runtimeclasses").await, ["kept"]);
    assert!(names(&plane, "/api/v1/namespaces/team/events").await.is_empty());
    let shadows = [
        format!("clusterrolebindings.{RBAC}"),
        "runtimeclasses.node.k8s.io".into(),
        "events.events.k8s.io".into(),
    ];
    for shadow in shadows {
        let path = format!("{DEFINITIONS}/{shadow}");
        let expected = ["NamesAccepted False", "Established False"];
        plane.until(&path, |answer| conditions(&answer.body) == expected).await;
        plane.delete(&path).await.expect(200);
        plane.until_gone(&path).await;
    }
    assert_eq!(names(&plane, &format!("/apis/{RBAC}/v1/clusterrolebindings")).await, bindings);
    assert_eq!(names(&plane, "/apis/node.k8s.io/v1/runtimeclasses").await, ["kept"]);
    let snapshot = store.snapshot();
    let left = snapshot.iter().map(|entry| entry.key.as_str()).filter(|key| key.starts_with("crd:"));
    let expected =
        ["crd:demo.dev/lamps/team/desk", "crd:demo.dev/lamps/team/hall", "crd:demo.dev/stars//sun"];
    assert_eq!(left.collect::<Vec<_>>(), expected);
}
