//! The environment of an operator: a kubelet whose Pods fail, handlers instead of a reconcile function, an API outside
//! the cluster, namespaces, and the rights that were needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::handlers::{Diff, HandlerContext, Handlers};
use homeostat_runtime::world::{Answer, Failure, Mark, Page as WorldPage, UpdateRequest, World};
use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::actors::{PodBehaviour, kubelet};
use homeostat_sim::{Budget, Fault, Outside, Simulation, delete, edit};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kinds::{Page, PageSpec, SAMPLE, child, operator, page, trace};

#[track_caller]
fn check_silent(simulation: Simulation) {
    let outcome = simulation.explore();
    println!("{} schedules, {:.2} s\n{}", outcome.schedules, outcome.seconds, outcome.role);
    if let Some(failure) = outcome.failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

/// Runs a Pod for each page.
async fn run_pod(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "home", "namespace": "default", "ownerReferences": [page.controller_owner_ref(&())]},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }))?;
    cx.apply(pod).await?;
    Ok(Action::await_change())
}

fn pods() -> Operator {
    operator().control(Controller::<Page>::new().owns::<Pod>().reconcile(run_pod))
}

fn is_ready(cluster: &homeostat_sim::Cluster) -> bool {
    let status = cluster.get::<Pod>("home").and_then(|pod| pod.status);
    let mut conditions = status.and_then(|status| status.conditions).into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[test]
fn pods_behave_as_the_kubelet_is_configured() {
    let simulation = |behaviour: PodBehaviour| {
        Simulation::new(pods)
            .beside(move || kubelet(behaviour))
            .given(page("home", PageSpec::default()))
            .eventually(is_ready)
            .budget(Budget { schedules: 30, seconds: 3600 })
    };
    check_silent(simulation(PodBehaviour::Ready));
    for behaviour in [PodBehaviour::NeverReady, PodBehaviour::CrashLoop] {
        let found = simulation(behaviour).explore().failure.expect("no Pod is ever ready");
        assert_eq!(found.oracle, "eventually", "{}", found.report);
    }
}

/// Returns an operator whose handlers publish the text of a page. The broken version does not publish edits.
fn handlers(sees_edits: bool) -> Operator {
    let handlers = Handlers::<Page>::new().on_create("publish", publish);
    let handlers = if sees_edits { handlers.on_update("again", publish_again) } else { handlers };
    operator().control(Controller::<Page>::new().owns::<ConfigMap>().handlers(handlers))
}

async fn publish(page: Arc<Page>, cx: HandlerContext<Page>) -> Result<()> {
    cx.apply(child(&page, "published", &page.spec.text)).await?;
    Ok(())
}

async fn publish_again(diff: Diff<Page>, cx: HandlerContext<Page>) -> Result<()> {
    cx.apply(child(&diff.new, "published", &diff.new.spec.text)).await?;
    Ok(())
}

#[test]
fn handlers_survive() {
    let broken = Simulation::new(|| handlers(false))
        .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
        .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
        .budget(SAMPLE);
    let found = broken.explore().failure.expect("the edit is not published");
    assert_eq!(found.oracle, "path independence", "{}", found.report);
    // Handlers only react to edits of their object. They do not repair a child that somebody else deletes or changes,
    // so only some faults are tried.
    for address in [
        "patch configmaps default/published",
        "patch pages.demo.dev default/home",
        "patch pages.demo.dev default/home #2",
    ] {
        for fault in [
            Fault::CrashAfter,
            Fault::CrashBefore,
            Fault::LoseAnswer,
            Fault::Refuse { code: 500 },
            Fault::StepFirst,
            Fault::RestartBack { changes: 1 },
            Fault::RestartBack { changes: 3 },
            Fault::JumpClock { seconds: 900 },
            Fault::JumpClock { seconds: -900 },
        ] {
            let again = Simulation::new(|| handlers(true))
                .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
                .then(edit::<Page>("home", |page| page.spec.text = "b".into()));
            if let Some(failure) = again.replay(&trace(address, fault)).failure {
                panic!("a false alarm:\n{}", failure.report);
            }
        }
    }
}

/// A resource outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Thing {
    text: String,
    #[serde(skip)]
    mark: String,
}

