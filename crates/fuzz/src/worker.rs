//! The loop of one target, in a process of its own: mutate an input, try it, and keep it if its outcome is new.
//!
//! It reports a line of JSON per second on standard output, and the last line says how it ended. Before each try the
//! input is written to a file, so that it is known even if the process is aborted.
//!
//! **Invariant:** the n-th input of a target depends only on the seed, not on the time of day or the machine.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use homeostat_core::{Clock, Entropy};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::input_runner::{InputRunner, hash_of_feature, processor_time, reason_of, remember_panics};
use crate::mutate::{INPUT_BYTES_MAX, Mutator};
use crate::shrink::shrink;
use crate::target::{TargetEntry, Violation};

/// The address space of a worker: beyond it an allocation aborts the process.
const ADDRESS_SPACE_MAX: u64 = 8 << 30;
/// The stack size of the server's request threads, so that an input that overflows theirs overflows this one as well.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 2 << 20 };
/// The maximum number of inputs tried to shrink a failing one.
const SHRINKING_TRIES: usize = 5000;
/// How much processor time one input may take before the process gives up on it.
const ENDLESS: Duration = Duration::from_secs(20);
/// One input in this many is mutated from any kept input, the others from the newest quarter.
const ANY_KEPT: u64 = 3;
/// How many inputs are tried between two checks of the clock.
const INPUTS_PER_LOOK: u64 = 16;
/// The number of an input that is being tried, or 0.
static CURRENT: AtomicU64 = AtomicU64::new(0);

/// The work of one worker.
pub(crate) struct WorkerTask {
    pub(crate) target: &'static TargetEntry,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Where the current input is written.
    pub(crate) current: std::path::PathBuf,
}

/// Does the work; returns whether all properties held.
pub(crate) fn run_worker(task: WorkerTask) -> bool {
    prepare_process();
    std::thread::spawn(watch_for_endless_input);
    on_small_stack(move || Worker::new(&task).run())
}

/// Tries one saved input; returns what it violates.
pub(crate) fn replay(target: &'static TargetEntry, input: Value) -> Result<(), Violation> {
    prepare_process();
    std::thread::spawn(watch_for_endless_input);
    on_small_stack(move || {
        CURRENT.store(1, Ordering::Relaxed);
        InputRunner::new((target.make)()).run(&input).map(drop)
    })
}

fn prepare_process() {
    remember_panics();
    let limit = Some(ADDRESS_SPACE_MAX);
    let _ = setrlimit(Resource::As, Rlimit { current: limit, maximum: limit });
}

fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread starts").join().expect("panics of targets are caught")
}

