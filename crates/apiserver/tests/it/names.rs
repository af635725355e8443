//! Tests names from clients: a name that no path can contain, or that is not printable, is refused for every kind.

use std::sync::Arc;

use homeostat_apiserver::data_migrations::CONTENTS;
use homeostat_store::disk::Config;
use homeostat_store::{Disk, Store as _};
use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Names that no object may have.
const BAD_NAMES: [&str; 8] = ["a/b", "/", "a%b", ".", "..", "a\0b", "a\nb", "a\u{7f}b"];

/// Returns every collection that accepts objects: path and kind, from discovery.
async fn collections(plane: &TestServer) -> Vec<(String, Value)> {
    let groups = plane.get("/apis").await.expect(200);
    let versions =
        groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
    let roots = versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
    let mut collections = Vec::new();
    for root in std::iter::once("/api/v1".to_owned()).chain(roots) {
        let resources = plane.get(&root).await.expect(200);
        for row in resources["resources"].as_array().unwrap() {
            let verbs = row["verbs"].as_array().unwrap();
            let plural = row["name"].as_str().unwrap();
            if verbs.contains(&json!("create")) && verbs.contains(&json!("list")) && !plural.contains('/') {
                let within = if row["namespaced"] == true { "/namespaces/default" } else { "" };
                let kind = json!({"apiVersion": resources["groupVersion"], "kind": row["kind"]});
                collections.push((format!("{root}{within}/{plural}"), kind));
            }
        }
    }
    collections
}

#[tokio::test]
async fn odd_names_are_refused_for_every_kind() {
    let plane = TestServer::start().await;
    let collections = collections(&plane).await;
    assert!(collections.len() > 55, "{}", collections.len());
    for (path, kind) in collections {
        for name in BAD_NAMES {
            let mut object = kind.clone();
            object["metadata"] = json!({"name": name});
            let refused = plane.post(&path, object).await;
            let message = refused.body["message"].as_str().unwrap_or_default().to_owned();
            let is_told = message.contains("metadata.name") || message.contains("may not");
            assert!(
                matches!(refused.code, 400 | 422) && is_told,
                "{path} {name:?}: {} {message}",
                refused.code
            );
        }
    }
}

/// A certificate request with a slash in its name was once stored, and the next start considered the folder damaged.
#[tokio::test]
async fn a_name_with_a_slash_does_not_damage_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { contents: CONTENTS, ..Config::default() };
    let store = Arc::new(Disk::open(folder.path(), &config).unwrap());
    let plane = TestServer::start_on(store.clone()).await;
    // A certificate request without a signer, created with openssl.
    let spec = json!({"signerName": "example.com/x", "usages": ["client auth"], "request": REQUEST});
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "a/b"}, "spec": spec});
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    assert_eq!(plane.post(path, request.clone()).await.code, 422);
    let mut good = request;
    good["metadata"]["name"] = "a:b".into();
    plane.post(path, good).await.expect(201);
    store.close().await;
    let plane = TestServer::start_on(Arc::new(Disk::open(folder.path(), &config).unwrap())).await;
    plane.get(&format!("{path}/a:b")).await.expect(200);
}

const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIRk1HNENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCTE1yR2k1cXhIMHJaejhuMlN5Y2kxYzF0MVhBRHIyOC8rSERkb245TmMrSjBsNml5Q3RzUU11M2Q4L2ROZzY2CllxV0NWci96NmhWc1AzZDhGaDFTL0tTZ0FEQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQm95TmxJK3BiWUN4ckQKTnhHR1N2RUFMalhhNmpIeHBBTlkxZUtaR2hPRFJRSWdSejlkRUFOeXFvVFZxY1BkVURsT0NCTU1obWpvOWxiRgpFR1U4Q3UyRy9yaz0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
