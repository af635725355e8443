//! Tests ordinary uses of features that an audit once found to be broken. `cargo xtask defects` breaks them again, one
//! at a time, and the simulation named there must find the defect (docs/why/defects.md); here each must pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream;
use homeostat::sim::{Budget, Outside, Simulation, create, edit};
use homeostat_runtime::handlers::{Diff, HandlerContext};
use homeostat_runtime::{Action, Controller, Handlers, Operator, Result, changed, condition, terminal};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{BUDGET, Sheet, all_are_copied, copy_of, operator, reconcile, sheet, sheets, two_sheets};

/// More of the single faults than in tests that renew leases; `cargo xtask defects` runs them all.
const QUICK: Budget = Budget { schedules: 60, ..BUDGET };

/// Long enough that the user's next step happens while a reconcile is waiting.
const LONG_RECONCILE: Duration = Duration::from_secs(5);

/// A namespace that every cluster has besides `default`.
const OTHER_NAMESPACE: &str = "kube-public";

/// The label of a ConfigMap that is a note on a sheet.
const NOTE_ON: &str = "note-on";

fn note(name: &str, sheet: &str) -> ConfigMap {
    let mut note = ConfigMap::default();
    note.metadata.name = Some(name.to_owned());
    note.labels_mut().insert(NOTE_ON.to_owned(), sheet.to_owned());
    note
}

/// B1: during a reconcile, a note reports to the same status.
fn annotated() -> Operator {
    let notes = Controller::<ConfigMap>::new().reports_to::<Sheet>().reconcile(|note, cx| async move {
        if let Some(sheet) = note.labels().get(NOTE_ON) {
            cx.report::<Sheet>(sheet.as_str(), note.name_any(), "seen").await?;
        }
        Ok(Action::await_change())
    });
    let sheets = Controller::<Sheet>::new().reconcile(|sheet, cx| async move {
        cx.status(|status| status.text.clone_from(&sheet.spec.text));
        tokio::time::sleep(LONG_RECONCILE).await;
        Ok(Action::await_change())
    });
    operator().control(notes).control(sheets)
}

#[test]
fn a_report_during_a_reconcile_is_kept() {
    Simulation::new(annotated)
        .given(sheet("one", "a"))
        .then(create(note("first", "one")))
        .eventually(all_are_copied)
        .eventually(|cluster| {
            let status = cluster.get::<Sheet>("one").and_then(|sheet| sheet.status).unwrap_or_default();
            let is_reported = |note: ConfigMap| status.children.contains_key(&note.name_any());
            cluster.list::<ConfigMap>().into_iter().all(is_reported)
        })
        .budget(QUICK)
        .check();
}

/// B2, B3: keeps sheets that are paused, and refuses bad ones until they are edited.
fn careful() -> Operator {
    let sheets = Controller::<Sheet>::new()
        .owns::<ConfigMap>()
        .when(changed::generation())
        .cleanup_if(|sheet| sheet.spec.text == "held", |_, _| async { Ok(Action::await_change()) })
        .reconcile(|sheet, cx| async move {
            if sheet.spec.text == "bad" {
                return Err(terminal("a bad text"));
            }
            reconcile(sheet, cx).await
        });
    operator().control(sheets)
}

fn edited(from: &str, to: &'static str) -> Simulation {
    Simulation::new(careful)
        .given(sheet("one", from))
        .then(edit::<Sheet>("one", move |sheet| sheet.spec.text = to.into()))
        .eventually(all_are_copied)
        .budget(QUICK)
}

#[test]
fn a_sheet_that_is_corrected_is_reconciled() {
    edited("bad", "good").check();
}

#[test]
fn a_sheet_that_is_released_is_reconciled() {
    edited("held", "free").check();
}

/// B4: a leader that stalled while writing is no longer the leader.
#[test]
fn a_leader_that_stood_still_writes_nothing() {
    Simulation::new(|| sheets().leader_election())
        .replicas(2)
        .given(sheet("one", "a"))
        .eventually(all_are_copied)
        .budget(BUDGET)
        .check();
}

