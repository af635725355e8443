//! The same seed gives the same schedule, here and in another process; a trace replays.

use std::process::Command;

use homeostat_sim::{Deviation, Fault, Simulation};

use crate::kinds::{Page, PageSpec, page};
use crate::pages::simulation;

/// Set in the child process, which prints its hashes and asserts nothing.
const CHILD: &str = "HOMEOSTAT_SIM_CHILD";

fn plans() -> Vec<Vec<Deviation>> {
    let at = |at: &str, fault| Deviation { at: at.to_owned(), fault };
    vec![
        Vec::new(),
        vec![at("patch configmaps default/home", Fault::CrashAfter)],
        vec![
            at("patch configmaps default/home", Fault::LoseAnswer),
            at("at rest after edit pages.demo.dev default/home", Fault::RestartBeforeStep { step: 1 }),
        ],
    ]
}

fn hashes() -> Vec<u64> {
    plans().iter().map(|plan| simulation().hash_of(plan)).collect()
}

/// Runs one test of this program in another process, with these variables.
fn run_in_child(test: &str, variables: &[(&str, &str)]) -> std::process::Output {
    let program = std::env::current_exe().expect("a test is a program");
    Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("it starts")
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let here = hashes();
    println!("hashes {here:?}");
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    assert_eq!(here, hashes());
    let child = run_in_child("repeat::the_same_seed_gives_the_same_schedule", &[]);
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(told.contains(&format!("hashes {here:?}")), "{here:?}\n{told}");
}

/// With a different number of cores, the same schedules are explored, and each has the same outcome.
#[test]
fn the_number_of_cores_does_not_matter() {
    let few = homeostat_sim::Budget { schedules: 140, seconds: 3600 };
    if std::env::var_os(CHILD).is_some() {
        println!("hash {}", simulation().budget(few).explore().hash);
        return;
    }
    let hashes = ["1", "3"].map(|cores| {
        let test = "repeat::the_number_of_cores_does_not_matter";
        let child = run_in_child(test, &[("HOMEOSTAT_SIM_CORES", cores)]);
        let told = String::from_utf8_lossy(&child.stdout).into_owned();
        let hash = told.lines().find_map(|line| Some(line.split_once("hash ")?.1.to_owned()));
        hash.unwrap_or_else(|| panic!("no hash: {told}"))
    });
    assert_eq!(hashes[0], hashes[1]);
}

fn failing() -> Simulation {
    // Somebody deletes the page's child, and nothing recreates it, because the controller does not watch it.
    use homeostat_runtime::{Action, Controller};
    Simulation::new(|| {
        let pages = Controller::<Page>::new().reconcile(|page, cx| async move {
            cx.apply_unowned(crate::kinds::child(&page, "child", "text")).await?;
            Ok(Action::await_change())
        });
        crate::kinds::operator().control(pages)
    })
    .given(page("home", PageSpec::default()))
    .named("replayed")
    .budget(crate::kinds::BUDGET)
}

#[test]
#[should_panic = "the trace no longer fits: these faults are not reached: \"create secrets default/key\" (CRASH before"]
fn a_trace_whose_fault_is_not_reached_cannot_be_replayed() {
    let mut trace = failing().explore().failure.expect("it fails").trace;
    trace.deviations =
        vec![Deviation { at: "create secrets default/key".to_owned(), fault: Fault::CrashBefore }];
    let outcome = failing().replay(&trace);
    panic!("it was replayed: {:?}", outcome.failure.map(|failure| failure.text));
}

#[test]
fn a_trace_replays_to_the_same_failure() {
    if std::env::var_os(CHILD).is_some() {
        failing().check();
        return;
    }
    let found = failing().explore().failure.expect("it fails");
    let file = found.file.clone().expect("the trace was written");
    let trace = homeostat_sim::Trace::load(&file).expect("it reads back");
    assert_eq!(trace, found.trace);
    assert!(!trace.run.changes.is_empty(), "the run is saved as well");
    let decisive = trace.run.lines.iter().filter(|line| line.is_decisive).count();
    assert_eq!(decisive, usize::from(!trace.deviations.is_empty()));
    let replayed = failing().replay(&trace).failure.expect("it fails again");
    assert_eq!((&replayed.oracle, &replayed.text), (&found.oracle, &found.text));

    let file = file.display().to_string();
    let child = run_in_child("repeat::a_trace_replays_to_the_same_failure", &[("HOMEOSTAT_REPLAY", &file)]);
    assert!(!child.status.success());
    let told = [child.stdout, child.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(&found.text) && told.contains("replayed"), "{told}");
}
