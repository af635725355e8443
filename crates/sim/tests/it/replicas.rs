//! Several replicas: a former leader that wakes up late, and a replica that writes outside its shards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use homeostat_runtime::handlers::OperatorContext;
use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Budget, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::kinds::{Page, PageSpec, child, operator, page};

/// Fewer schedules than in other tests, because the simulator must perform every renewal of a lease.
const BUDGET: Budget = Budget { schedules: 40, seconds: 3600 };

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let name = page.metadata.name.clone().unwrap_or_default();
    cx.apply(child(&page, &name, &page.spec.text)).await?;
    Ok(Action::await_change())
}

fn pages() -> Operator {
    operator().control(Controller::<Page>::new().owns::<ConfigMap>().reconcile(reconcile))
}

/// Does its work in a detached task with a client of its own, neither of which stops when the leadership is lost.
fn detached() -> Operator {
    let client: Arc<OnceLock<Client>> = Arc::default();
    let (given, used) = (Arc::clone(&client), client);
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(move |page, _| {
        let client = used.get().cloned();
        async move {
            let Some(client) = client else { return Ok(Action::requeue_now()) };
            let name = page.metadata.name.clone().unwrap_or_default();
            let object = child(&page, &name, &page.spec.text);
            tokio::spawn(async move {
                let api: Api<ConfigMap> = Api::namespaced(client, "default");
                let how = PatchParams::apply("pages").force();
                while api.patch(&name, &how, &Patch::Apply(&object)).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
            Ok(Action::await_change())
        }
    });
    let keep = move |activity: OperatorContext| {
        let _ = given.set(activity.client().clone());
        async { Ok(()) }
    };
    operator().leader_election().on_startup("client", keep).control(pages)
}

/// Every replica writes the status of every page, regardless of the page's shard.
fn heedless() -> Operator {
    static STARTS: AtomicU32 = AtomicU32::new(0);
    pages().sharded(2).on_startup("report", |activity: OperatorContext| async move {
        let number = STARTS.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(25)).await;
            let api: Api<Page> = Api::namespaced(activity.client().clone(), "default");
            let status = json!({"status": {"seen": number.to_string()}});
            let _ = api.patch_status("home", &PatchParams::default(), &Patch::Merge(status)).await;
        });
        Ok(())
    })
}

fn simulation(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).replicas(2).given(page("home", PageSpec::default())).budget(BUDGET)
}

#[track_caller]
fn check_found(make: fn() -> Operator) {
    let found = simulation(make).budget(crate::kinds::BUDGET).explore().failure.expect("the bug is found");
    assert_eq!(found.oracle, "only the leader writes", "{}", found.report);
    assert!(found.steps() <= 10, "{}", found.report);
    println!("{}", found.report);
}

#[track_caller]
fn check_silent(make: fn() -> Operator) {
    let outcome = simulation(make).explore();
    println!("{} schedules, {:.2} s", outcome.schedules, outcome.seconds);
    if let Some(failure) = outcome.failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

#[test]
fn a_leader_that_wakes_up_late_is_found() {
    check_found(detached);
}

#[test]
fn an_election_survives() {
    check_silent(|| pages().leader_election());
}

#[test]
fn a_replica_outside_its_shards_is_found() {
    check_found(heedless);
}

#[test]
fn shards_survive() {
    check_silent(|| pages().sharded(2));
}
