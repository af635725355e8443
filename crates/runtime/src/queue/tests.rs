//! Tests what the queue promises, with one test for each promise. `random_model_test` checks the promises together
//! under random use.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A queue, a time and the names of keys, which every test needs.
struct ControllerRunner {
    queue: Queue,
    now: Instant,
}

impl ControllerRunner {
    fn new(config: Config) -> Self {
        Self { queue: Queue::new(config, &Entropy::seeded(1)), now: Instant::now() }
    }

    fn plain() -> Self {
        Self::new(Config { backoff: Backoff::default().jitter(0.0), ..Config::default() })
    }

    fn add(&mut self, name: &str, urgency: Urgency) {
        self.queue.add(&key(name), Cause::Changed, urgency, self.now);
    }

    fn next(&mut self) -> Option<DispatchedKey> {
        self.queue.next(self.now)
    }

    /// Returns the names that run when every run settles at once.
    fn drain(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(work) = self.next() {
            self.done(&work, Outcome::AwaitChange);
            names.push(work.key.name().to_owned());
        }
        names
    }

    fn done(&mut self, work: &DispatchedKey, outcome: Outcome) -> Option<Duration> {
        self.queue.done(work.ticket, outcome, self.now)
    }

    /// Runs the only ready key with this outcome and returns the seconds until it is due again.
    #[track_caller]
    fn run(&mut self, outcome: Outcome) -> Option<u64> {
        let work = self.next().expect("a key is ready");
        self.done(&work, outcome).map(|delay| delay.as_secs())
    }

    fn pass(&mut self, seconds: u64) {
        self.now += SECOND * u32::try_from(seconds).expect("a short test");
    }
}

/// Returns the key for `namespace/name`, or for a name in the namespace `a`.
fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("a", text));
    Key::new("demo.dev", "things", namespace, name)
}

#[test]
fn triggers_merge_and_causes_add_up() {
    let mut bench = ControllerRunner::plain();
    for cause in [Cause::Created, Cause::Edited, Cause::Created] {
        bench.queue.add(&key("x"), cause, Urgency::Edit, bench.now);
    }
    let work = bench.next().expect("ready");
    assert_eq!(work.causes, [Cause::Created, Cause::Edited]);
    assert!(bench.next().is_none());
}

#[test]
fn a_key_runs_once_at_a_time_and_again_when_dirtied() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    let work = bench.next().expect("ready");
    bench.add("x", Urgency::Event);
    assert!(bench.next().is_none(), "it is running");
    bench.done(&work, Outcome::AwaitChange);
    assert_eq!(bench.drain(), ["x"]);
}

#[test]
fn fresh_goes_before_background_until_background_has_aged() {
    let mut bench = ControllerRunner::plain();
    bench.add("listed", Urgency::Background);
    bench.add("fresh", Urgency::Event);
    assert_eq!(bench.drain(), ["fresh", "listed"]);
    bench.add("listed", Urgency::Background);
    bench.pass(31);
    bench.add("fresh", Urgency::Event);
    assert_eq!(bench.drain(), ["listed", "fresh"]);
}

#[test]
fn a_long_list_that_has_aged_does_not_hold_up_what_is_fresh() {
    let mut bench = ControllerRunner::plain();
    let listed: Vec<String> = (0..100).map(|at| format!("listed-{at}")).collect();
    for name in &listed {
        bench.add(name, Urgency::Background);
    }
    bench.pass(31);
    for name in ["one", "two", "three", "four"] {
        bench.add(name, Urgency::Event);
    }
    let order = bench.drain();
    assert_eq!(order[..6], ["listed-0", "one", "two", "three", "listed-1", "four"]);
    assert_eq!(order.len(), 104, "and nothing is lost");
}

#[test]
fn a_background_key_is_promoted_by_a_fresh_trigger() {
    let mut bench = ControllerRunner::plain();
    for name in ["a", "b", "c"] {
        bench.add(name, Urgency::Background);
    }
    bench.add("c", Urgency::Event);
    assert_eq!(bench.drain(), ["c", "a", "b"]);
}

#[test]
fn namespaces_take_turns() {
    let mut bench = ControllerRunner::plain();
    for name in ["big/1", "big/2", "big/3", "small/4"] {
        bench.add(name, Urgency::Event);
    }
    assert_eq!(bench.drain(), ["1", "4", "2", "3"]);
}

#[test]
fn a_namespace_stays_below_its_limit() {
    let mut bench = ControllerRunner::new(Config { per_namespace: Some(1), ..Config::default() });
    for name in ["big/1", "big/2", "small/3"] {
        bench.add(name, Urgency::Event);
    }
    let first = bench.next().expect("big/1");
    assert_eq!(bench.next().expect("small/3").key.name(), "3");
    assert!(bench.next().is_none(), "big is full");
    bench.done(&first, Outcome::AwaitChange);
    assert_eq!(bench.next().expect("big has room").key.name(), "2");
}

