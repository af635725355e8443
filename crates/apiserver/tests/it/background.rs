//! Tests the work after a request: dependents follow owners, namespaces and definitions are deleted with their
//! contents.

use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{MERGE, TestServer};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn make(plane: &TestServer, name: &str, owner: Option<&Value>) -> Value {
    let owners = owner.map(|owner| {
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}])
    });
    plane.post(MAPS, json!({"metadata": {"name": name, "ownerReferences": owners}})).await.expect(201)
}

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[tokio::test]
async fn dependents_are_deleted_with_their_owner() {
    let plane = TestServer::start().await;
    let owner = make(&plane, "owner", None).await;
    let child = make(&plane, "child", Some(&owner)).await;
    make(&plane, "grandchild", Some(&child)).await;
    plane.delete(&at("owner")).await.expect(200);
    plane.until_gone(&at("child")).await;
    plane.until_gone(&at("grandchild")).await;
}

#[tokio::test]
async fn the_server_recreates_its_own_service() {
    let plane = TestServer::start().await;
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let before = plane.get(path).await.expect(200);
    plane.delete(path).await.expect(200);
    let is_new = |answer: &crate::test_server::Answer| {
        answer.code == 200 && answer.body["metadata"]["uid"] != before["metadata"]["uid"]
    };
    let after = plane.until(path, is_new).await.body;
    assert_eq!(after["spec"], before["spec"]);
}

#[tokio::test]
async fn foreground_deletion_waits_for_dependents() {
    let plane = TestServer::start().await;
    let owner = make(&plane, "owner", None).await;
    make(&plane, "child", Some(&owner)).await;
    plane.patch(&at("child"), MERGE, json!({"metadata": {"finalizers": ["demo.dev/x"]}})).await.expect(200);
    let foreground = json!({"propagationPolicy": "Foreground"});
    let dying = plane.ask("DELETE", &at("owner"), foreground).await.expect(200);
    assert_eq!(dying["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    plane.until(&at("child"), |answer| answer.body["metadata"]["deletionTimestamp"].is_string()).await;
    plane.get(&at("owner")).await.expect(200);
    plane.patch(&at("child"), MERGE, json!({"metadata": {"finalizers": null}})).await.expect(200);
    plane.until_gone(&at("owner")).await;
}

#[tokio::test]
async fn foreground_deletion_ends_a_ring_of_owners() {
    for length in [2, 3] {
        let plane = TestServer::start().await;
        let mut above = make(&plane, "m0", None).await;
        let first = above.clone();
        for at in 1..length {
            above = make(&plane, &format!("m{at}"), Some(&above)).await;
        }
        let last = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": above["metadata"]["name"],
            "uid": above["metadata"]["uid"], "blockOwnerDeletion": true}]);
        let ring = json!({"metadata": {"ownerReferences": last, "uid": first["metadata"]["uid"]}});
        plane.patch(&at("m0"), MERGE, ring).await.expect(200);
        plane.ask("DELETE", &at("m0"), json!({"propagationPolicy": "Foreground"})).await.expect(200);
        for at_ in 0..length {
            plane.until_gone(&at(&format!("m{at_}"))).await;
        }
    }
}

#[tokio::test]
async fn orphans_stay_without_their_owner_reference() {
    let plane = TestServer::start().await;
    let owner = make(&plane, "owner", None).await;
    make(&plane, "child", Some(&owner)).await;
    plane.ask("DELETE", &at("owner"), json!({"propagationPolicy": "Orphan"})).await.expect(200);
    plane.until_gone(&at("owner")).await;
    let child = plane.get(&at("child")).await.expect(200);
    assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
}

#[tokio::test]
async fn an_object_without_an_existing_owner_is_deleted() {
    let plane = TestServer::start().await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}});
    let living = make(&plane, "living", None).await;
    make(&plane, "haunted", Some(&ghost)).await;
    let child = make(&plane, "child", Some(&living)).await;
    plane.until_gone(&at("haunted")).await;
    assert_eq!(plane.get(&at("child")).await.expect(200), child);
}

