//! Tests the notices: owners and dependents, and the order in which notices wait.
//!
//! They observe entries as commits do, without a store.

use homeostat_core::Revision;

use super::*;

fn entry(key: &Key, json: &str) -> Arc<Entry> {
    Arc::new(Entry::new(key.clone(), Revision::new(1), &homeostat_store::Value::plain(json.to_owned())))
}

#[test]
fn dependents_follow_owner_references() {
    let notices = BackgroundQueue::default();
    let key = Key::new("", "pods", "d", "x");
    let owned = entry(&key, r#"{"metadata":{"ownerReferences":[{"uid":"u"}]}}"#);
    notices.observe(&key, None, Some(&owned), || Some(owned.clone()));
    assert_eq!(notices.dependents("u"), std::slice::from_ref(&key));
    notices.observe(&key, Some(&owned), None, || None);
    assert!(notices.dependents("u").is_empty());
}

/// A Pod is re-created as soon as its predecessor is gone, and the new one may be observed first.
#[test]
fn a_recreated_dependent_stays_known_in_either_order() {
    let notices = BackgroundQueue::default();
    let key = Key::new("", "pods", "d", "x");
    let owned = |uid: &str| {
        entry(&key, &format!(r#"{{"metadata":{{"uid":"{uid}","ownerReferences":[{{"uid":"u"}}]}}}}"#))
    };
    let (former, present) = (owned("former"), owned("present"));
    notices.observe(&key, None, Some(&former), || Some(former.clone()));
    notices.observe(&key, None, Some(&present), || Some(present.clone()));
    notices.observe(&key, Some(&former), None, || Some(present.clone()));
    assert_eq!(notices.dependents("u"), std::slice::from_ref(&key));
    // Both are gone, observed in the wrong order: nothing is left behind.
    notices.observe(&key, Some(&present), None, || None);
    notices.observe(&key, None, Some(&present), || None);
    assert!(notices.dependents("u").is_empty());
}

#[test]
fn notices_wait_in_order_each_once() {
    let mut waiting = NoticeQueue::default();
    let object = |name: &str| BackgroundNotice::Object(Key::new("", "pods", "d", name));
    for notice in [BackgroundNotice::Definition("d".into()), object("b"), object("a"), object("b")] {
        waiting.insert(notice);
    }
    let taken = std::iter::from_fn(|| waiting.take()).collect::<Vec<_>>();
    assert_eq!(taken, [BackgroundNotice::Definition("d".into()), object("b"), object("a")]);
    waiting.insert(object("b"));
    assert_eq!(waiting.take(), Some(object("b")));
}
