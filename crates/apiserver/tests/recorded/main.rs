//! Compares the server, step by step, with responses recorded from kube-apiserver v1.36.4.
//!
//! Each folder in `scenarios` is an area and a separate test here; `README.md` describes the files. To run one
//! scenario: `HOMEOSTAT_RECORDED=gc/foreground cargo test -p homeostat-apiserver --test recorded`; one area: its name
//! after `--`. A failure names the scenario, step and field, with the recorded and the actual value.
//!
//! **Invariant:** every scenario is run. Those that need kubectl are visibly skipped only if it is missing, and then
//! fail in CI.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fmt::Write as _;
use std::io::Write as _;

mod answers;
mod compare;
mod kubectl;
mod normalise;
mod paths;
mod run;
mod scenario;
mod texts;
mod versions;
mod wire;

use futures::StreamExt as _;

use run::{Outcome, Run};
use scenario::Scenario;
use wire::Target;

/// Limits the run to scenarios whose name (`area/name`) contains this.
const FILTER: &str = "HOMEOSTAT_RECORDED";
/// If set, differences in the text of messages are printed, too. They do not fail a scenario.
const SHOW_SOFT: &str = "HOMEOSTAT_RECORDED_MESSAGES";
/// The number of scenarios in an area that run at the same time: most of their time is spent waiting.
const SIDE_BY_SIDE: usize = 3;
/// The prefix of areas that run kubectl.
const KUBECTL_AREA: &str = "kubectl-";

macro_rules! areas {
    ($($function:ident $area:literal,)*) => {
        const AREAS: &[&str] = &[$($area),*];
        $(
            #[tokio::test]
            async fn $function() {
                check_area($area).await;
            }
        )*
    };
}

areas! {
    authz "authz",
    concurrency "concurrency",
    crd_lifecycle "crd-lifecycle",
    crd_schema "crd-schema",
    crud_core "crud-core",
    crud_cr "crud-cr",
    defaults "defaults",
    deletecollection "deletecollection",
    discovery "discovery",
    dryrun "dryrun",
    errors "errors",
    events "events",
    fieldvalidation "fieldvalidation",
    finalizers "finalizers",
    gc "gc",
    health "health",
    kubectl_apply "kubectl-apply",
    kubectl_auth "kubectl-auth",
    kubectl_delete "kubectl-delete",
    kubectl_describe "kubectl-describe",
    kubectl_discovery "kubectl-discovery",
    kubectl_edit "kubectl-edit",
    kubectl_errors "kubectl-errors",
    kubectl_events "kubectl-events",
    kubectl_get "kubectl-get",
    kubectl_patch "kubectl-patch",
    kubectl_wait "kubectl-wait",
    leases "leases",
    list "list",
    metadata "metadata",
    names "names",
    namespaces "namespaces",
    negotiation "negotiation",
    patch_json "patch-json",
    patch_merge "patch-merge",
    patch_strategic "patch-strategic",
    representation "representation",
    ssa "ssa",
    subresources "subresources",
    watch "watch",
}

/// Runs all scenarios of an area on one server.
async fn check_area(area: &str) {
    let filter = std::env::var(FILTER).unwrap_or_default();
    let mut scenarios = scenario::load_area(area);
    scenarios.retain(|scenario| scenario.full_name().contains(&filter));
    if std::env::var_os(wire::KUBECONFIG).is_some() {
        for scenario in scenarios.extract_if(.., |scenario| scenario.alone) {
            say(&format!("SKIPPED: {}: controllers may run on this server\n", scenario.full_name()));
        }
    }
    if scenarios.is_empty() || must_skip(area) {
        return;
    }
    let target = Target::start().await;
    let runs = scenarios
        .iter()
        .map(|scenario| async { (scenario.full_name(), Run::new(scenario, &target).execute().await) });
    let outcomes: Vec<(String, Outcome)> = futures::stream::iter(runs).buffered(SIDE_BY_SIDE).collect().await;
    if std::env::var_os(SHOW_SOFT).is_some() {
        say(&describe(&outcomes, |outcome| &outcome.soft));
    }
    let failed = outcomes.iter().filter(|(_, outcome)| !outcome.failures.is_empty()).count();
    let report = describe(&outcomes, |outcome| &outcome.failures);
    assert!(failed == 0, "{failed} of {} scenarios differ from kube-apiserver:\n{report}", outcomes.len());
}

fn describe(outcomes: &[(String, Outcome)], kind: impl Fn(&Outcome) -> &Vec<(String, String)>) -> String {
    let mut report = String::new();
    for (name, outcome) in outcomes {
        for (step, what) in kind(outcome) {
            writeln!(report, "  scenario {name}, step {step}: {what}").unwrap();
        }
    }
    report
}

/// Reports that kubectl is missing, if it is, and fails where it is required.
fn must_skip(area: &str) -> bool {
    area.starts_with(KUBECTL_AREA)
        && !homeostat::testing::has_tool("kubectl", "https://kubernetes.io/docs/tasks/tools")
}

/// Writes to standard error, bypassing the capture of test output.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[test]
fn every_area_is_a_test() {
    let mut folders: Vec<String> = std::fs::read_dir(scenario::folder())
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, AREAS, "each folder of scenarios is a line of `areas!`");
    let scenarios: Vec<Scenario> = AREAS.iter().flat_map(|area| scenario::load_area(area)).collect();
    assert!(scenarios.len() >= 299, "scenarios were lost: {} are left", scenarios.len());
}