/// Which replica holds which shard follows from the seed and changes only with a crash, so several seeds are tried.
const SHARD_SEEDS: std::ops::RangeInclusive<u64> = 1..=4;

/// B5: during a rollout, a replica of the next version has another number of shards. Which keys have no owner depends
/// on which replica holds which shard; there is always such a sheet among these four, unless one of the replicas holds
/// all shards that it knows.
#[test]
fn replicas_with_different_shards_do_all_the_work() {
    for seed in SHARD_SEEDS {
        two_sheets(|| sheets().sharded(2))
            .given(sheet("three", "a"))
            .given(sheet("four", "a"))
            .beside(|| sheets().sharded(3))
            .seed(seed)
            .budget(Budget { schedules: 10, ..BUDGET })
            .check();
    }
}

/// B6: a kind whose conditions have several writers according to its schema.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Poster", namespaced, status = "PosterStatus")]
pub(crate) struct PosterSpec {
    #[serde(default)]
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct PosterStatus {
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

fn posters() -> Operator {
    let posters = Controller::<Poster>::new().reconcile(|poster, cx| async move {
        cx.condition(condition("Printed", true, "Printed", poster.spec.text.clone()));
        Ok(Action::await_change())
    });
    Operator::new("posters.demo.dev").crd::<Poster>().control(posters)
}

#[test]
fn conditions_of_others_are_kept() {
    Simulation::new(posters)
        .given(Poster::new("one", PosterSpec { text: "a".to_owned() }))
        .then(edit::<Poster>("one", |poster| poster.spec.text = "b".into()))
        .eventually(|cluster| {
            let Some(poster) = cluster.get::<Poster>("one") else { return false };
            let conditions = poster.status.unwrap_or_default().conditions;
            conditions.iter().any(|one| one.message == poster.spec.text)
        })
        .budget(QUICK)
        .check();
}

/// B7: a kind whose type panics for some of its objects.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Leaflet", namespaced)]
pub(crate) struct LeafletSpec {
    #[serde(deserialize_with = "fragile")]
    text: String,
}

fn fragile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    assert!(!text.is_empty(), "a leaflet has a text");
    Ok(text)
}

fn leaflets() -> Operator {
    let leaflets = Controller::<Leaflet>::new().owns::<ConfigMap>().reconcile(|leaflet, cx| async move {
        cx.apply(copy_of(&sheet(&leaflet.name_any(), &leaflet.spec.text))).await?;
        Ok(Action::await_change())
    });
    Operator::new("leaflets.demo.dev").crd::<Leaflet>().control(leaflets)
}

#[test]
fn an_object_that_panics_does_not_keep_others_from_being_reconciled() {
    let leaflet = |name: &str, text: &str| Leaflet::new(name, LeafletSpec { text: text.to_owned() });
    Simulation::new(leaflets)
        .given(leaflet("bad", ""))
        .then(create(leaflet("good", "a")))
        .eventually(|cluster| cluster.count::<Leaflet>() < 2 || cluster.count::<ConfigMap>() == 1)
        .budget(QUICK)
        .check();
}

/// B8: the sheets that are published outside the cluster. An older edition must not follow a newer one.
#[derive(Clone, Debug, Default)]
struct Shelf {
    edition: String,
    went_back: bool,
}

impl Shelf {
    fn publish(&mut self, edition: String) {
        self.went_back |= edition < self.edition;
        self.edition = edition;
    }

