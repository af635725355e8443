//! Runs a batch of schedules on all cores. The results are in the order of the plans.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use homeostat_runtime::kind::DecodedObjects;

use super::{Explorer, Judged};
use crate::trace::Deviation;

/// The variable that sets the number of threads.
const CORES: &str = "HOMEOSTAT_SIM_CORES";

fn cores() -> usize {
    let told = std::env::var(CORES).ok().and_then(|text| text.parse().ok());
    told.unwrap_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Runs and judges the schedules of a batch.
pub(super) fn run_batch(explorer: &Explorer<'_>, batch: Vec<Vec<Deviation>>) -> Vec<Judged> {
    let cores = cores().min(batch.len());
    if cores <= 1 {
        let judge = || batch.into_iter().map(|plan| explorer.judge_one(plan)).collect();
        return with_decoded_objects(explorer, judge);
    }
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                with_decoded_objects(explorer, || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(plan) = batch.get(at) else { return };
                        let judged = explorer.judge_one(plan.clone());
                        results.lock().expect("no worker panics while it holds the lock").push((at, judged));
                    }
                });
            });
        }
    });
    let mut results = results.into_inner().expect("no worker panics while it holds the lock");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, judged)| judged).collect()
}

/// Runs schedules on this thread with objects that earlier batches decoded.
fn with_decoded_objects<T>(explorer: &Explorer<'_>, run: impl FnOnce() -> T) -> T {
    let unused = || explorer.decoded.lock().unwrap_or_else(PoisonError::into_inner);
    let mut decoded: DecodedObjects = unused().pop().unwrap_or_default();
    let result = decoded.share_within(run);
    unused().push(decoded);
    result
}
