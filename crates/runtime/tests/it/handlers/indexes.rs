//! Tests in-memory indexes, which map objects to keys and values, and handlers look them up.

use std::sync::Arc;

use homeostat_runtime::handlers::HandlerContext;
use homeostat_runtime::{Handlers, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::{Gadget, gadget, lab, run};
use crate::test_cluster::config;

/// The type of the key identifies the index.
#[derive(Hash, PartialEq, Eq)]
struct Colour(String);

#[tokio::test(start_paused = true)]
async fn values_by_key() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let said = log.clone();
    let handlers = Handlers::<Gadget>::new()
        .index::<ConfigMap, Colour, String, _>(|map| {
            let data = map.data.clone().unwrap_or_default();
            let name = map.metadata.name.clone().unwrap_or_default();
            data.into_keys().map(move |colour| (Colour(colour), name.clone())).collect::<Vec<_>>()
        })
        .on_create("create", move |_: Arc<Gadget>, cx: HandlerContext<Gadget>| {
            let said = said.clone();
            async move {
                let red: Vec<String> = cx.lookup::<ConfigMap, Colour, String>(&Colour("red".into()))?;
                said.say(red.join(" "));
                assert!(cx.lookup::<ConfigMap, Colour, u8>(&Colour("red".into())).is_err(), "never declared");
                Result::<()>::Ok(())
            }
        });
    run(&mut lab, handlers).await;
    for (name, colours) in [("a", vec!["red"]), ("b", vec!["blue"]), ("c", vec!["blue", "red"])] {
        let mut map = config(name, &[]);
        map.data = Some(colours.into_iter().map(|colour| (colour.to_owned(), String::new())).collect());
        lab.create(&map).await;
    }
    gadget(&lab, "g", 1).await;
    assert_eq!(log.take(), ["a c"]);
    lab.delete::<ConfigMap>("a").await;
    lab.patch::<ConfigMap>("c", json!({"data": {"red": null}})).await;
    gadget(&lab, "h", 1).await;
    assert_eq!(log.take(), [""], "one is gone and the other has changed");
    lab.patch::<ConfigMap>("b", json!({"data": {"red": ""}})).await;
    gadget(&lab, "i", 1).await;
    assert_eq!(log.take(), ["b"]);
}
