//! Injects one fault of the API outside the cluster at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Controller, Result};
use homeostat_sim::{Fault, Outside, Simulation};

use crate::kinds::{Page, PageSpec, check_fault, operator, page};

/// Machines by number, with their tags.
type Cloud = BTreeMap<u32, String>;

/// The broken version creates a new machine with every `create`; the cured one creates at most one for each tag.
async fn keep_machine(
    _: Arc<Page>,
    _: Context<Page>,
    cloud: Outside<Cloud>,
    is_cured: bool,
) -> Result<Action> {
    let known = cloud.read("list", |cloud| !cloud.is_empty()).await?;
    if !known {
        let create = move |cloud: &mut Cloud| {
            if is_cured && !cloud.is_empty() {
                return;
            }
            let id = cloud.keys().next_back().map_or(1, |last| last + 1);
            cloud.insert(id, "home".into());
        };
        cloud.write("create", create).await?;
    }
    Ok(Action::requeue(Duration::from_secs(600)))
}

async fn drop_machines(_: Arc<Page>, _: Context<Page>, cloud: Outside<Cloud>) -> Result<Action> {
    cloud.write("clear", BTreeMap::clear).await?;
    Ok(Action::await_change())
}

fn pair(poll: [bool; 2]) -> [Simulation; 2] {
    let [first, second] = poll;
    [(false, first), (true, second)].map(|(is_cured, polls)| {
        Simulation::with_outside(Cloud::new(), move |cloud: Outside<Cloud>| {
            let other = cloud.clone();
            let pages = Controller::<Page>::new()
                .cleanup(move |page, cx| drop_machines(page, cx, other.clone()))
                .reconcile(move |page, cx| {
                    let cloud = cloud.clone();
                    async move {
                        let action = keep_machine(page, cx, cloud, is_cured).await?;
                        Ok(if polls { action } else { Action::await_change() })
                    }
                });
            operator().control(pages)
        })
        .given(page("home", PageSpec::default()))
    })
}

#[test]
fn a_call_that_is_done_twice() {
    check_fault(pair([true, true]), "outside create", &Fault::Twice, "same end");
}

#[test]
fn an_answer_that_is_old() {
    let stale = Fault::StaleOutside { changes: 1 };
    check_fault(pair([true, true]), "outside list #2", &stale, "same end");
}

/// The broken version never reads the state outside again.
#[test]
fn a_world_that_drifts() {
    check_fault(pair([false, true]), "at rest after the start", &Fault::Drift { changes: 1 }, "same end");
}
