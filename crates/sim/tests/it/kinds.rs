//! The kind that the tests reconcile, and the checks that they share.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, StandardStatus};
use homeostat_sim::{Budget, Deviation, Fault, Outcome, Simulation, Trace};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, CustomResource, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
pub(crate) struct PageSpec {
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default)]
    pub(crate) is_public: bool,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub(crate) struct PageStatus {
    #[serde(default)]
    pub(crate) seen: String,
    #[serde(flatten)]
    pub(crate) base: StandardStatus,
}

pub(crate) fn page(name: &str, spec: PageSpec) -> Page {
    let mut page = Page::new(name, spec);
    page.metadata.namespace = Some("default".into());
    page
}

pub(crate) fn operator() -> Operator {
    Operator::new("pages.demo.dev").crd::<Page>()
}

/// Returns a ConfigMap owned by the page.
pub(crate) fn child(page: &Page, name: &str, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some("default".into()),
            owner_references: page.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("text".to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    }
}

pub(crate) fn config_maps(cx: &Context<Page>) -> Api<ConfigMap> {
    Api::namespaced(cx.client().clone(), "default")
}

/// Creates the object, and succeeds if it already exists.
pub(crate) async fn ensure(api: &Api<ConfigMap>, object: &ConfigMap) -> homeostat_runtime::Result<()> {
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Enough for every single fault of these scenarios. The time limit is never reached, so that a busy machine finds the
/// same.
pub(crate) const BUDGET: Budget = Budget { schedules: 500, seconds: 3600 };

/// A sample of these faults that an unoptimized build runs in reasonable time.
pub(crate) const SAMPLE: Budget = Budget { schedules: 130, seconds: 3600 };

/// Checks that one of these oracles finds the bug of the broken version, and that the cured version raises no alarm.
#[track_caller]
pub(crate) fn check(broken: Simulation, cured: Simulation, oracles: &[&str]) -> Outcome {
    let found = broken.budget(BUDGET).explore();
    let failure = found.failure.as_ref().expect("the bug is found");
    println!("{}", failure.report);
    assert!(oracles.contains(&&*failure.oracle), "{}", failure.report);
    assert!(failure.steps() <= 10, "{} steps", failure.steps());
    let outcome = cured.budget(SAMPLE).explore();
    if let Some(failure) = outcome.failure {
        panic!("a false alarm:\n{}", failure.report);
    }
    println!("{} schedules, {:.2} s, {} states", outcome.schedules, outcome.seconds, outcome.states);
    found
}

/// Returns the trace of a schedule with exactly this fault.
pub(crate) fn trace(at: &str, fault: Fault) -> Trace {
    Trace {
        homeostat_trace: 1,
        simulation: String::new(),
        seed: 1,
        steps: Vec::new(),
        skipped: Vec::new(),
        deviations: vec![Deviation { at: at.to_owned(), fault }],
        oracle: String::new(),
        subject: String::new(),
        package: String::new(),
        test: String::new(),
        report: String::new(),
        run: homeostat_core::recorded_run::RecordedRun::default(),
    }
}

/// Checks that with exactly this fault, this oracle raises an alarm about the broken version, and none about the cured
/// version.
#[track_caller]
pub(crate) fn check_fault([broken, cured]: [Simulation; 2], at: &str, fault: &Fault, oracle: &str) {
    let found = broken.replay(&trace(at, fault.clone())).failure;
    let found = found.unwrap_or_else(|| panic!("{fault:?} at {at} does not reveal the bug"));
    assert_eq!(found.oracle, oracle, "{}", found.report);
    if let Some(failure) = cured.replay(&trace(at, fault.clone())).failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

/// Checks that without any fault, this oracle raises an alarm about the broken version, and none about the cured
/// version.
#[track_caller]
pub(crate) fn check_undisturbed([broken, cured]: [Simulation; 2], oracle: &str) {
    let few = Budget { schedules: 3, seconds: 3600 };
    let found = broken.budget(few).explore().failure.expect("the bug is found");
    assert_eq!(found.oracle, oracle, "{}", found.report);
    assert_eq!(found.trace.deviations, [], "{}", found.report);
    if let Some(failure) = cured.budget(few).explore().failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}

/// Returns simulations of the broken and the cured version of an operator that reconciles pages and owns ConfigMaps,
/// each with one page.
pub(crate) fn both<F>(reconcile: fn(Arc<Page>, Context<Page>, bool) -> F) -> [Simulation; 2]
where
    F: Future<Output = homeostat_runtime::Result<Action>> + Send + 'static,
{
    [false, true].map(|is_cured| {
        Simulation::new(move || {
            let pages = Controller::<Page>::new().owns::<ConfigMap>();
            operator().control(pages.reconcile(move |page, cx| reconcile(page, cx, is_cured)))
        })
        .given(page("home", PageSpec { text: "hello".into(), count: 1, is_public: true }))
    })
}
