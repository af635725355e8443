//! An ordinary program with the kube crate: a derived CRD, a watch, a status patch, an apply, a deletion. The Rust
//! counterpart of the Python clients in `scripts/`.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::server::{PATIENCE, Server, eventually};

/// The custom kind of the program.
#[derive(CustomResource, Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[kube(group = "check.homeostat.dev", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
struct GadgetSpec {
    size: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct GadgetStatus {
    ready: bool,
}

#[tokio::test]
async fn a_program_with_the_kube_crate_works() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let client = server.client().await;
    define(&client).await;
    let gadgets: Api<Gadget> = Api::namespaced(client, "default");
    let start = gadgets.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();

    let created = gadgets.create(&PostParams::default(), &gadget("a", 1)).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let status = Patch::Merge(json!({"status": {"ready": true}, "spec": {"size": 9}}));
    let reported = gadgets.patch_status("a", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(reported.status, Some(GadgetStatus { ready: true }));
    assert_eq!((reported.spec.size, reported.metadata.generation), (1, Some(1)), "status only");
    let parameters = PatchParams::apply("program").force();
    let applied = gadgets.patch("a", &parameters, &Patch::Apply(gadget("a", 2))).await.unwrap();
    assert_eq!((applied.spec.size, applied.metadata.generation), (2, Some(2)));
    assert_eq!(applied.status, Some(GadgetStatus { ready: true }), "an apply of spec leaves status alone");
    gadgets.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(gadgets.get_opt("a").await.unwrap().is_none());

    let told = watch(&gadgets, &start, 4).await;
    assert_eq!(told, ["added 1", "modified 1", "modified 2", "deleted 2"]);
}

/// Creates the CRD and waits until its objects are served.
async fn define(client: &kube::Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Gadget::crd()).await.unwrap();
    eventually("the CRD is established", || async {
        let definition = definitions.get(Gadget::crd_name()).await.unwrap();
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Established" && c.status == "True").then_some(())
    })
    .await;
}

/// Returns the next `count` events after `start`, in words.
async fn watch(gadgets: &Api<Gadget>, start: &str, count: usize) -> Vec<String> {
    let events = gadgets.watch(&WatchParams::default(), start).await.unwrap();
    let told = events.take(count).map_ok(|event| match event {
        WatchEvent::Added(gadget) => format!("added {}", gadget.spec.size),
        WatchEvent::Modified(gadget) => format!("modified {}", gadget.spec.size),
        WatchEvent::Deleted(gadget) => format!("deleted {}", gadget.spec.size),
        other => format!("unexpected {other:?}"),
    });
    tokio::time::timeout(PATIENCE, told.try_collect()).await.expect("the events come").unwrap()
}

fn gadget(name: &str, size: i64) -> Gadget {
    let gadget = Gadget::new(name, GadgetSpec { size });
    assert_eq!(gadget.name_any(), name);
    gadget
}
