//! The cache's promises: old and new, missed deletions, own writes, indexes, quarantine.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::*;
use crate::kind::key;

fn map(name: &str, revision: u64, owner: &str) -> ConfigMap {
    let owner_references = (!owner.is_empty())
        .then(|| vec![OwnerReference { uid: owner.into(), name: owner.into(), ..OwnerReference::default() }]);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("a".into()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some(revision.to_string()),
            owner_references,
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn at(object: Option<Arc<ConfigMap>>) -> Option<u64> {
    object.map(|object| revision_of(&*object).get())
}

/// What the subscribers are told, in short: change, key, old and new revision.
fn told(cache: &Cache<ConfigMap>) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    cache.subscribe(move |delta| {
        let line = format!(
            "{:?} {} {:?}->{:?}{}",
            delta.change,
            delta.key.name(),
            at(delta.old.clone()).unwrap_or(0),
            at(delta.new.clone()).unwrap_or(0),
            if delta.is_echo { " echo" } else { "" }
        );
        log.lock().unwrap().push(line);
    });
    told
}

fn see(cache: &Cache<ConfigMap>, object: ConfigMap, is_list: bool) {
    cache.observe(key_of(&object), Arc::new(object), is_list);
}

fn listed(cache: &Cache<ConfigMap>, objects: Vec<ConfigMap>, revision: u64) {
    cache.begin_list();
    for object in objects {
        see(cache, object, true);
    }
    cache.end_list(Revision::new(revision));
}

#[test]
fn a_relist_finds_what_changed_and_what_is_gone() {
    let cache = Cache::new();
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, ""), map("y", 2, ""), map("z", 3, "")], 3);
    told.lock().unwrap().clear();
    listed(&cache, vec![map("x", 1, ""), map("z", 7, "")], 8);
    assert_eq!(*told.lock().unwrap(), ["Modified z 3->7", "Missed y 2->0"]);
    assert_eq!(cache.len(), 2);
}

#[test]
fn a_list_of_a_server_that_went_back_is_the_truth() {
    let cache = Cache::new();
    let told = told(&cache);
    listed(&cache, vec![map("x", 16, "one"), map("y", 40, ""), map("w", 30, ""), map("u", 9, "")], 52);
    cache.wrote(map("w", 53, ""));
    cache.wrote(map("u", 53, ""));
    cache.wrote(map("v", 54, ""));
    told.lock().unwrap().clear();
    listed(&cache, vec![map("x", 12, "two"), map("w", 11, ""), map("u", 9, "")], 13);
    let expected =
        ["Modified x 16->12", "Modified w 30->11", "Modified u 53->9", "Deleted v 54->0", "Missed y 40->0"];
    assert_eq!(*told.lock().unwrap(), expected);
    let now = |name| at(cache.get(&key::<ConfigMap>("a", name)));
    assert_eq!((now("x"), now("w"), now("v"), cache.len()), (Some(12), Some(11), None, 3));
    assert_eq!((cache.owned_by("one").len(), cache.owned_by("two").len()), (0, 1));
    assert_eq!(cache.revision(), Revision::new(13));
    see(&cache, map("x", 14, ""), false);
    assert_eq!(at(cache.get(&key::<ConfigMap>("a", "x"))), Some(14), "and the watch goes on from there");
}

#[test]
fn own_writes_are_seen_at_once_and_until_the_watch_has_them() {
    let cache = Cache::new();
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, "")], 1);
    let x = key::<ConfigMap>("a", "x");
    cache.wrote(map("x", 5, ""));
    assert_eq!(at(cache.get(&x)), Some(5));
    see(&cache, map("x", 3, ""), false);
    assert_eq!(at(cache.get(&x)), Some(5), "the watch is behind our write");
    see(&cache, map("x", 5, ""), false);
    see(&cache, map("x", 6, ""), false);
    assert_eq!(at(cache.get(&x)), Some(6));
    cache.wrote(map("x", 5, ""));
    assert_eq!(at(cache.get(&x)), Some(6), "a late answer does not go back in time");
    let expected = ["Listed x 0->1", "Modified x 1->3 echo", "Modified x 3->5 echo", "Modified x 5->6"];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn own_creations_and_deletions_are_seen_at_once() {
    let cache = Cache::new();
    listed(&cache, vec![map("x", 1, "o")], 1);
    cache.wrote(map("y", 5, "o"));
    assert_eq!(cache.owned_by("o").len(), 2);
    cache.deleted(&key::<ConfigMap>("a", "x"));
    assert_eq!(cache.owned_by("o").len(), 1);
    assert_eq!(cache.list().len(), 1);
    listed(&cache, vec![], 4);
    assert_eq!(cache.list().len(), 1, "the list is older than our creation");
    listed(&cache, vec![], 9);
    assert!(cache.is_empty(), "the list is newer: someone deleted it");
}

#[test]
fn the_owner_index_follows_a_change_of_owner() {
    let cache = Cache::new();
    see(&cache, map("x", 1, "one"), false);
    see(&cache, map("x", 2, "two"), false);
    assert!(cache.owned_by("one").is_empty());
    assert_eq!(cache.owned_by("two").len(), 1);
    cache.observe_deleted(key::<ConfigMap>("a", "x"), Revision::new(3));
    assert!(cache.owned_by("two").is_empty());
}

#[test]
fn a_typed_index_covers_what_was_there_before_it() {
    let cache = Cache::new();
    see(&cache, map("x", 1, ""), false);
    let by_length = cache.index(|map: &ConfigMap| map.metadata.name.as_ref().map(String::len));
    see(&cache, map("long", 2, ""), false);
    assert_eq!(at(by_length.get(&1).pop()), Some(1));
    assert_eq!(by_length.keys(&4), [key::<ConfigMap>("a", "long")]);
}

#[test]
fn a_poison_object_is_out_of_sight_and_comes_back() {
    let cache = Cache::new();
    let told = told(&cache);
    see(&cache, map("x", 1, "o"), false);
    cache.quarantine(&key::<ConfigMap>("a", "x"), "data: expected a map".into(), true);
    assert!(cache.is_empty() && cache.owned_by("o").is_empty());
    assert_eq!(cache.quarantined().len(), 1);
    assert_eq!(told.lock().unwrap().len(), 1, "it is not gone, so nobody is told so");
    see(&cache, map("x", 3, "o"), false);
    assert!(cache.quarantined().is_empty());
    assert_eq!(told.lock().unwrap().last().unwrap(), "Added x 0->3");
}

#[test]
fn a_relist_forgets_poison_that_is_gone() {
    let cache: Cache<ConfigMap> = Cache::new();
    cache.begin_list();
    cache.quarantine(&key::<ConfigMap>("a", "x"), "bad".into(), true);
    cache.end_list(Revision::new(1));
    assert_eq!(cache.quarantined().len(), 1);
    listed(&cache, vec![], 2);
    assert!(cache.quarantined().is_empty());
}
