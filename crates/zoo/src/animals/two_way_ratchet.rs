//! A size that only grows, but is compared with "differs" instead of "is larger": for an outdated size, the StatefulSet
//! is deleted and re-created with that size.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use serde_json::json;

use crate::objects::{api, create_if_missing, in_default, is_latest, owned_by};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Broker", namespaced)]
pub(crate) struct BrokerSpec {
    gigabytes: u32,
}

/// Returns the StatefulSet. Its volume template cannot be changed: to grow the volumes, it is deleted and re-created.
fn stateful_set(broker: &Broker) -> Result<StatefulSet> {
    let labels = json!({"broker": broker.name_any()});
    let storage = format!("{}Gi", broker.spec.gigabytes);
    let set = from_json(&json!({
        "metadata": {"name": broker.name_any(), "labels": {"gigabytes": broker.spec.gigabytes.to_string()}},
        "spec": {
            "serviceName": broker.name_any(),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "broker", "image": "broker:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
            }],
        },
    }))?;
    Ok(owned_by(broker, set))
}

fn gigabytes(set: &StatefulSet) -> u32 {
    set.labels().get("gigabytes").and_then(|text| text.parse().ok()).unwrap_or_default()
}

async fn reconcile(
    broker: Arc<Broker>,
    cx: Context<Broker>,
    must_replace: fn(u32, u32) -> bool,
) -> Result<Action> {
    match api::<_, StatefulSet>(&cx).get_opt(&broker.name_any()).await? {
        None if is_latest(&cx).await? => {
            create_if_missing(&api(&cx), &stateful_set(&broker)?).await?;
        }
        Some(set) if must_replace(broker.spec.gigabytes, gigabytes(&set)) => {
            cx.delete(&set).await?;
            // The watch may never have shown it, in which case it does not show that it is gone either.
            return Ok(Action::requeue_now());
        }
        _ => {}
    }
    Ok(Action::await_change())
}

fn operator(must_replace: fn(u32, u32) -> bool) -> Operator {
    let brokers = Controller::new()
        .owns::<StatefulSet>()
        .reconcile(move |broker, cx| reconcile(broker, cx, must_replace));
    Operator::new("brokers.zoo.homeostat.dev").crd::<Broker>().control(brokers)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Broker::new("events", BrokerSpec { gigabytes: 1 }))).then(edit::<
        Broker,
    >(
        "events",
        |broker| broker.spec.gigabytes = 2,
    ))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(|wanted, is| wanted != is))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(|wanted, is| wanted > is))
}
