//! Work that is bound to the process instead of the leadership: after another replica has become the leader, it
//! continues with the client that the process was started with.

use std::sync::OnceLock;

use homeostat::prelude::*;
use homeostat::sim::Simulation;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::objects::{in_default, owned_by};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Range", namespaced)]
pub(crate) struct RangeSpec {
    first: String,
}

/// The client of the process, which ignores leases.
#[derive(Default)]
struct ProcessClient(OnceLock<Client>);

/// Returns a record of the allocated range and the time of its allocation. It must not change after its creation.
fn allocation(range: &Range, cx: &Context<Range>) -> Result<ConfigMap> {
    let data = json!({"first": range.spec.first, "since": cx.now().to_string()});
    Ok(from_json(&json!({"metadata": {"name": range.name_any()}, "data": data}))?)
}

async fn write_as_process(range: Arc<Range>, cx: Context<Range>) -> Result<Action> {
    let (name, client) = (range.name_any(), cx.state::<ProcessClient>());
    if cx.get::<ConfigMap>(&*name)?.is_none() {
        let client = client.0.get().cloned().ok_or("the client is kept before anything starts")?;
        let allocations: Api<ConfigMap> = Api::namespaced(client, cx.key().namespace());
        let patch = Patch::Apply(owned_by(&*range, allocation(&range, &cx)?));
        // This is a task of the process, which does not end with the run that started it.
        let write = async move { allocations.patch(&name, &PatchParams::apply("ranges"), &patch).await };
        tokio::spawn(write).await??;
    }
    Ok(Action::await_change())
}

async fn write_as_leader(range: Arc<Range>, cx: Context<Range>) -> Result<Action> {
    if cx.get::<ConfigMap>(&*range.name_any())?.is_none() {
        let _: Arc<ConfigMap> = cx.create(allocation(&range, &cx)?).await?;
    }
    Ok(Action::await_change())
}

fn ranges() -> Controller<Range> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(ranges: BuiltController) -> Operator {
    Operator::new("ranges.zoo.homeostat.dev").crd::<Range>().leader_election().control(ranges)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .replicas(2)
        .given(in_default(Range::new("pods", RangeSpec { first: "10.1.0.0".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| {
        let ranges = ranges().needs_state::<ProcessClient>().reconcile(write_as_process);
        operator(ranges).state(ProcessClient::default()).on_startup(
            "keep the client",
            |activity| async move {
                let _ = activity.state::<ProcessClient>().0.set(activity.client().clone());
                Ok(())
            },
        )
    })
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(ranges().reconcile(write_as_leader)))
}
