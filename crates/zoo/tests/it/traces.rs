//! Schedules in which cured reconcilers once failed because of a bug in the runtime. They are replayed, not explored.

use homeostat::sim::Trace;
use homeostat_zoo::ANIMALS;
use serde_json::{Value, json};

#[track_caller]
fn check(name: &str, deviations: &Value) {
    let animal = ANIMALS.iter().find(|animal| animal.name == name).expect("an animal of this name");
    let trace = json!({
        "homeostatTrace": 1, "simulation": name, "seed": 1, "steps": [], "skipped": [], "deviations": deviations,
        "oracle": "", "subject": "",
    });
    let trace: Trace = serde_json::from_value(trace).expect("a trace");
    if let Some(failure) = (animal.cured)().replay(&trace).failure {
        panic!("{}", failure.report);
    }
}

/// The finalizer of a new object was removed after the cleanup of an older one with the same name.
#[test]
fn the_finalizer_of_a_namesake_stays() {
    check(
        "namesake",
        &json!([
            {"at": "at rest after create databases.zoo.homeostat.dev default/orders", "do": "restart-back", "changes": 8},
            {"at": "list databases.zoo.homeostat.dev #2", "do": "step-first"},
        ]),
    );
}