#[tokio::test]
async fn a_namespace_gets_default_objects_and_is_deleted_with_them() {
    let plane = TestServer::start().await;
    plane.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    let inside = "/api/v1/namespaces/n";
    plane.until(&format!("{inside}/serviceaccounts/default"), |answer| answer.code == 200).await;
    plane.until(&format!("{inside}/configmaps/kube-root-ca.crt"), |answer| answer.code == 200).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["demo.dev/x"]}});
    plane.post(&format!("{inside}/configmaps"), held).await.expect(201);
    let dying = plane.delete(inside).await.expect(200);
    assert_eq!(dying["status"]["phase"], "Terminating");
    let late = plane.post(&format!("{inside}/configmaps"), json!({"metadata": {"name": "late"}})).await;
    assert_eq!(late.expect(403)["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let reports_finalizers =
        |answer: &crate::test_server::Answer| answer.body.to_string().contains("SomeFinalizersRemain");
    plane.until(inside, reports_finalizers).await;
    let free = json!({"metadata": {"finalizers": null}});
    plane.patch(&format!("{inside}/configmaps/held"), MERGE, free).await.expect(200);
    plane.until_gone(inside).await;
    plane.get(&format!("{inside}/configmaps/held")).await.expect(404);
}

/// Pods trust its content: a user who edits it could otherwise decide which server they talk to.
#[tokio::test]
async fn an_edited_certificate_authority_is_restored() {
    let plane = TestServer::start().await;
    let map = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let original = plane.until(map, |answer| answer.code == 200).await.body;
    let edited = json!({"metadata": {"name": "kube-root-ca.crt", "labels": {"kept": "yes"}},
        "data": {"ca.crt": "forged", "more": "x"}});
    plane.put(map, edited).await.expect(200);
    let restored = plane.until(map, |answer| answer.body["data"] == original["data"]).await.body;
    assert_eq!(restored["metadata"]["annotations"], original["metadata"]["annotations"]);
    assert_eq!(restored["metadata"]["labels"], json!({"kept": "yes"}));
}

#[tokio::test]
async fn storage_is_deleted_when_nobody_uses_it() {
    let plane = TestServer::start().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    for name in ["used", "unused"] {
        plane.post(claims, claim(name)).await.expect(201);
    }
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]}});
    plane.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    plane.delete(&format!("{claims}/used")).await.expect(200);
    plane.delete(&format!("{claims}/unused")).await.expect(200);
    plane.until_gone(&format!("{claims}/unused")).await;
    plane.get(&format!("{claims}/used")).await.expect(200);
    let at_once = json!({"gracePeriodSeconds": 0});
    plane.ask("DELETE", "/api/v1/namespaces/default/pods/p", at_once).await.expect(200);
    plane.until_gone(&format!("{claims}/used")).await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    plane.post("/api/v1/persistentvolumes", volume).await.expect(201);
    plane.delete("/api/v1/persistentvolumes/v").await.expect(200);
    plane.until_gone("/api/v1/persistentvolumes/v").await;
}

#[tokio::test]
async fn an_owner_of_an_unserved_version_decides_nothing() {
    let plane = TestServer::start().await;
    let reference =
        |version: &str| json!([{"apiVersion": version, "kind": "ConfigMap", "name": "none", "uid": "gone"}]);
    let child = |name: &str, version: &str| json!({"metadata": {"name": name, "ownerReferences": reference(version)}});
    plane.post(MAPS, child("kept", "v9")).await.expect(201);
    plane.post(MAPS, child("collected", "v1")).await.expect(201);
    plane.until_gone(&at("collected")).await;
    plane.get(&at("kept")).await.expect(200);
}

/// A thousand references with different uids to one large object cause it to be read once.
#[tokio::test]
async fn an_owner_is_read_once_however_often_it_is_named() {
    let plane = TestServer::start().await;
    let data = json!({"a": "x\n".repeat(200_000)});
    plane.post(MAPS, json!({"metadata": {"name": "large"}, "data": data})).await.expect(201);
    let reference =
        |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "large", "uid": at.to_string()});
    let owners: Vec<_> = (0..5_000).map(reference).collect();
    plane.post(MAPS, json!({"metadata": {"name": "child", "ownerReferences": owners}})).await.expect(201);
    // The time limit of the tests is a fraction of what reading it 5 000 times would take.
    plane.until_gone(&at("child")).await;
    plane.get(&at("large")).await.expect(200);
}

/// Owners that are replaced by the ten thousand are compared as sets.
#[tokio::test]
async fn ten_thousand_owners_are_replaced_quickly() {
    let plane = TestServer::start().await;
    let owners = |kind: &str| -> Vec<_> {
        // Nothing is decided about owners of a kind that is not served.
        let owner = |at: usize| json!({"apiVersion": "t.io/v1", "kind": "T", "name": "t", "uid": format!("{kind}{at}")});
        (0..11_000).map(owner).collect()
    };
    plane
        .post(MAPS, json!({"metadata": {"name": "child", "ownerReferences": owners("a")}}))
        .await
        .expect(201);
    let started = ProcessorTime::start();
    let new = json!({"metadata": {"name": "child", "ownerReferences": owners("b")}});
    plane.put(&at("child"), new).await.expect(200);
    assert!(started.elapsed().as_secs() < 4, "it took {:?}", started.elapsed());
}
