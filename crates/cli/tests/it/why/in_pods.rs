//! An operator that runs as a Pod is asked through the API server: by a user who may read the object, by one who may
//! not, and by one who may not use the proxy.

use std::path::{Path, PathBuf};

use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;

use super::faulty_operator::AS_POD;
use super::operators::{RIGHTS, create, object};
use super::{names, why};
use crate::pods::{kubectl, passable_folder, told};
use crate::server::{Server, eventually};

/// The users: the first and the last may read Tasks, the first two may use the proxy.
const TOKENS: &str = "reader-token,reader,1\nstranger-token,stranger,2\noutsider-token,outsider,3\n";

/// Writes a kubeconfig for the holder of a token.
fn kubeconfig_of(server: &Server, folder: &Path, token: &str) -> PathBuf {
    let mut config = kube::config::Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    (user.client_certificate_data, user.client_key_data) = (None, None);
    let mut config = serde_json::to_value(&config).unwrap();
    // The type of the token hides it when it is serialized.
    config["users"][0]["user"]["token"] = token.into();
    let path = folder.join(token);
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Starts the operator as a Pod, with an account of its own.
pub(crate) async fn start_pod(server: &Server, folder: &Path) {
    create(server, folder, RIGHTS).await;
    told(server, &["create", "serviceaccount", "faulty"]).await;
    let account = "--serviceaccount=default:faulty";
    told(server, &["create", "clusterrolebinding", "faulty", "--clusterrole=faulty", account]).await;
    let program = std::env::current_exe().expect("a test is a program");
    let variable =
        |name: &str, field: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "faulty"}, "spec": {
        "serviceAccountName": "faulty",
        "containers": [{
            "name": "operator", "image": "none",
            "command": [program, "--exact", "why::faulty_operator::run_as_pod", "--nocapture"],
            "env": [variable("POD_NAME", "metadata.name"), variable("POD_NAMESPACE", "metadata.namespace"),
                    {"name": AS_POD, "value": "1"}],
        }],
    }});
    create(server, folder, &pod.to_string()).await;
    eventually("its kinds are served", || async { kubectl(server, &["get", "tasks,cloudlets"]).await.ok() })
        .await;
}

/// Grants each user the right to read Tasks, the announcements of operators (Leases), or to use the proxy.
async fn grant(server: &Server) {
    let tasks = "--resource=tasks.why.homeostat.dev";
    told(server, &["create", "role", "tasks", "--verb=get,list", tasks]).await;
    let readers = ["--user=reader", "--user=outsider"];
    told(server, &[&["create", "rolebinding", "tasks", "--role=tasks"][..], &readers].concat()).await;
    told(server, &["create", "role", "leases", "--verb=get,list", "--resource=leases"]).await;
    let all = ["--user=reader", "--user=stranger", "--user=outsider"];
    told(server, &[&["create", "rolebinding", "leases", "--role=leases"][..], &all].concat()).await;
    told(server, &["create", "role", "proxy", "--verb=get", "--resource=pods/proxy"]).await;
    told(server, &[&["create", "rolebinding", "proxy", "--role=proxy"][..], &all[..2]].concat()).await;
}

/// Asks for the journal of a Task as the program does, and returns code and text.
async fn journal(server: &Server, token: &str, port: &str, name: &str) -> (u16, String) {
    let client = crate::streams::client_of(server, token).await;
    let send = |request: http::request::Builder| {
        let client = client.clone();
        async move {
            let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (code, String::from_utf8(body.to_vec()).unwrap())
        }
    };
    let path = "/homeostat/audience-token?audience=homeostat-why/default/faulty";
    let (code, text) = send(http::Request::post(path)).await;
    assert_eq!(code, 200, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let shown = answer["token"].as_str().unwrap().to_owned();
    // The API server itself does not accept the token.
    let bearer = crate::streams::client_of(server, &shown).await;
    let refused = bearer.send(http::Request::get("/api/v1/pods").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(refused.status().as_u16(), 401);
    let path = format!(
        "/api/v1/namespaces/default/pods/faulty:{port}/proxy/journal?group=why.homeostat.dev&resource=tasks&namespace=default&name={name}"
    );
    send(http::Request::get(path).header("homeostat-caller-token", shown)).await
}

#[tokio::test]
async fn operators_in_pods_are_asked_through_the_server_and_tell_only_those_who_may_read() {
    let folder = passable_folder();
    std::fs::write(folder.path().join("tokens"), TOKENS).unwrap();
    let arguments = ["--ephemeral", "--node", "--token-auth-file", "tokens"];
    let server = Server::start(folder.path(), &arguments).await;
    start_pod(&server, folder.path()).await;
    grant(&server).await;
    create(&server, folder.path(), &object("Task", "child", "")).await;
    let pod = eventually("it is announced", || async {
        let path = r"jsonpath={.items[0].metadata.annotations.homeostat\.dev/admin-pod}";
        kubectl(&server, &["get", "leases", "-o", path]).await.ok().filter(|text| text.starts_with("faulty:"))
    })
    .await;
    let port = pod.trim().trim_start_matches("faulty:");

    // A user with a certificate and no token, and one with a token.
    names(&server.kubeconfig, &["task", "child"], &["Task child fails", "not a key!", "attempt"]).await;
    let reader = kubeconfig_of(&server, folder.path(), "reader-token");
    let text = names(&reader, &["task", "child"], &["Task child fails", "not a key!", "attempt"]).await;
    assert!(!text.contains("was not asked"), "{text}");

    let stranger = kubeconfig_of(&server, folder.path(), "stranger-token");
    let text = why(&stranger, &["task", "child"]).await;
    assert!(!text.contains("not a key!"), "{text}");
    let (code, there) = journal(&server, "stranger-token", port, "child").await;
    assert_eq!(code, 404, "{there}");
    let missing = journal(&server, "stranger-token", port, "missing").await;
    assert_eq!((code, there), missing, "the answer does not reveal whether it exists");
    let (code, told_reader) = journal(&server, "reader-token", port, "child").await;
    assert!(code == 200 && told_reader.contains("not a key!"), "{code} {told_reader}");
    assert!(!told_reader.contains("\"wrote\""), "the reader may not get ConfigMaps: {told_reader}");

    let outsider = kubeconfig_of(&server, folder.path(), "outsider-token");
    let text = why(&outsider, &["task", "child"]).await;
    assert!(text.contains("was not asked") && text.contains("pods/proxy"), "{text}");
    assert!(!text.contains("not a key!"), "{text}");
    server.stop().await;
}