type Things = BTreeMap<String, Thing>;

/// A world whose API is in memory.
struct Cloud(Outside<Things>);

impl World for Cloud {
    type Kind = Page;
    type Want = String;
    type Have = Thing;
    const NAME: &'static str = "things";

    fn want(&self, page: &Page) -> Result<BTreeMap<String, String>> {
        Ok([(page.metadata.name.clone().unwrap_or_default(), page.spec.text.clone())].into())
    }

    fn diff(&self, want: &String, have: &Thing) -> Vec<homeostat_runtime::world::Difference> {
        homeostat_runtime::world::compare(want, &have.text)
    }

    fn mark(&self, have: &Thing) -> Option<Mark> {
        Some(Mark::read(&have.mark))
    }

    async fn list(&self, _: Option<&str>) -> Answer<WorldPage<Thing>> {
        let things = self.0.read("list", Clone::clone).await?;
        Ok(WorldPage { resources: things.into_iter().collect(), next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<Thing>> {
        let wanted = name.to_owned();
        Ok(self.0.read(format!("get {name}"), move |things| things.get(&wanted).cloned()).await?)
    }

    async fn create(&self, name: &str, want: &String, mark: &Mark) -> Answer<()> {
        let (key, thing) = (name.to_owned(), Thing { text: want.clone(), mark: mark.to_string() });
        let is_new = self.0.write(format!("create {name}"), move |things| {
            let is_new = !things.contains_key(&key);
            things.entry(key).or_insert(thing);
            is_new
        });
        if is_new.await? { Ok(()) } else { Err(Failure::Exists) }
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        let (key, thing) =
            (name.to_owned(), Thing { text: change.want.clone(), mark: change.mark.to_string() });
        self.0.write(format!("update {name}"), move |things| things.insert(key, thing)).await?;
        Ok(())
    }

    async fn delete(&self, name: &str, _: &Thing) -> Answer<()> {
        let key = name.to_owned();
        self.0.write(format!("delete {name}"), move |things| things.remove(&key)).await?;
        Ok(())
    }
}

#[test]
fn a_world_survives() {
    let simulation = Simulation::with_outside(Things::new(), |things: Outside<Things>| {
        operator().control(homeostat_runtime::world::Outside::new(Cloud(things)).control())
    })
    .given(page("home", PageSpec { text: "a".into(), ..PageSpec::default() }))
    .then(edit::<Page>("home", |page| page.spec.text = "b".into()))
    .eventually(|cluster| cluster.outside().contains("\"b\""))
    .budget(SAMPLE);
    check_silent(simulation);
}

/// Deleting a namespace deletes everything in it.
#[test]
fn the_deletion_of_a_namespace_survives() {
    let mut inside = page("home", PageSpec::default());
    inside.metadata.namespace = Some("site".into());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "site"}})).unwrap();
    let make = || {
        let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(|page, cx| async move {
            let mut object = child(&page, "child", "");
            object.metadata.namespace.clone_from(&page.metadata.namespace);
            match cx.apply(object).await {
                // Nothing can be created in a namespace that is being deleted.
                Err(_) if page.metadata.deletion_timestamp.is_some() => Ok(Action::await_change()),
                other => other.map(|_| Action::await_change()).map_err(Into::into),
            }
        });
        operator().control(pages)
    };
    let simulation = Simulation::new(make)
        .given(namespace)
        .given(inside)
        .then(delete::<Namespace>("site"))
        .eventually(|cluster| cluster.count::<ConfigMap>() == 0 && cluster.count::<Page>() == 0)
        .budget(Budget { schedules: 60, ..SAMPLE });
    check_silent(simulation);
}

#[test]
fn the_least_rights_are_sufficient_and_reported() {
    let outcome = crate::pages::simulation().budget(Budget { schedules: 40, seconds: 3600 }).explore();
    assert!(outcome.failure.is_none());
    let expected = ["resources: [\"configmaps\"]", "resources: [\"pages\"]", "\"patch\"", "\"watch\""];
    assert!(expected.iter().all(|part| outcome.role.contains(part)), "{}", outcome.role);
    assert!(!outcome.role.contains("\"delete\""), "the server deletes the ConfigMap\n{}", outcome.role);
}