    fn withdraw(&mut self) {
        *self = Self::default();
    }
}

fn publishers(shelf: Outside<Shelf>) -> Operator {
    let (withdrawn, publish) = (shelf.clone(), move |text: String| {
        let shelf = shelf.clone();
        async move { Ok(shelf.write(format!("publish {text}"), |shelf| shelf.publish(text)).await?) }
    });
    let again = publish.clone();
    let handlers = Handlers::<Sheet>::new()
        .on_create("first", move |sheet: Arc<Sheet>, _: HandlerContext<Sheet>| {
            publish(sheet.spec.text.clone())
        })
        .on_update("next", move |diff: Diff<Sheet>, _: HandlerContext<Sheet>| {
            again(diff.new.spec.text.clone())
        })
        .on_delete("last", move |_: Arc<Sheet>, _: HandlerContext<Sheet>| {
            let shelf = withdrawn.clone();
            async move { Ok(shelf.write("withdraw", Shelf::withdraw).await?) }
        });
    operator().control(handlers)
}

#[test]
fn a_handler_that_is_recorded_as_done_is_not_called_on_an_old_state() {
    Simulation::with_outside(Shelf::default(), publishers)
        .given(sheet("one", "edition 1"))
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "edition 2".into()))
        .eventually(|cluster| {
            let is_published = |sheet: Sheet| cluster.outside().contains(&sheet.spec.text);
            cluster.list::<Sheet>().into_iter().all(is_published)
        })
        .budget(QUICK)
        .check();
}

/// B10: a server whose history is too short for a watch is not queried in a tight loop.
#[test]
fn a_watch_that_expires_again_and_again_waits() {
    edited("a", "b").check();
}

/// B12: posts each sheet on a board in a namespace other than the operator's, and counts the ConfigMaps in its own.
fn posting() -> Operator {
    let sheets = Controller::<Sheet>::new().reads::<ConfigMap>().writes::<ConfigMap>().reconcile(
        |sheet, cx| async move {
            let boards = Api::<ConfigMap>::namespaced(cx.client().clone(), OTHER_NAMESPACE);
            let board = boards.get("board").await?;
            cx.patch(&board, json!({"data": {sheet.name_any(): sheet.spec.text}})).await?;
            let count = cx.list::<ConfigMap>()?.len();
            cx.status(|status| status.text = count.to_string());
            Ok(Action::await_change())
        },
    );
    operator().namespace("default").control(sheets)
}

#[test]
fn what_is_written_elsewhere_is_not_in_the_cache() {
    let mut board = note("board", "none");
    board.metadata.namespace = Some(OTHER_NAMESPACE.to_owned());
    Simulation::new(posting)
        .given(board)
        .given(sheet("one", "a"))
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "b".into()))
        .budget(QUICK)
        .check();
}

/// B13: an external trigger names a sheet some time after the start.
fn bells() -> Operator {
    let has_rung = Arc::new(AtomicBool::new(false));
    let ringing = has_rung.clone();
    let bell = stream::once(async move {
        tokio::time::sleep(LONG_RECONCILE).await;
        ringing.store(true, Ordering::Relaxed);
        "one"
    });
    let sheets = Controller::<Sheet>::new().on("bell", bell).reconcile(move |_, cx| {
        if has_rung.load(Ordering::Relaxed) {
            cx.status(|status| "rung".clone_into(&mut status.text));
        }
        async { Ok(Action::await_change()) }
    });
    operator().namespace(OTHER_NAMESPACE).control(sheets)
}

#[test]
fn a_name_from_outside_is_one_of_the_operators_namespace() {
    let mut one = sheet("one", "a");
    one.metadata.namespace = Some(OTHER_NAMESPACE.to_owned());
    Simulation::new(bells)
        .given(one)
        .eventually(|cluster| {
            cluster.list::<Sheet>().into_iter().all(|sheet| sheet.status.is_some_and(|is| is.text == "rung"))
        })
        .budget(QUICK)
        .check();
}

/// B15: a sheet that keeps failing while leases are gained and lost.
#[test]
fn failures_are_counted_over_a_lapsed_lease() {
    let failing = || {
        let sheets = Controller::<Sheet>::new().reconcile(|sheet, cx| async move {
            if sheet.spec.text == "bad" {
                return Err("not yet".into());
            }
            cx.status(|status| status.text.clone_from(&sheet.spec.text));
            Ok(Action::await_change())
        });
        operator().control(sheets).leader_election()
    };
    Simulation::new(failing)
        .replicas(2)
        .given(sheet("one", "bad"))
        .then(edit::<Sheet>("one", |sheet| sheet.spec.text = "good".into()))
        .budget(BUDGET)
        .check();
}
