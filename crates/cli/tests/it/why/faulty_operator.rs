//! An operator with too few rights that misbehaves on purpose, as its objects specify. It runs in the process of the
//! test, or as a Pod that starts this test program again with [`AS_POD`] set.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use homeostat::prelude::*;
use homeostat::world::{Answer, Limits, Mark, Outside, Ownership, Page, UpdateRequest, World};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::{Deserializer, Error as _};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The user that the operator acts as.
pub(crate) const USER: &str = "faulty-operator";

/// The variable that makes this test program the operator.
pub(crate) const AS_POD: &str = "FAULTY_OPERATOR_AS_POD";

/// Specifies how to misbehave.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "why.homeostat.dev", version = "v1", kind = "Task", namespaced)]
pub(crate) struct TaskSpec {
    pub(crate) fault: String,
    #[serde(default, deserialize_with = "not_thirteen")]
    #[schemars(with = "i64")]
    pub(crate) size: i64,
}

/// A resource in a cloud.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "why.homeostat.dev", version = "v1", kind = "Cloudlet", namespaced)]
pub(crate) struct CloudletSpec {
    pub(crate) fault: String,
}

fn not_thirteen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match i64::deserialize(deserializer)? {
        13 => Err(D::Error::custom("13 is an unlucky size")),
        size => Ok(size),
    }
}

/// The running operator.
pub(crate) struct Faulty {
    pub(crate) admin: SocketAddr,
    _stop: DropGuard,
}

impl Faulty {
    /// Starts it as [`USER`].
    pub(crate) async fn start(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.auth_info.impersonate = Some(USER.to_owned());
        Self::start_with(config)
    }

    /// Starts it with the credentials of a configuration.
    fn start_with(config: Config) -> Self {
        let client = Client::try_from(config.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let operator = homeostat::embedded::add_console(operator()).viewers_of(config).unwrap();
        tokio::spawn(operator.serve_on(listener).run_on(client, stop.clone()));
        Self { admin, _stop: stop.drop_guard() }
    }
}

/// Runs the operator if this process is its Pod; does nothing otherwise.
#[tokio::test]
async fn run_as_pod() {
    if std::env::var_os(AS_POD).is_none() {
        return;
    }
    let _running = Faulty::start_with(Config::infer().await.unwrap());
    std::future::pending::<()>().await;
}

fn operator() -> Operator {
    let tasks = Controller::<Task>::new()
        .owns::<ConfigMap>()
        .owns::<Secret>()
        .cleanup_if(
            |task: &Task| task.spec.fault == "cleanup",
            |_, _| async { Err("the backup failed".into()) },
        )
        .reconcile(reconcile);
    let limits = Limits { timeout: Duration::from_millis(200), ..Limits::default() };
    let clouds = Outside::new(Cloud).ownership(Ownership::Prefix("why-".to_owned())).limits(limits);
    Operator::new("faulty.homeostat.dev")
        .crd::<Task>()
        .crd::<Cloudlet>()
        .control(tasks)
        .control(clouds.control())
}

async fn reconcile(task: Arc<Task>, cx: Context<Task>) -> homeostat::runtime::Result<Action> {
    let name = task.metadata.name.clone().unwrap_or_default();
    let map = |name: &str, key: &str, value: String| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.data = Some([(key.to_owned(), value)].into());
        map
    };
    match task.spec.fault.as_str() {
        "right" => {
            let mut secret = Secret::default();
            secret.metadata.name = Some(name);
            cx.apply(secret).await?;
        }
        "owner" => drop(cx.apply(map("taken", "a", "ours".to_owned())).await?),
        "child" => drop(cx.apply(map(&name, "not a key!", String::new())).await?),
        "loop" => {
            cx.apply(map(&name, "time", cx.now().to_string())).await?;
            return Ok(Action::requeue(Duration::from_millis(20)));
        }
        _ => {}
    }
    Ok(Action::await_change())
}

/// A cloud that fails.
struct Cloud;

#[derive(Serialize, Deserialize)]
struct Wanted {}

impl Cloud {
    /// Answers as the name specifies.
    async fn answer<T>(&self, name: &str, answer: T) -> Answer<T> {
        if name.contains("slow") {
            std::future::pending::<()>().await;
        }
        if name.contains("broken") { Err("the cloud is on fire".into()) } else { Ok(answer) }
    }
}

impl World for Cloud {
    type Kind = Cloudlet;
    type Want = Wanted;
    type Have = Wanted;

    const NAME: &'static str = "clouds";

    fn want(&self, object: &Cloudlet) -> homeostat::runtime::Result<BTreeMap<String, Wanted>> {
        Ok([(format!("why-{}", object.spec.fault), Wanted {})].into())
    }

    async fn list(&self, _: Option<&str>) -> Answer<Page<Wanted>> {
        Ok(Page { resources: Vec::new(), next: None })
    }

    async fn get(&self, _: &str) -> Answer<Option<Wanted>> {
        Ok(None)
    }

    async fn create(&self, name: &str, _: &Wanted, _: &Mark) -> Answer<()> {
        self.answer(name, ()).await
    }

    async fn update(&self, name: &str, _: UpdateRequest<'_, Self>) -> Answer<()> {
        self.answer(name, ()).await
    }

    async fn delete(&self, name: &str, _: &Wanted) -> Answer<()> {
        self.answer(name, ()).await
    }
}
