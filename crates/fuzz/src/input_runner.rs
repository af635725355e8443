//! Tries one input: records its outcome, whether it panicked, and how much processor time and memory it used.
//!
//! Processor time is that of the whole process, because parts of the system run in threads of their own. Memory is
//! measured only after slow inputs: touching much memory takes time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::mutate::INPUT_BYTES_MAX;
use crate::target::{Features, Target, Violation};

/// The maximum processor time for an input of at most [`INPUT_BYTES_MAX`] bytes.
const PROCESSOR_TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 1 });
/// The maximum growth of the process's memory by an input: an object may take 24 MiB, and there may be several copies.
const MEMORY_MAX: u64 = 256 * 1024 * 1024;
/// The minimum time that an input needs to touch that much memory.
const MEMORY_SUSPECT: Duration = Duration::from_millis(5);
/// The number of characters of a feature that are hashed.
const FEATURE_CHARS_MAX: usize = 100;

/// The location and the message of the last panic.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Remembers panics instead of printing them.
pub(crate) fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or_default();
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = format!("panicked at {place}: {text}");
    }));
}

fn last_panic() -> String {
    LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Tries inputs.
pub(crate) struct InputRunner {
    target: Box<dyn Target>,
    /// The process' memory before the first input.
    base: u64,
}

impl InputRunner {
    pub(crate) fn new(target: Box<dyn Target>) -> Self {
        Self { target, base: peak_memory() }
    }

    pub(crate) fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// Tries an input. An input that takes too long is tried again, to rule out a coincidence.
    pub(crate) fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (outcome, time) = self.run_once(input);
        if outcome.is_ok() && time > PROCESSOR_TIME_MAX {
            let (_, again) = self.run_once(input);
            let time = time.min(again);
            if time > PROCESSOR_TIME_MAX {
                return Err(format!("took {} ms of processor time", time.as_millis()));
            }
        }
        if outcome.is_ok() && time > MEMORY_SUSPECT {
            let grown = peak_memory().saturating_sub(self.base);
            if grown > MEMORY_MAX {
                return Err(format!("took more than {} MiB of memory", MEMORY_MAX >> 20));
            }
        }
        outcome
    }

    fn run_once(&mut self, input: &Value) -> (Result<Features, Violation>, Duration) {
        debug_assert!(input.to_string().len() <= 16 * INPUT_BYTES_MAX, "inputs are bounded");
        let before = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.target.run(input)));
        let time = processor_time().saturating_sub(before);
        (outcome.unwrap_or_else(|_| Err(last_panic())), time)
    }
}

/// Returns the processor time that the process has used.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the peak memory of the process, in bytes; 0 if it is not known.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Returns the hash of a feature without digits and quoted parts.
pub(crate) fn hash_of_feature(feature: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut is_quoted = false;
    for letter in feature.chars().take(FEATURE_CHARS_MAX) {
        is_quoted ^= letter == '"';
        if !is_quoted && !letter.is_ascii_digit() {
            letter.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Returns the violation without what differs between inputs that fail for the same reason.
pub(crate) fn reason_of(violation: &str) -> &str {
    let line = violation.lines().next().unwrap_or_default();
    line.split_once(": ").map_or(line, |(reason, _)| reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::corpus::Corpus;

    struct Panics;

    impl Target for Panics {
        fn seeds(&self, _: &Corpus) -> Vec<Value> {
            Vec::new()
        }

        fn run(&mut self, input: &Value) -> Result<Features, Violation> {
            assert!(input.is_null(), "no null");
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_panic_is_a_violation() {
        let mut runner = InputRunner::new(Box::new(Panics));
        assert_eq!(runner.run(&json!(null)), Ok(Vec::new()));
        assert!(runner.run(&json!(1)).is_err());
    }

    #[test]
    fn names_and_numbers_do_not_change_a_feature() {
        let hash = hash_of_feature;
        assert_eq!(hash("field \"a\" at 17"), hash("field \"b.c\" at 4"));
        assert_ne!(hash("field \"a\""), hash("value \"a\""));
        assert_eq!(reason_of("not the same: {}\n more"), "not the same");
    }
}
