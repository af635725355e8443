//! Operators of other processes on the console of `homeostat up`: what they are doing and their part of an object's
//! story, for viewers who may know it; and an operator that does not answer.

use serde_json::{Value, json};

use super::wire::{WireAnswer, ask};
use super::{ConsoleServer, browser_script};
use crate::pods::{passable_folder, told};
use crate::server::PATIENCE;
use crate::why::in_pods::start_pod;
use crate::why::operators::{create, object, start};

/// A Lease that announces an operator that has ended: nobody listens there.
const ENDED: &str = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "ended-admin",
    "annotations": {"homeostat.dev/admin-address": "http://127.0.0.1:1"}}}"#;

/// The object that the operator cannot reconcile.
const CHILD: &str = "/api/object?kind=why.homeostat.dev%2Ftasks&namespace=default&name=child";

/// Reads frames with this name until `wanted` finds something in one.
async fn find<T>(stream: &mut WireAnswer, event: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
    let reading = async {
        loop {
            let text = stream.read_until(event).await;
            let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
            if let Some(found) = wanted(&serde_json::from_str(data).unwrap()) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no such {event}"))
}

/// Returns what is shown of an operator.
fn operator<'a>(others: &'a Value, name: &str) -> Option<&'a Value> {
    others["operators"].as_array()?.iter().find(|one| one["operator"] == name)
}

/// Creates an account that may read these resources of the namespace `default`; returns its token.
async fn viewer(console: &ConsoleServer, name: &str, resources: &str) -> String {
    let server = &console.server;
    told(server, &["create", "serviceaccount", name]).await;
    let resources = format!("--resource={resources}");
    told(server, &["create", "role", name, "--verb=get,list,watch", &resources]).await;
    let account = format!("--serviceaccount=default:{name}");
    told(server, &["create", "rolebinding", name, &format!("--role={name}"), &account]).await;
    format!("Bearer {}", told(server, &["create", "token", name]).await.trim())
}

#[tokio::test]
async fn operators_of_other_processes_are_shown_to_those_who_may_know_them() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &["--no-workloads"]).await;
    let _faulty = start(&console.server, folder.path()).await;
    create(&console.server, folder.path(), ENDED).await;
    create(&console.server, folder.path(), &object("Task", "child", "")).await;
    create(&console.server, folder.path(), &object("Cloudlet", "broken", "")).await;

    let own = format!("Bearer {}", console.address_and_token().1);
    let mut now = ask(&console, "/api/now", &[("Authorization", &own)]).await;
    let others = find(&mut now, "others", |others| {
        let activity = &operator(others, "faulty.homeostat.dev")?["activity"];
        let failures = activity["failures"].as_array()?;
        let is_named = failures.iter().any(|one| one.to_string().contains("not a key!"));
        let is_counted = activity["controllers"].to_string().contains(r#""name":"task""#);
        let has_world = activity["worlds"].as_object().is_some_and(|worlds| !worlds.is_empty());
        (is_named && is_counted && has_world && !activity["watches"].to_string().is_empty())
            .then(|| others.clone())
    })
    .await;
    let ended = operator(&others, "ended").expect("it is announced");
    assert!(ended["error"].as_str().unwrap().contains("nobody is known to listen"), "{ended}");
    assert!(ended["advice"].as_str().unwrap().contains("delete the Lease default/ended-admin"), "{ended}");

    let mut story = ask(&console, CHILD, &[("Authorization", &own)]).await;
    find(&mut story, "records", |records| records.to_string().contains("not a key!").then_some(())).await;
    let mut story = ask(&console, CHILD, &[("Authorization", &own)]).await;
    find(&mut story, "silent", |silent| silent.to_string().contains("ended").then_some(())).await;

    let reader = viewer(&console, "reader", "leases.coordination.k8s.io,tasks.why.homeostat.dev").await;
    let mut now = ask(&console, "/api/now", &[("Authorization", &reader)]).await;
    let shown = find(&mut now, "others", |others| {
        let activity = operator(others, "faulty.homeostat.dev")?["activity"].clone();
        (activity["failures"].as_array()?.len() == 1).then_some(activity)
    })
    .await;
    assert!(shown.to_string().contains("not a key!") && shown.get("controllers").is_none(), "{shown}");

    let stranger = viewer(&console, "stranger", "leases.coordination.k8s.io").await;
    let mut now = ask(&console, "/api/now", &[("Authorization", &stranger)]).await;
    let shown =
        find(&mut now, "others", |others| Some(operator(others, "faulty.homeostat.dev")?.clone())).await;
    assert_eq!(shown["activity"], json!({"failures": [], "hot": []}), "{shown}");
    assert_eq!(ask(&console, CHILD, &[("Authorization", &stranger)]).await.code(), "403");
    console.server.stop().await;
}

