//! Runs the tests against a real kube-apiserver, which they all share: `HOMEOSTAT_TEST_KUBECONFIG` names its
//! administrator's kubeconfig.
//!
//! **Invariant:** there is only one test cluster at a time, even across processes (a lock on a file next to the
//! kubeconfig), and each starts with the contents of a new server: every collection is listed in that file before it is
//! written to, and emptied before the next test begins. Only definitions that the next test also needs remain, because
//! a kube-apiserver takes two seconds to serve a new custom kind.
//!
//! The server must be on loopback and have no Nodes, because objects are deleted; no cluster that people use is like
//! that.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use homeostat::testing::{PausedTime, report_skip};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

const VARIABLE: &str = "HOMEOSTAT_TEST_KUBECONFIG";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// The annotation that holds the source of a definition: the stored one also contains defaults.
const SOURCE: &str = "test.dev/made-from";

/// The namespaces that every server has.
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Objects with this name belong to the server, which creates them again.
const OWN: &str = "kubernetes";

/// The definition that the runtime itself needs, the same for every operator.
const LASTING: &str = "outsiderecords.homeostat.dev";

/// How often, and at what interval, to check for a removal or for a newly served kind; ten seconds in total.
const LOOKS_MAX: u32 = 500;
const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    /// A second test cluster in the same test would wait for the first forever.
    static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the test runs on a real kube-apiserver, where it must be skipped for this reason; reports the skip
/// on standard error, which is not captured.
pub(crate) fn must_skip(reason: &str) -> bool {
    let is_used = std::env::var_os(VARIABLE).is_some();
    if is_used {
        report_skip(&format!("not on a real kube-apiserver: {reason}"));
    }
    is_used
}

/// The reason why the effects of an owner's deletion cannot be observed there.
pub(crate) const NO_COLLECTOR: &str =
    "a kube-apiserver alone collects no garbage, its controller manager does";

/// The server, while one test cluster uses it.
pub(crate) struct Reference {
    pub(crate) client: Client,
    pub(crate) notes: Notes,
}

impl Drop for Reference {
    fn drop(&mut self) {
        // Tasks of the test that still hold the list are about to finish.
        self.notes.0.lock().unwrap().file.unlock().expect("it is locked");
        IS_TAKEN.set(false);
    }
}

impl Reference {
    /// Waits for the server and removes what the previous test cluster left behind, except these definitions.
    pub(crate) async fn take(definitions: &[Value]) -> Option<Self> {
        let kubeconfig = PathBuf::from(std::env::var_os(VARIABLE)?);
        assert!(
            !IS_TAKEN.replace(true),
            "{VARIABLE} names one server: a second one is `TestCluster::second`"
        );
        let notes = Notes::lock(kubeconfig.with_extension("lock"));
        let kubeconfig =
            Kubeconfig::read_from(kubeconfig).expect("HOMEOSTAT_TEST_KUBECONFIG names a kubeconfig");
        let _held = PausedTime::new();
        let reference = Self { client: connect(kubeconfig).await, notes };
        reference.refuse_a_cluster().await;
        reference.remove_leftovers(definitions).await;
        for definition in definitions {
            reference.define(definition).await;
        }
        Some(reference)
    }