/// Ends the process when one input takes far too long.
fn watch_for_endless_input() {
    let (mut seen, mut since) = (0, processor_time());
    loop {
        wait(Duration::from_millis(500));
        let current = CURRENT.load(Ordering::Relaxed);
        if current != seen {
            (seen, since) = (current, processor_time());
        } else if current > 0 && processor_time().saturating_sub(since) > ENDLESS {
            std::process::abort();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread outside of any runtime waits for the machine's time")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

struct Worker {
    runner: InputRunner,
    entropy: Entropy,
    words: Vec<String>,
    seeds: Vec<Value>,
    kept: Vec<Value>,
    features: HashSet<u64>,
    inputs: u64,
    seconds: u64,
    current: File,
}

impl Worker {
    fn new(task: &WorkerTask) -> Self {
        let corpus = Corpus::load();
        let runner = InputRunner::new((task.target.make)());
        let seeds = runner.target().seeds(&corpus);
        let own = runner.target().words();
        // Repeat the target's own words, so that they are as frequent as those of the corpus.
        let times = corpus.words.len() / own.len().max(1) + 1;
        let own = own.iter().cycle().take(own.len() * times).map(|&word| word.to_owned());
        let words = own.chain(corpus.words).collect();
        let current = File::create(&task.current).expect("the scratch folder is writable");
        let entropy = Entropy::seeded(task.seed);
        let (kept, features) = (Vec::new(), HashSet::new());
        Self { runner, entropy, words, seeds, kept, features, inputs: 0, seconds: task.seconds, current }
    }

    fn run(mut self) -> bool {
        let clock = Clock::system();
        let (started, mut reported) = (clock.instant(), 0);
        let mut seeds = std::mem::take(&mut self.seeds).into_iter();
        loop {
            let input = seeds.next().unwrap_or_else(|| self.next_input());
            if let Err(violation) = self.try_input(&input) {
                self.report_violation(&input, &violation);
                return false;
            }
            if !self.inputs.is_multiple_of(INPUTS_PER_LOOK) {
                continue;
            }
            let elapsed = clock.since(started).as_secs();
            if elapsed >= self.seconds {
                self.report(&json!({"ended": true}));
                return true;
            }
            if elapsed > reported {
                reported = elapsed;
                self.report(&json!({}));
            }
        }
    }

    fn next_input(&self) -> Value {
        let mutator = Mutator { entropy: &self.entropy, words: &self.words };
        if self.kept.is_empty() {
            return mutator.mutate(&json!({}), &json!({}));
        }
        let count = self.kept.len();
        // The inputs that were kept last have the most recent new outcomes.
        let newest = if self.entropy.below(ANY_KEPT) == 0 { count } else { count.div_ceil(4) };
        let parent = &self.kept[count - 1 - mutator.below_size(newest)];
        mutator.mutate(parent, &self.kept[mutator.below_size(count)])
    }

    fn try_input(&mut self, input: &Value) -> Result<(), Violation> {
        self.inputs += 1;
        CURRENT.store(self.inputs, Ordering::Relaxed);
        write_current(&self.current, input);
        let features = self.runner.run(input)?;
        let hashes = features.iter().map(|feature| hash_of_feature(feature));
        let news = hashes.filter(|hash| self.features.insert(*hash)).count();
        if news > 0 && input.to_string().len() <= INPUT_BYTES_MAX {
            self.kept.push(input.clone());
        }
        Ok(())
    }

    fn report_violation(&mut self, input: &Value, violation: &str) {
        let reason = reason_of(violation).to_owned();
        let Self { runner, current, inputs, .. } = self;
        let smallest = shrink(input, SHRINKING_TRIES, |candidate| {
            *inputs += 1;
            CURRENT.store(*inputs, Ordering::Relaxed);
            write_current(current, candidate);
            matches!(runner.run(candidate), Err(violation) if reason_of(&violation) == reason)
        });
        let violation = self.runner.run(&smallest).err().unwrap_or_else(|| violation.to_owned());
        self.report(&json!({"violation": violation, "input": smallest}));
    }

    fn report(&self, more: &Value) {
        let mut line =
            json!({"inputs": self.inputs, "kept": self.kept.len(), "outcomes": self.features.len()});
        for (name, value) in more.as_object().into_iter().flatten() {
            line[name] = value.clone();
        }
        // If this fails, the supervisor is gone, and this process ends soon.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// Overwrites the file from the start and ends with a newline; the tail of a longer earlier input may remain after it.
fn write_current(file: &File, input: &Value) {
    let _ = file.write_all_at(format!("{input}\n").as_bytes(), 0);
}

/// Reads the input that a worker was trying when it ended.
pub(crate) fn read_current(file: &Path) -> Option<Value> {
    let text = std::fs::read(file).ok()?;
    serde_json::from_slice(text.split(|byte| *byte == b'\n').next()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::target_named;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_the_last_one_is_known() {
        let run = |seed| {
            let scratch = tempfile::tempdir().unwrap();
            let current = scratch.path().join("current");
            let target = target_named("selectors").unwrap();
            let mut worker = Worker::new(&WorkerTask { target, seconds: 0, seed, current: current.clone() });
            for input in std::mem::take(&mut worker.seeds) {
                worker.try_input(&input).unwrap();
            }
            let inputs: Vec<_> = (0..200)
                .map(|_| {
                    let input = worker.next_input();
                    worker.try_input(&input).unwrap();
                    input
                })
                .collect();
            assert_eq!(read_current(&current).as_ref(), inputs.last());
            inputs
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