#[tokio::test]
async fn operators_in_pods_are_asked_through_the_server() {
    let folder = passable_folder();
    let console = ConsoleServer::start(folder.path(), &["--node"]).await;
    start_pod(&console.server, folder.path()).await;
    create(&console.server, folder.path(), &object("Task", "child", "")).await;
    let own = format!("Bearer {}", console.address_and_token().1);
    let mut now = ask(&console, "/api/now", &[("Authorization", &own)]).await;
    find(&mut now, "others", |others| {
        let activity = &operator(others, "faulty.homeostat.dev")?["activity"];
        let is_named = activity["failures"].to_string().contains("not a key!");
        (is_named && activity["controllers"].to_string().contains("task")).then_some(())
    })
    .await;
    let mut story = ask(&console, CHILD, &[("Authorization", &own)]).await;
    find(&mut story, "records", |records| records.to_string().contains("not a key!").then_some(())).await;

    let outsider = viewer(&console, "outsider", "leases.coordination.k8s.io,tasks.why.homeostat.dev").await;
    let mut now = ask(&console, "/api/now", &[("Authorization", &outsider)]).await;
    let shown =
        find(&mut now, "others", |others| Some(operator(others, "faulty.homeostat.dev")?.clone())).await;
    assert!(shown["advice"].as_str().unwrap().contains("the right to get pods/proxy"), "{shown}");
    assert!(shown.get("activity").is_none(), "{shown}");
    console.server.stop().await;
}

#[tokio::test]
async fn the_page_lists_operators_of_other_processes() {
    let Some(mut script) = browser_script("operators.mjs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let _faulty = start(&console.server, folder.path()).await;
    create(&console.server, folder.path(), ENDED).await;
    told(&console.server, &["create", "deployment", "web", "--image=none"]).await;
    for name in ["child", "loop"] {
        create(&console.server, folder.path(), &object("Task", name, "")).await;
    }
    let hash = "#/object/why.homeostat.dev%2Ftasks/default/child";
    let output = script.args([&console.url, hash]).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for list in ["violations", "complaints", "narrow"] {
        assert_eq!(found[list], json!([]), "{list}");
    }
    let shows = |list: &str, words: &[&str]| {
        let lines = found[list].as_array().unwrap();
        lines.iter().any(|line| words.iter().all(|word| line.as_str().unwrap().contains(word)))
    };
    assert!(shows("controllers", &["task", "faulty.homeostat.dev"]), "{found:#}");
    assert!(shows("controllers", &["deployment-controller", "this process"]), "{found:#}");
    assert!(shows("silent", &["ended", "did not answer", "delete the Lease"]), "{found:#}");
    assert!(shows("problems", &["task of faulty.homeostat.dev: failed", "not a key!"]), "{found:#}");
    assert!(shows("problems", &["hot loop", "task of faulty.homeostat.dev"]), "{found:#}");
    assert!(shows("steps", &["task", "failed", "not a key!"]), "{found:#}");
    console.server.stop().await;
}
