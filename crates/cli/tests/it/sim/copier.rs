//! The operator that the tests of `homeostat sim run` break: it maintains a copy of every ConfigMap with the label
//! `role=source`. It is this test program, which the simulator starts again with `COPIER` set to its behaviour.
//!
//! **Invariant:** `cured` survives everything; every other behaviour differs from it in one respect.

use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Error, Resource as _, ResourceExt as _};
use serde_json::json;

/// The variable that selects the behaviour.
const BEHAVIOUR: &str = "COPIER";
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Returns the command that runs the operator with this behaviour.
pub(super) fn command(behaviour: &str) -> String {
    let program = std::env::current_exe().expect("this program is a file");
    format!(
        "{BEHAVIOUR}={behaviour} exec '{}' --exact sim::copier::run_as_operator --nocapture",
        program.display()
    )
}

/// Runs the operator if the simulator started this process; does nothing otherwise.
#[tokio::test]
async fn run_as_operator() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    let client = Client::try_default().await.unwrap();
    let maps = Api::namespaced(client, "default");
    Copier { maps, behaviour }.run().await;
}

struct Copier {
    maps: Api<ConfigMap>,
    behaviour: String,
}

impl Copier {
    fn is(&self, behaviour: &str) -> bool {
        self.behaviour == behaviour
    }

    async fn run(self) {
        loop {
            let outcome = self.follow().await;
            if let Err(error) = &outcome {
                eprintln!("after {error:?}");
            }
            match outcome {
                Err(_) if self.is("fragile") => std::process::exit(3),
                Ok(()) if self.is("deaf") => std::future::pending().await,
                Err(_) if self.is("hasty") => {}
                _ => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Lists, then follows changes until the watch ends or an error occurs.
    async fn follow(&self) -> Result<(), Error> {
        let sources = self.maps.list(&ListParams::default().labels("role=source")).await?;
        for source in &sources.items {
            self.reconcile(source).await?;
        }
        let version = sources.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().labels("role=source");
        let mut events = Box::pin(self.maps.watch(&parameters, &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(source) | WatchEvent::Modified(source) => {
                    match self.reconcile(&source).await {
                        Err(error) if self.is("careless") => eprintln!("never mind: {error}"),
                        outcome => outcome?,
                    }
                }
                WatchEvent::Deleted(source) if self.is("leaky") => {
                    self.maps.delete(&copy_name(&source), &DeleteParams::default()).await?;
                }
                WatchEvent::Error(_) => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn reconcile(&self, source: &ConfigMap) -> Result<(), Error> {
        if self.is("tidy") {
            self.delete_orphans().await?;
        }
        if self.is("marked") {
            if source.annotations().contains_key("copied") {
                return Ok(());
            }
            let mark = Patch::Merge(json!({"metadata": {"annotations": {"copied": "yes"}}}));
            self.maps.patch(&source.name_any(), &PatchParams::default(), &mark).await?;
        }
        self.keep_copy(source).await?;
        while self.is("restless") {
            let stamp =
                Patch::Merge(json!({"data": {"stamp": format!("{:?}", tokio::time::Instant::now())}}));
            self.maps.patch(&copy_name(source), &PatchParams::default(), &stamp).await?;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Ok(())
    }

    /// Creates the copy, or makes it equal to its source.
    async fn keep_copy(&self, source: &ConfigMap) -> Result<(), Error> {
        // One that generates names stores them in the source once it knows them.
        let name = source.annotations().get("copy").cloned().unwrap_or_else(|| copy_name(source));
        let Some(mut copy) = self.maps.get_opt(&name).await? else {
            let made = self.maps.create(&PostParams::default(), &self.copy_of(source)).await?;
            if self.is("generating") {
                let note = Patch::Merge(json!({"metadata": {"annotations": {"copy": made.name_any()}}}));
                self.maps.patch(&source.name_any(), &PatchParams::default(), &note).await?;
            }
            return Ok(());
        };
        if copy.data == source.data || self.is("restless") {
            return Ok(());
        }
        copy.data.clone_from(&source.data);
        self.maps.replace(&name, &PostParams::default(), &copy).await.map(drop)
    }

    fn copy_of(&self, source: &ConfigMap) -> ConfigMap {
        let mut copy = ConfigMap { data: source.data.clone(), ..ConfigMap::default() };
        if self.is("generating") {
            copy.metadata.generate_name = Some(format!("{}-", copy_name(source)));
        } else {
            copy.metadata.name = Some(copy_name(source));
        }
        copy.metadata.labels = Some([("role".to_owned(), "copy".to_owned())].into());
        if !self.is("leaky") && !self.is("leaving") {
            copy.metadata.owner_references = Some(vec![owner(source)]);
        }
        copy
    }

    /// Deletes copies without a source, according to a cache that may be old.
    async fn delete_orphans(&self) -> Result<(), Error> {
        let list = |role| async move {
            let parameters = ListParams::default().labels(role).match_any();
            self.maps.list(&parameters).await
        };
        let (copies, sources) = (list("role=copy").await?, list("role=source").await?);
        let wanted: Vec<String> = sources.iter().map(copy_name).collect();
        for copy in copies.iter().filter(|copy| !wanted.contains(&copy.name_any())) {
            self.maps.delete(&copy.name_any(), &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

fn copy_name(source: &ConfigMap) -> String {
    format!("{}-copy", source.name_any())
}

fn owner(source: &ConfigMap) -> OwnerReference {
    let mut owner = source.controller_owner_ref(&()).expect("stored objects have a uid");
    owner.block_owner_deletion = None;
    owner
}
