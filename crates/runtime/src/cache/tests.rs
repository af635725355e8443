//! Tests what the cache promises: old and new states, missed deletions, our own writes, indexes, quarantine.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::*;
use crate::kind::{info, key, key_of, revision_of};

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

fn new_cache(scope: &Scope) -> Cache<ConfigMap> {
    Cache::from_erased(ObjectCache::new(info::<ConfigMap>(), scope))
}

fn at(object: Option<Arc<ConfigMap>>) -> Option<u64> {
    object.map(|object| revision_of(&*object).get())
}

/// Collects what the subscribers observe: change, key, old and new revision.
fn told(cache: &Cache<ConfigMap>) -> Arc<Mutex<Vec<String>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    cache.erased().subscribe(move |delta| {
        let at = |object: &Option<Arc<Object>>| object.as_ref().map_or(0, |object| object.revision().get());
        let line = format!(
            "{:?} {} {:?}->{:?}{}",
            delta.change,
            delta.key.name(),
            at(&delta.old),
            at(&delta.new),
            if delta.is_echo_for(&"test".into(), &delta.key) { " echo" } else { "" }
        );
        log.lock().unwrap().push(line);
    });
    told
}

/// Records a write by a run for the object itself.
fn wrote(cache: &Cache<ConfigMap>, object: ConfigMap) {
    let writer = WritingRun { source: "test".into(), object: key_of(&object) };
    cache.wrote(object, writer);
}

fn see(cache: &Cache<ConfigMap>, object: ConfigMap, by: ShownBy) {
    cache.erased().observe(key_of(&object), Arc::new(object), by);
}

fn listed(cache: &Cache<ConfigMap>, objects: Vec<ConfigMap>, revision: u64) {
    cache.erased().begin_list();
    for object in objects {
        see(cache, object, ShownBy::List);
    }
    cache.erased().end_list(Revision::new(revision));
}

#[test]
fn a_relist_finds_what_changed_and_what_is_gone() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, ""), map("y", 2, ""), map("z", 3, "")], 3);
    told.lock().unwrap().clear();
    listed(&cache, vec![map("x", 1, ""), map("z", 7, "")], 8);
    assert_eq!(*told.lock().unwrap(), ["Modified z 3->7", "Missed y 2->0"]);
    assert_eq!(cache.len(), 2);
}

/// The watch ended before it showed our write, and someone deleted the object before the next list: without a
/// notification, the owner would wait forever. The simulator found this case.
#[test]
fn a_relist_finds_that_a_write_of_ours_is_gone_which_no_watch_has_shown() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![], 3);
    wrote(&cache, map("x", 4, "one"));
    listed(&cache, vec![], 6);
    assert_eq!(*told.lock().unwrap(), ["Missed x 4->0"]);
    assert_eq!(cache.len(), 0);
    wrote(&cache, map("y", 9, "one"));
    listed(&cache, vec![], 8);
    assert_eq!(told.lock().unwrap().len(), 1, "a list from before our write says nothing about it");
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_list_of_a_server_that_went_back_is_the_truth() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![map("x", 16, "one"), map("y", 40, ""), map("w", 30, ""), map("u", 9, "")], 52);
    wrote(&cache, map("w", 53, ""));
    wrote(&cache, map("u", 53, ""));
    wrote(&cache, map("v", 54, ""));
    told.lock().unwrap().clear();
    listed(&cache, vec![map("x", 12, "two"), map("w", 11, ""), map("u", 9, "")], 13);
    let expected =
        ["Modified x 16->12", "Modified w 30->11", "Modified u 53->9", "Deleted v 54->0", "Missed y 40->0"];
    assert_eq!(*told.lock().unwrap(), expected);
    let now = |name| at(cache.get(&key::<ConfigMap>("a", name)));
    assert_eq!((now("x"), now("w"), now("v"), cache.len()), (Some(12), Some(11), None, 3));
    assert_eq!((cache.owned_by("one").len(), cache.owned_by("two").len()), (0, 1));
    assert_eq!(cache.revision(), Revision::new(13));
    see(&cache, map("x", 14, ""), ShownBy::Watch);
    assert_eq!(at(cache.get(&key::<ConfigMap>("a", "x"))), Some(14), "and the watch goes on from there");
}

