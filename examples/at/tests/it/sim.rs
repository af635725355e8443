//! The operator under the simulator: whatever goes wrong, every At runs its command once.

use homeostat::k8s_openapi::api::core::v1::Pod;
use homeostat::sim::actors::{PodBehaviour, kubelet};
use homeostat::sim::{Budget, Cluster, Simulation, Trace, edit};
use homeostat_example_at::{At, AtSpec, Phase, operator};

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 80, seconds: 3600 };

/// Long before and long after the simulated present.
const PAST: &str = "2026-02-10T20:30:00Z";
const FUTURE: &str = "2126-02-10T20:30:00Z";

fn at(name: &str, schedule: &str) -> At {
    At::new(name, AtSpec { schedule: schedule.to_owned(), command: "echo hello".to_owned() })
}

fn is_done(cluster: &Cluster) -> bool {
    let done = |at: &At| at.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Done));
    cluster.list::<At>().iter().all(done)
}

fn simulation() -> Simulation {
    Simulation::new(operator)
        .beside(|| kubelet(PodBehaviour::Succeed))
        .given(at("due", PAST))
        .given(at("later", FUTURE))
        .then(edit::<At>("later", |at| at.spec.schedule = PAST.into()))
        .always(|cluster| cluster.count::<Pod>() <= 2)
        .eventually(is_done)
        .budget(BUDGET)
}

#[test]
fn commands_run_once_whatever_goes_wrong() {
    simulation().check();
}

/// The operator died between the creation of the Pod and the status that names it, and the next one never named it.
#[test]
fn a_pod_that_an_ended_process_created_is_named() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/traces/pod_not_named.json");
    let outcome = simulation().replay(&Trace::load(file.as_ref()).unwrap());
    assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap().report);
}
