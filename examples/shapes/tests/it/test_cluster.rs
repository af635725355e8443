//! The cloud, a control plane and the operator in this process, in real time, because a browser uses no other.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use homeostat::embedded::ControlPlane;
use homeostat::kube::Api;
use homeostat::kube::api::{Patch, PatchParams, PostParams};
use homeostat::runtime::CancellationToken;
use homeostat_example_shapes::api::{CloudShape, Faults};
use homeostat_example_shapes::server::{self, Running};
use homeostat_example_shapes::{Form, Options, Shape, ShapeSpec, operator};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The interval between two checks; it only saves processor time.
const PAUSE: Duration = Duration::from_millis(20);

/// The shape that all tests use.
const FOO: &str = "/shapes/foo";

pub(crate) struct TestCluster {
    pub(crate) cloud: Running,
    pub(crate) shapes: Api<Shape>,
    _plane: ControlPlane,
    _tasks: JoinSet<()>,
}

impl TestCluster {
    pub(crate) async fn start(options: Options) -> Self {
        let cloud = server::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let plane = ControlPlane::builder().start().await.unwrap();
        let running = operator(&cloud.url(), &options).run_on(plane.client(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { running.await.unwrap() });
        let shapes = Api::namespaced(plane.client(), "default");
        Self { cloud, shapes, _plane: plane, _tasks: tasks }
    }

    /// Creates the Shape `foo` as soon as the operator has installed the definition.
    pub(crate) async fn make_foo(&self, form: Form, color: &str) {
        let shape = Shape::new("foo", ShapeSpec { form, color: color.to_owned() });
        while self.shapes.create(&PostParams::default(), &shape).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Changes the color of the Shape `foo`.
    pub(crate) async fn recolor_foo(&self, color: &str) {
        let patch = Patch::Merge(json!({"spec": {"color": color}}));
        self.shapes.patch("foo", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the condition `Synced` of `foo` has this reason.
    pub(crate) async fn until_reason(&self, reason: &str) {
        loop {
            let status = self.shapes.get("foo").await.unwrap().status.unwrap_or_default();
            if status.base.conditions.iter().any(|one| one.type_ == "Synced" && one.reason == reason) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the shape `foo` in the cloud.
    pub(crate) async fn foo(&self) -> CloudShape {
        serde_json::from_str(&self.call("GET", FOO, "").await).unwrap()
    }

    /// Another user changes the color of `foo`.
    pub(crate) async fn paint_foo(&self, color: &str) {
        let painted = CloudShape { color: color.to_owned(), ..self.foo().await };
        self.call("PUT", FOO, &serde_json::to_string(&painted).unwrap()).await;
    }

    /// Another user deletes `foo`.
    pub(crate) async fn delete_foo(&self) {
        self.call("DELETE", FOO, "").await;
    }

    /// Breaks or repairs the cloud.
    pub(crate) async fn set_faults(&self, faults: &Faults) {
        self.call("PUT", "/faults", &serde_json::to_string(faults).unwrap()).await;
    }

    /// Sends a request as a user who is neither the operator nor the page.
    async fn call(&self, method: &str, path: &str, body: &str) -> String {
        let answer = self.ask(method, path, body).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{method}: {head}");
        body.to_owned()
    }

    /// The same, with the head of the response.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let url = self.cloud.url();
        let authority = url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(authority).await.unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close");
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