#[test]
fn own_writes_are_seen_at_once_and_until_the_watch_has_them() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, "")], 1);
    let x = key::<ConfigMap>("a", "x");
    wrote(&cache, map("x", 5, ""));
    assert_eq!(at(cache.get(&x)), Some(5));
    see(&cache, map("x", 3, ""), ShownBy::Watch);
    assert_eq!(at(cache.get(&x)), Some(5), "the watch is behind our write");
    see(&cache, map("x", 5, ""), ShownBy::Watch);
    see(&cache, map("x", 6, ""), ShownBy::Watch);
    assert_eq!(at(cache.get(&x)), Some(6));
    wrote(&cache, map("x", 5, ""));
    assert_eq!(at(cache.get(&x)), Some(6), "a late answer does not go back in time");
    let expected = ["Listed x 0->1", "Modified x 1->3", "Modified x 3->5 echo", "Modified x 5->6"];
    assert_eq!(*told.lock().unwrap(), expected, "what came before our write is somebody else's");
}

#[test]
fn each_own_write_is_known_when_it_comes_back() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, "")], 1);
    // The response to the second write arrived first.
    wrote(&cache, map("x", 7, ""));
    wrote(&cache, map("x", 5, ""));
    for revision in [4, 5, 6, 7, 8] {
        see(&cache, map("x", revision, ""), ShownBy::Watch);
    }
    let expected = ["1->4", "4->5 echo", "5->6", "6->7 echo", "7->8"].map(|one| format!("Modified x {one}"));
    assert_eq!(told.lock().unwrap()[1..], expected);
}

#[test]
fn an_own_write_that_a_list_shows_may_hold_more_than_that() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    listed(&cache, vec![map("x", 1, "")], 1);
    wrote(&cache, map("x", 5, ""));
    listed(&cache, vec![map("x", 5, "")], 5);
    assert_eq!(told.lock().unwrap().last().unwrap(), "Modified x 1->5");
}

#[test]
fn a_write_is_an_echo_only_to_the_run_that_wrote() {
    let cache = new_cache(&Scope::default());
    listed(&cache, vec![map("x", 1, "")], 1);
    let (x, y) = (key::<ConfigMap>("a", "x"), key::<ConfigMap>("a", "y"));
    cache.wrote(map("x", 5, ""), WritingRun { source: "one".into(), object: y.clone() });
    let delta = cache.erased().observe(x.clone(), Arc::new(map("x", 5, "")), ShownBy::Watch).unwrap();
    assert!(delta.is_echo_for(&"one".into(), &y));
    assert!(!delta.is_echo_for(&"one".into(), &x), "another object's run");
    assert!(!delta.is_echo_for(&"two".into(), &y), "another controller's run");
}

#[test]
fn what_is_written_outside_of_what_is_watched_is_not_kept() {
    let scope = |labels: Option<&str>| Scope { namespace: Some("a".into()), labels: labels.map(Into::into) };
    let cache = new_cache(&scope(None));
    let mut elsewhere = map("x", 5, "");
    elsewhere.metadata.namespace = Some("b".into());
    wrote(&cache, elsewhere);
    assert!(cache.is_empty());
    let cache = new_cache(&scope(Some("app=web")));
    let labelled = |revision, value: &str| {
        let mut map = map("x", revision, "o");
        map.metadata.labels = Some([("app".to_owned(), value.to_owned())].into());
        map
    };
    listed(&cache, vec![labelled(1, "web")], 1);
    wrote(&cache, labelled(5, "db"));
    let x = key::<ConfigMap>("a", "x");
    assert!(cache.get(&x).is_none() && cache.owned_by("o").is_empty(), "our write took it out");
    see(&cache, labelled(4, "web"), ShownBy::Watch);
    assert!(cache.get(&x).is_none(), "the watch is behind our write");
    cache.erased().observe_deleted(x.clone(), Revision::new(5));
    see(&cache, labelled(6, "web"), ShownBy::Watch);
    assert_eq!(at(cache.get(&x)), Some(6), "somebody put it back");
}

#[test]
fn an_answer_that_the_watch_has_overtaken_brings_nothing_back() {
    let cache = new_cache(&Scope::default());
    listed(&cache, vec![], 1);
    see(&cache, map("x", 5, ""), ShownBy::Watch);
    cache.erased().observe_deleted(key::<ConfigMap>("a", "x"), Revision::new(6));
    wrote(&cache, map("x", 5, ""));
    assert!(cache.is_empty(), "it is gone already");
}

#[test]
fn a_deletion_hides_only_the_object_it_was_for() {
    let cache = new_cache(&Scope::default());
    listed(&cache, vec![map("x", 1, "")], 1);
    cache.erased().deleted(&key::<ConfigMap>("a", "x"), Some("uid of the one before"));
    assert_eq!(cache.list().len(), 1);
}