#[test]
fn failures_back_off_and_success_resets() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    let mut delays = Vec::new();
    for _ in 0..10 {
        let seconds = bench.run(Outcome::Failed).expect("a failure is retried");
        assert!(bench.next().is_none(), "not before its time");
        bench.pass(seconds);
        delays.push(seconds);
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!(bench.run(Outcome::AwaitChange), None);
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::Failed), Some(1));
}

#[test]
fn backoff_is_not_spent_by_other_triggers() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    bench.run(Outcome::Failed);
    bench.pass(1);
    assert_eq!(bench.run(Outcome::Failed), Some(2));
    for urgency in [Urgency::Background, Urgency::Echo] {
        bench.add("x", urgency);
        assert!(bench.next().is_none(), "{urgency:?} waits with the retry");
    }
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::Failed), Some(2), "one early run, the schedule untouched");
    bench.add("x", Urgency::Event);
    assert!(bench.next().is_none(), "and only one");
    bench.pass(2);
    assert_eq!(bench.run(Outcome::Failed), Some(4), "the early run did not count");
}

#[test]
fn an_edit_overrides_backoff() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    bench.run(Outcome::Failed);
    bench.add("x", Urgency::Edit);
    assert_eq!(bench.run(Outcome::Failed), Some(1), "failing again keeps the schedule");
    bench.add("x", Urgency::Edit);
    assert_eq!(bench.run(Outcome::AwaitChange), None);
    bench.pass(10);
    assert!(bench.next().is_none(), "the cured key has no retry left");
}

#[test]
fn a_terminal_fault_waits_for_an_edit() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::Terminal), None);
    for urgency in [Urgency::Background, Urgency::Echo, Urgency::Event] {
        bench.add("x", urgency);
        assert!(bench.next().is_none(), "{urgency:?}");
    }
    bench.add("x", Urgency::Edit);
    assert_eq!(bench.next().expect("edited").failures, 1);
}

#[test]
fn retry_after_sets_its_own_time() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::RetryAfter(SECOND * 20)), Some(20));
    bench.pass(20);
    assert_eq!(bench.next().expect("due").causes, [Cause::Retried]);
}

#[test]
fn requeue_comes_back_at_its_time_or_on_a_change() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::Requeue(SECOND * 300)), Some(300));
    bench.pass(299);
    assert!(bench.next().is_none());
    assert_eq!(bench.queue.deadline(), Some(bench.now + SECOND));
    bench.pass(1);
    let work = bench.next().expect("due");
    assert_eq!(work.causes, [Cause::Requeued]);
    bench.done(&work, Outcome::Requeue(SECOND * 300));
    bench.add("x", Urgency::Event);
    assert_eq!(bench.run(Outcome::AwaitChange), None);
    assert_eq!(bench.queue.deadline(), None, "the newer outcome replaced the older");
}

#[test]
fn requeue_now_waits_behind_the_others() {
    let mut bench = ControllerRunner::plain();
    bench.add("x", Urgency::Event);
    bench.add("y", Urgency::Event);
    bench.run(Outcome::Requeue(Duration::ZERO));
    assert_eq!(bench.drain(), ["y", "x"]);
}

#[test]
fn resync_comes_within_its_period_and_in_the_background() {
    let mut bench = ControllerRunner::new(Config { resync: Some(SECOND * 100), ..Config::default() });
    bench.add("x", Urgency::Event);
    let after = bench.run(Outcome::AwaitChange).expect("a resync is planned");
    assert!((80..=100).contains(&after), "{after}");
    bench.pass(100);
    bench.add("fresh", Urgency::Event);
    assert_eq!(bench.next().expect("ready").causes, [Cause::Changed]);
    assert_eq!(bench.next().expect("ready").causes, [Cause::Resync]);
}

#[test]
fn a_gone_or_settled_key_is_forgotten() {
    let mut bench = ControllerRunner::plain();
    for outcome in [Outcome::AwaitChange, Outcome::Gone] {
        bench.add("x", Urgency::Event);
        bench.run(Outcome::Failed);
        bench.add("x", Urgency::Edit);
        bench.run(outcome);
        assert_eq!(bench.queue.depth(), QueueCounts::default());
    }
}

#[test]
fn a_retry_can_be_brought_forward_but_nothing_else() {
    let mut bench = ControllerRunner::plain();
    for name in ["failed", "terminal", "later"] {
        bench.add(name, Urgency::Event);
    }
    assert_eq!(bench.run(Outcome::RetryAfter(SECOND * 60)), Some(60));
    assert_eq!(bench.run(Outcome::Terminal), None);
    assert_eq!(bench.run(Outcome::Requeue(SECOND * 60)), Some(60));
    for name in ["failed", "terminal", "later", "unknown"] {
        bench.queue.hasten(&key(name), SECOND * 2, bench.now);
    }
    bench.pass(2);
    let work = bench.next().expect("it is due");
    assert_eq!((work.key.name(), work.failures), ("failed", 1));
    assert!(bench.next().is_none());
    bench.done(&work, Outcome::AwaitChange);
    bench.pass(57);
    assert!(bench.next().is_none(), "its old time is forgotten");
    bench.pass(1);
    assert_eq!(bench.drain(), ["later"]);
}
