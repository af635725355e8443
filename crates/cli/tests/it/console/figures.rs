//! Measures the page with 10 000 objects and a thousand changes per second, in a real browser.
//!
//! Times on a busy machine are meaningless, so by default only counts are checked: the page shows all objects, and its
//! memory does not grow with the number of changes. `HOMEOSTAT_CONSOLE_FIGURES=1` also checks times and prints
//! everything.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::Instant;

use super::{ConsoleServer, browser_script};

/// Objects without an owner, and objects that one of them owns: a tree.
const FLAT: usize = 8_000;
const OWNED: usize = 2_000;

/// Concurrent requests.
const CONCURRENT: usize = 32;

async fn create_objects(maps: &Api<ConfigMap>) {
    let post = PostParams::default();
    let map = |value: Value| serde_json::from_value::<ConfigMap>(value).unwrap();
    let root = maps.create(&post, &map(json!({"metadata": {"name": "root"}}))).await.unwrap();
    let references =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": root.metadata.uid}]);
    let flat = (0..FLAT)
        .map(|number| json!({"metadata": {"name": format!("flat-{number}")}, "data": {"text": "some text"}}));
    let owned = (0..OWNED).map(
        |number| json!({"metadata": {"name": format!("owned-{number}"), "ownerReferences": references}}),
    );
    let creations = flat.chain(owned).map(|value| {
        let (maps, post, object) = (maps.clone(), post.clone(), map(value));
        async move { drop(maps.create(&post, &object).await.unwrap()) }
    });
    futures::stream::iter(creations).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
    // A failing object: the first page starts with it.
    let spec = json!({"holderIdentity": "operator-1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"});
    let lapsed = serde_json::from_value(json!({"metadata": {"name": "lapsed"}, "spec": spec})).unwrap();
    Api::<Lease>::namespaced(maps.clone().into_client(), "default").create(&post, &lapsed).await.unwrap();
}

/// Changes objects in turn, at most this many per second; returns the revision of the last change.
async fn make_changes(maps: &Api<ConfigMap>, first: usize, count: usize, per_second: u32) -> u64 {
    let pause = Duration::from_secs(1) / per_second;
    let start = Instant::now();
    let paced = futures::stream::iter(first..first + count).then(|number| async move {
        tokio::time::sleep_until(start + pause * u32::try_from(number - first).unwrap()).await;
        number
    });
    let changes = paced.map(|number| {
        let maps = maps.clone();
        async move {
            let patch = Patch::Merge(json!({"data": {"count": number.to_string()}}));
            let name = format!("flat-{}", number % FLAT);
            let changed = maps.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            changed.metadata.resource_version.unwrap().parse::<u64>().unwrap()
        }
    });
    changes.buffer_unordered(CONCURRENT).fold(0, async |last, revision| last.max(revision)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_stays_quick_and_small() {
    let Some(mut script) = browser_script("measure.mjs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &["--no-workloads"]).await;
    let maps = Api::<ConfigMap>::namespaced(console.server.client().await, "default");
    create_objects(&maps).await;
    let mut script = script.args([&console.url, "#/object/configmaps/default/root"]).spawn().unwrap();
    let mut input = script.stdin.take().unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
    let mut made = 0;
    let figures: Value = loop {
        let line = lines.next_line().await.unwrap().expect("the script ends with its figures");
        let Some(asked) = line.strip_prefix("changes ") else { break serde_json::from_str(&line).unwrap() };
        let (count, per_second) = asked.split_once(' ').unwrap();
        let count: usize = count.parse().unwrap();
        let last = make_changes(&maps, made, count, per_second.parse().unwrap()).await;
        made += count;
        input.write_all(format!("{last}\n").as_bytes()).await.unwrap();
    };
    judge(&figures);
}

fn judge(figures: &Value) {
    let number =
        |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name} is missing in {figures}"));
    assert!(number("objects") >= 10_000.0 && number("treeLines") >= 2_001.0, "{figures}");
    assert_eq!(figures["complaints"], json!([]), "{figures}");
    let growth = number("heapAfter60000") / number("heapAfter6000");
    assert!(growth <= 1.1, "the heap grew to {growth:.2} of what it was: {figures}");
    if std::env::var_os("HOMEOSTAT_CONSOLE_FIGURES").is_some() {
        eprintln!("{figures:#}");
        assert!(number("beforeFirstPaintMs") <= 200.0, "{figures}");
        assert!(number("scrollLongestTaskMs") <= 50.0, "{figures}");
        assert!(number("nowLongestTaskMs") <= 200.0 && number("objectsLongestTaskMs") <= 200.0, "{figures}");
    }
}