    /// Returns a client that records the collections it writes to before it does so.
    pub(crate) fn noting_client(&self) -> Client {
        let (inner, notes) = (self.client.clone(), self.notes.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            notes.note(&request);
            let inner = inner.clone();
            async move { inner.send(request).await }
        });
        Client::new(service, "default")
    }

    async fn refuse_a_cluster(&self) {
        let nodes = self.items("/api/v1/nodes").await.expect("nodes are served");
        assert!(
            nodes.is_empty(),
            "{VARIABLE} names a cluster with nodes: these tests would delete what is in it"
        );
    }

    async fn remove_leftovers(&self, definitions: &[Value]) {
        let collections = self.notes.collections();
        for collection in &collections {
            if collection != DEFINITIONS && collection != NAMESPACES {
                self.empty(collection, |object| name(object) != OWN).await;
            }
        }
        let is_wanted = |stored: &Value| {
            let source = stored.pointer("/metadata/annotations").and_then(|all| all.get(SOURCE));
            definitions.iter().any(|definition| source == Some(&json!(definition.to_string())))
        };
        self.empty(DEFINITIONS, |definition| name(definition) != LASTING && !is_wanted(definition)).await;
        if collections.contains(NAMESPACES) {
            self.end_namespaces().await;
        }
        self.notes.forget();
    }

    /// Deletes objects and waits until they are gone, removing their finalizers.
    async fn empty(&self, collection: &str, is_to_go: impl Fn(&Value) -> bool) {
        for _ in 0..LOOKS_MAX {
            // If a resource is not served, or cannot be listed (as reviews cannot), there is nothing to remove.
            let mut objects = self.items(collection).await.unwrap_or_default();
            objects.retain(&is_to_go);
            if objects.is_empty() {
                return;
            }
            for object in &objects {
                self.delete(collection, object).await;
            }
            look_again_later().await;
        }
        panic!("{collection} cannot be emptied");
    }

    async fn delete(&self, collection: &str, object: &Value) {
        let path = format!("{collection}/{}", name(object));
        let is_held = object.pointer("/metadata/finalizers").is_some() && collection != DEFINITIONS;
        if is_held {
            let release = json!({"metadata": {"finalizers": null}});
            let _ = self.send(Method::PATCH, &path, &release).await;
        }
        if object.pointer("/metadata/deletionTimestamp").is_none() {
            let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
            let _ = self.send(Method::DELETE, &path, &options).await;
        }
    }

    /// Deletes namespaces as the missing namespace controller would: by marking them as empty.
    async fn end_namespaces(&self) {
        let all = self.items(NAMESPACES).await.expect("namespaces are served");
        for mut namespace in all {
            if FIRST_NAMESPACES.contains(&name(&namespace)) {
                continue;
            }
            self.delete(NAMESPACES, &namespace).await;
            namespace["spec"] = json!({"finalizers": []});
            namespace["metadata"]["resourceVersion"] = Value::Null;
            let path = format!("{NAMESPACES}/{}/finalize", name(&namespace));
            let _ = self.send(Method::PUT, &path, &namespace).await;
        }
    }

    /// Creates a definition unless it exists, and waits until its kind is served.
    async fn define(&self, definition: &Value) {
        let mut marked = definition.clone();
        marked["metadata"]["annotations"][SOURCE] = json!(definition.to_string());
        match self.send(Method::POST, DEFINITIONS, &marked).await {
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            made => made.expect("the definition is accepted"),
        };
        let text = |path| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = (text("/spec/group"), text("/spec/versions/0/name"));
        self.await_served(&format!("/apis/{group}/{version}/{}", text("/spec/names/plural"))).await;
    }

    /// Waits until a kind can be listed and watched, which become possible at different times.
    pub(crate) async fn await_served(&self, collection: &str) {
        let _held = PausedTime::new();
        for _ in 0..LOOKS_MAX {
            if self.items(collection).await.is_ok() && self.can_be_watched(collection).await {
                return;
            }
            look_again_later().await;
        }
        panic!("{collection} is not served");
    }

    /// A watch that the server ends after a second, without any JSON if nothing happens.
    async fn can_be_watched(&self, collection: &str) -> bool {
        let path = format!("{collection}?watch=true&timeoutSeconds=1");
        !matches!(self.send(Method::GET, &path, &Value::Null).await, Err(kube::Error::Api(_)))
    }

    /// Returns whether the runtime's own kind is defined.
    pub(crate) async fn has_records(&self) -> bool {
        let _held = PausedTime::new();
        let definitions = self.items(DEFINITIONS).await.expect("definitions are served");
        definitions.iter().any(|definition| name(definition) == LASTING)
    }

    /// Waits until a deleted definition is gone; the runtime may have created another one with its name.
    pub(crate) async fn await_gone(&self, definition: &str) {
        let _held = PausedTime::new();
        for _ in 0..LOOKS_MAX {
            let is_going =
                |one: &Value| name(one) == definition && one.pointer("/metadata/deletionTimestamp").is_some();
            if !self.items(DEFINITIONS).await.expect("definitions are served").iter().any(is_going) {
                return;
            }
            look_again_later().await;
        }
        panic!("the definition {definition} does not go");
    }

    async fn items(&self, collection: &str) -> kube::Result<Vec<Value>> {
        let mut list = self.send(Method::GET, collection, &Value::Null).await?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { vec![] } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", media).body(body);
        self.client.request(request.expect("a valid path")).await
    }
}

/// Lets real time pass: the server does not use our clock.
async fn look_again_later() {
    #[expect(
        clippy::disallowed_methods,
        reason = "what is waited for happens in another process, in real time"
    )]
    let pause = || std::thread::sleep(LOOK);
    tokio::task::spawn_blocking(pause).await.expect("it only sleeps");
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns a client for this kubeconfig. It has no timeouts and no retries: both would use virtual time, which stands
/// still until there is a response.
pub(crate) async fn connect(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the kubeconfig is complete");
    let host = config.cluster_url.host().unwrap_or_default().to_owned();
    assert!(["127.0.0.1", "localhost", "[::1]"].contains(&host.as_str()), "{host} is not this machine");
    (config.connect_timeout, config.read_timeout, config.write_timeout) = (None, None, None);
    config.default_retry = false;
    Client::try_from(config).expect("its certificates are good")
}

/// The collections that were written to, stored in the locked file.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

struct Noted {
    file: File,
    collections: BTreeSet<String>,
}

impl Notes {
    fn lock(path: PathBuf) -> Self {
        let file = File::options().create(true).append(true).read(true).open(path);
        let mut file = file.expect("a file beside the kubeconfig can be written");
        file.lock().expect("it can be locked");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("we wrote it");
        let collections = text.lines().map(str::to_owned).collect();
        Self(Arc::new(Mutex::new(Noted { file, collections })))
    }

    /// Records the collection that a request may write to.
    pub(crate) fn note(&self, request: &Request<Body>) {
        if request.method() == Method::GET {
            return;
        }
        let collection = collection_of(request.uri().path());
        let mut noted = self.0.lock().unwrap();
        if noted.collections.insert(collection.clone()) {
            writeln!(noted.file, "{collection}").expect("the file takes a line");
        }
    }

    fn collections(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().collections.clone()
    }

    fn forget(&self) {
        let mut noted = self.0.lock().unwrap();
        noted.collections.clear();
        noted.file.set_len(0).and_then(|()| noted.file.rewind()).expect("the file can be emptied");
    }
}

/// Returns the collection of a path: without the name and anything after it.
fn collection_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let version = if parts.first() == Some(&"api") { 2 } else { 3 };
    let is_inside = parts.get(version) == Some(&"namespaces") && parts.len() > version + 2;
    let length = if is_inside { version + 3 } else { version + 1 };
    format!("/{}", parts[..parts.len().min(length)].join("/"))
}

#[test]
fn a_path_lies_in_a_collection() {
    for (path, collection) in [
        ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps"),
        ("/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces/default/configmaps"),
        ("/apis/test.dev/v1/namespaces/n/widgets/a/status", "/apis/test.dev/v1/namespaces/n/widgets"),
        ("/api/v1/namespaces/shop", "/api/v1/namespaces"),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b", DEFINITIONS),
    ] {
        assert_eq!(collection_of(path), collection);
    }
}
