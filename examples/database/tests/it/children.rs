//! Children: created, kept, changed with the spec, and corrected when others change them.

use std::time::Duration;

use homeostat::prelude::*;
use homeostat_example_database::Database;
use serde_json::json;

use crate::test_cluster::TestCluster;

#[tokio::test(start_paused = true)]
async fn a_database_gets_its_children_and_says_when_it_answers() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"databaseName": "orders", "port": 6001})).await;
    assert_eq!(lab.names::<Pod>().await, ["orders-0"]);
    assert_eq!((lab.status("orders").await.ready, &*lab.reason("orders").await), (false, "Starting"));
    assert_eq!(lab.arguments("orders").await, ["-c", "port=6001", "-c", "max_connections=20"]);
    assert_eq!(lab.secret("orders-credentials", "database").await, "orders");
    let service = lab.get::<Service>("orders").await.spec.unwrap();
    assert_eq!(service.ports.unwrap()[0].port, 6001);

    lab.serve("orders-0").await;
    let status = lab.status("orders").await;
    assert_eq!((status.ready, status.endpoint.as_deref()), (true, Some("127.0.0.1:6001")));
    assert_eq!(
        (&*lab.reason("orders").await, status.secret.as_deref()),
        ("Ready", Some("orders-credentials"))
    );
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let mut lab = TestCluster::start().await;
    lab.make("orders", json!({})).await;
    lab.serve("orders-0").await;
    let revisions = |lab: &TestCluster| {
        let (databases, sets, secrets) =
            (lab.api::<Database>(), lab.api::<StatefulSet>(), lab.api::<Secret>());
        async move {
            let database = databases.get("orders").await.unwrap().resource_version();
            let set = sets.get("orders").await.unwrap().resource_version();
            (database, set, secrets.get("orders-credentials").await.unwrap().resource_version())
        }
    };
    let before = revisions(&lab).await;
    lab.pass(Duration::from_secs(3600)).await;
    lab.restart().await;
    assert_eq!(revisions(&lab).await, before, "not by time, nor by another operator");
}

#[tokio::test(start_paused = true)]
async fn password_and_chosen_port_are_kept() {
    let mut lab = TestCluster::start().await;
    lab.make("orders", json!({})).await;
    let password = lab.secret("orders-credentials", "password").await;
    assert_eq!(password.len(), 30);
    let port = lab.status("orders").await.port.unwrap();
    lab.edit::<Database>("orders", json!({"spec": {"maxConnections": 30}})).await;
    lab.remove::<StatefulSet>("orders").await;
    lab.remove::<Service>("orders").await;
    lab.restart().await;
    assert_eq!(lab.secret("orders-credentials", "password").await, password);
    assert_eq!(lab.status("orders").await.port, Some(port));
    assert!(lab.arguments("orders").await.contains(&format!("port={port}")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_secret_is_made_anew_and_the_pod_takes_it_up() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({})).await;
    let (password, pod) = (lab.secret("orders-credentials", "password").await, uid(&lab, "orders-0").await);
    lab.remove::<Secret>("orders-credentials").await;
    lab.settle().await;
    assert_ne!(lab.secret("orders-credentials", "password").await, password);
    assert_ne!(uid(&lab, "orders-0").await, pod);
    lab.edit::<Secret>("orders-credentials", json!({"data": {"password": null}})).await;
    assert_eq!(lab.secret("orders-credentials", "password").await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_reaches_postgres() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"port": 6001})).await;
    lab.serve("orders-0").await;
    let pod = uid(&lab, "orders-0").await;
    let spec = json!({"port": 6002, "maxConnections": 50, "parameters": {"work_mem": "8MB"}});
    lab.edit::<Database>("orders", json!({ "spec": spec })).await;
    let expected = ["-c", "port=6002", "-c", "max_connections=50", "-c", "work_mem=8MB"];
    assert_eq!(lab.arguments("orders").await, expected);
    assert_ne!(uid(&lab, "orders-0").await, pod, "the Pod is replaced");
    assert!(!lab.status("orders").await.ready);
    lab.serve("orders-0").await;
    assert_eq!(lab.status("orders").await.endpoint.as_deref(), Some("127.0.0.1:6002"));
}

#[tokio::test(start_paused = true)]
async fn drift_is_repaired() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"port": 6001})).await;
    lab.edit::<StatefulSet>("orders", json!({"spec": {"replicas": 0}})).await;
    assert_eq!(lab.get::<StatefulSet>("orders").await.spec.unwrap().replicas, Some(1));
    let ports = json!([{"name": "postgres", "port": 9999, "targetPort": 9999}]);
    lab.edit::<Service>("orders", json!({"spec": {"ports": ports}})).await;
    let ports = lab.get::<Service>("orders").await.spec.unwrap().ports.unwrap();
    assert!(ports.iter().any(|port| port.port == 6001), "{ports:?}");
    lab.edit::<Service>("orders", json!({"spec": {"selector": {"x": "y"}}})).await;
    let selector = lab.get::<Service>("orders").await.spec.unwrap().selector.unwrap();
    let selector: Vec<(String, String)> = selector.into_iter().collect();
    assert_eq!(selector, [("database.example.com/name".to_owned(), "orders".to_owned())]);
    lab.remove::<StatefulSet>("orders").await;
    lab.remove::<Service>("orders").await;
    assert_eq!(lab.names::<Pod>().await, ["orders-0"]);
    assert_eq!(lab.list::<Service>().await.len(), 2, "and kubernetes");
}

async fn uid(lab: &TestCluster, pod: &str) -> Option<String> {
    lab.get::<Pod>(pod).await.metadata.uid
}