#[test]
fn a_subscriber_or_index_that_panics_harms_no_other() {
    let cache = new_cache(&Scope::default());
    cache.subscribe(|delta| assert!(delta.key.name() != "bad", "a mapping"));
    let bad = cache.index(|map: &ConfigMap| {
        assert!(map.metadata.name.as_deref() != Some("bad"), "an index");
        [1]
    });
    let good = cache.index(|_: &ConfigMap| [1]);
    let told = told(&cache);
    see(&cache, map("bad", 1, ""), ShownBy::Watch);
    see(&cache, map("good", 2, ""), ShownBy::Watch);
    assert_eq!(told.lock().unwrap().len(), 2);
    assert_eq!((bad.keys(&1).len(), good.keys(&1).len()), (1, 2));
    listed(&cache, vec![], 9);
    cache.erased().quarantine(&key::<ConfigMap>("a", "bad"), "odd".into(), ShownBy::Watch);
    assert_eq!((told.lock().unwrap().len(), good.keys(&1).len()), (4, 0));
}

#[test]
fn own_creations_and_deletions_are_seen_at_once() {
    let cache = new_cache(&Scope::default());
    listed(&cache, vec![map("x", 1, "o")], 1);
    wrote(&cache, map("y", 5, "o"));
    assert_eq!(cache.owned_by("o").len(), 2);
    cache.erased().deleted(&key::<ConfigMap>("a", "x"), Some("uid-x"));
    assert_eq!(cache.owned_by("o").len(), 1);
    assert_eq!(cache.list().len(), 1);
    listed(&cache, vec![], 4);
    assert_eq!(cache.list().len(), 1, "the list is older than our creation");
    listed(&cache, vec![], 9);
    assert!(cache.is_empty(), "the list is newer: someone deleted it");
}

#[test]
fn the_owner_index_follows_a_change_of_owner() {
    let cache = new_cache(&Scope::default());
    see(&cache, map("x", 1, "one"), ShownBy::Watch);
    see(&cache, map("x", 2, "two"), ShownBy::Watch);
    assert!(cache.owned_by("one").is_empty());
    assert_eq!(cache.owned_by("two").len(), 1);
    cache.erased().observe_deleted(key::<ConfigMap>("a", "x"), Revision::new(3));
    assert!(cache.owned_by("two").is_empty());
}

#[test]
fn a_typed_index_covers_what_was_there_before_it() {
    let cache = new_cache(&Scope::default());
    see(&cache, map("x", 1, ""), ShownBy::Watch);
    let by_length = cache.index(|map: &ConfigMap| map.metadata.name.as_ref().map(String::len));
    see(&cache, map("long", 2, ""), ShownBy::Watch);
    assert_eq!(at(by_length.get(&1).pop()), Some(1));
    assert_eq!(by_length.keys(&4), [key::<ConfigMap>("a", "long")]);
}

#[test]
fn a_quarantined_object_is_out_of_sight_and_comes_back() {
    let cache = new_cache(&Scope::default());
    let told = told(&cache);
    see(&cache, map("x", 1, "o"), ShownBy::Watch);
    cache.erased().quarantine(&key::<ConfigMap>("a", "x"), "data: expected a map".into(), ShownBy::List);
    assert!(cache.is_empty() && cache.owned_by("o").is_empty());
    assert_eq!(cache.quarantined().len(), 1);
    assert_eq!(told.lock().unwrap().len(), 1, "it is not gone, so nobody is told so");
    see(&cache, map("x", 3, "o"), ShownBy::Watch);
    assert!(cache.quarantined().is_empty());
    assert_eq!(told.lock().unwrap().last().unwrap(), "Added x 0->3");
}

#[test]
fn a_relist_forgets_quarantined_objects_that_are_gone() {
    let cache: Cache<ConfigMap> = new_cache(&Scope::default());
    cache.erased().begin_list();
    cache.erased().quarantine(&key::<ConfigMap>("a", "x"), "bad".into(), ShownBy::List);
    cache.erased().end_list(Revision::new(1));
    assert_eq!(cache.quarantined().len(), 1);
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    cache.erased().subscribe_quarantined(move |key, by| heard.lock().unwrap().push((key.clone(), by)));
    listed(&cache, vec![], 2);
    assert!(cache.quarantined().is_empty());
    assert_eq!(*told.lock().unwrap(), [(key::<ConfigMap>("a", "x"), ShownBy::Watch)], "its queue forgets it");
}
