//! Tests filters by label, annotation, field and test; and the finalizer, which exists exactly while it is needed.

use homeostat_runtime::Handlers;
use homeostat_runtime::handlers::ValueFilter;
use kube::ResourceExt;
use serde_json::json;

use super::{Gadget, gadget, get, lab, run, says};

#[tokio::test(start_paused = true)]
async fn by_label_annotation_field_and_test() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new()
        .on_create("label", says(&log, "label"))
        .label("tier", ValueFilter::any_of(["gold", "silver"]))
        .on_create("annotation", says(&log, "annotation"))
        .annotation("note", ValueFilter::Present)
        .on_create("field", says(&log, "field"))
        .field(|gadget| gadget.spec.size, 2)
        .on_create("test", says(&log, "test"))
        .when(|gadget| gadget.spec.text.starts_with('x'))
        .label("tier", ValueFilter::Absent);
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert!(log.take().is_empty());
    assert_eq!(get(&lab, "g").await.unwrap().annotations().len(), 0, "what concerns nobody is left alone");
    for (patch, expected) in [
        (json!({"spec": {"text": "xyz"}}), "test"),
        (json!({"metadata": {"labels": {"tier": "gold"}}}), "label"),
        (json!({"metadata": {"annotations": {"note": ""}}}), "annotation"),
        (json!({"spec": {"size": 2}}), "field"),
    ] {
        lab.patch::<Gadget>("g", patch).await;
        assert_eq!(log.take(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_there_exactly_when_it_is_needed() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers = Handlers::<Gadget>::new()
        .on_create("create", says(&log, "create"))
        .on_delete("delete", says(&log, "delete"))
        .label("outside", "yes");
    run(&mut lab, handlers).await;
    gadget(&lab, "g", 1).await;
    assert!(get(&lab, "g").await.unwrap().finalizers().is_empty());
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"outside": "yes"}}})).await;
    assert_eq!(get(&lab, "g").await.unwrap().finalizers(), ["widgets.test.dev/gadget"]);
    lab.patch::<Gadget>("g", json!({"metadata": {"labels": {"outside": null}}})).await;
    assert!(get(&lab, "g").await.unwrap().finalizers().is_empty());
    lab.delete::<Gadget>("g").await;
    assert_eq!(log.take(), ["create"]);
    assert!(get(&lab, "g").await.is_none());
}
