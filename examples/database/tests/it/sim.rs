//! The operator under the simulator, with the workload controllers and a fake kubelet: whatever goes wrong, every
//! Database gets its children, keeps its password, and leaves nothing behind.

use homeostat::embedded::workload_controllers;
use homeostat::k8s_openapi::api::core::v1::Node;
use homeostat::kube::Api;
use homeostat::kube::api::{Patch, PatchParams};
use homeostat::prelude::*;
use homeostat::sim::actors::{PodBehaviour, kubelet};
use homeostat::sim::{Budget, Cluster, Simulation, edit};
use homeostat_example_database::{Database, DatabaseSpec, Settings, operator};
use serde_json::json;

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 8, seconds: 3600 };

/// The operator on a machine that offers ports from 5000 on. The password is the same in every schedule, because the
/// names of the StatefulSet's revisions depend on it.
fn databases() -> Operator {
    operator(Settings {
        new_password: |_| "swordfish".to_owned(),
        free_port: |attempt| Ok(5000 + attempt),
        ..Settings::in_folder("/data")
    })
}

/// Ends the Pods that erase data: the kubelet lets every Pod run for ever.
fn finisher() -> Operator {
    let pods = Controller::<Pod>::new().reconcile(|pod, cx| async move {
        let is_running = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        if is_running && pod.name_any().ends_with("-erase") {
            let api: Api<Pod> = Api::namespaced(cx.client().clone(), cx.key().namespace());
            let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            api.patch_status(&pod.name_any(), &PatchParams::default(), &done).await?;
        }
        Ok(Action::await_change())
    });
    Operator::new("finisher.sim.homeostat.dev").control(pods)
}

fn node() -> Node {
    let mut node = Node::default();
    node.metadata.name = Some("simulated".to_owned());
    node
}

fn simulation() -> Simulation {
    Simulation::new(databases)
        .beside(workload_controllers)
        .beside(|| kubelet(PodBehaviour::Ready))
        .beside(finisher)
        .given(node())
        .budget(BUDGET)
}

fn is_ready(cluster: &Cluster, name: &str) -> bool {
    cluster.get::<Database>(name).and_then(|database| database.status).is_some_and(|status| status.ready)
}

#[test]
fn a_database_is_served_and_removed_whatever_goes_wrong() {
    simulation()
        .given(Database::new("orders", DatabaseSpec::default()))
        .then(edit::<Database>("orders", |database| database.spec.max_connections = 50))
        .always(|cluster| cluster.count::<Secret>() <= 1)
        .eventually(|cluster| is_ready(cluster, "orders"))
        .check();
}
