//! Tests the queue against a simple model that remembers everything: thousands of random steps per seed, and after each
//! step the two must agree on which keys may run, the counts, and when the next timer fires.

use std::collections::BTreeMap;

use super::*;

const STEPS: usize = 4_000;
const KEYS: u64 = 12;
const PER_NAMESPACE: u32 = 2;

#[derive(Default)]
struct ModelKey {
    /// Whether it is triggered and allowed to run.
    is_ready: bool,
    running: Option<Run>,
    failing: Option<(Instant, bool)>,
    is_terminal: bool,
    timer: Option<Instant>,
}

struct Run {
    ticket: u32,
    again: Option<Urgency>,
    began: Instant,
}

impl ModelKey {
    fn trigger(&mut self, urgency: Urgency) {
        if let Some(run) = &mut self.running {
            run.again = run.again.max(Some(urgency));
            return;
        }
        let allowed = self.is_ready
            || urgency == Urgency::Edit
            || match &mut self.failing {
                _ if self.is_terminal => false,
                None => true,
                Some((_, early_used)) => urgency == Urgency::Event && !std::mem::replace(early_used, true),
            };
        if allowed {
            self.is_ready = true;
            self.timer = None;
        }
    }

    /// `until` is the time at which, according to the queue, the key is due again by itself.
    fn end(&mut self, outcome: Outcome, until: Option<Instant>, now: Instant) -> Option<Urgency> {
        let run = self.running.take().expect("the model ran it");
        self.timer = until;
        match outcome {
            Outcome::Failed => {
                let kept = self.failing.filter(|(deadline, _)| run.began < *deadline && now < *deadline);
                assert!(
                    kept.is_none_or(|(deadline, _)| Some(deadline) == until),
                    "an early failure moved the retry"
                );
                self.failing = Some(kept.unwrap_or((until.expect("a failure is retried"), false)));
                self.is_terminal = false;
            }
            Outcome::RetryAfter(_) => {
                self.failing = Some((until.expect("a failure is retried"), false));
                self.is_terminal = false;
            }
            Outcome::Terminal => {
                self.failing = None;
                self.is_terminal = true;
            }
            _ => {
                self.failing = None;
                self.is_terminal = false;
            }
        }
        run.again
    }
}

struct Model {
    queue: Queue,
    keys: BTreeMap<Key, ModelKey>,
    entropy: Entropy,
    now: Instant,
}

impl Model {
    fn add(&mut self) {
        let number = self.entropy.below(KEYS);
        let key = Key::new("", "things", &format!("n{}", number % 3), &number.to_string());
        let urgencies = [Urgency::Background, Urgency::Echo, Urgency::Event, Urgency::Edit];
        let urgency = urgencies[usize::try_from(self.entropy.below(4)).expect("below four")];
        self.queue.add(&key, Cause::Changed, urgency, self.now);
        self.keys.entry(key).or_default().trigger(urgency);
    }

    fn next(&mut self) {
        for model in self.keys.values_mut() {
            if model.timer.is_some_and(|at| at <= self.now) {
                model.timer = None;
                model.is_ready = true;
            }
        }
        let may_run =
            self.keys.iter().any(|(key, model)| model.is_ready && self.running(key) < PER_NAMESPACE);
        let Some(work) = self.queue.next(self.now) else {
            assert!(!may_run, "a key may run and the queue gave none");
            return;
        };
        assert!(self.running(&work.key) < PER_NAMESPACE, "the namespace is full");
        let model = self.keys.get_mut(&work.key).expect("it was added");
        assert!(model.is_ready && model.running.is_none(), "not ready, or running already");
        model.is_ready = false;
        model.running = Some(Run { ticket: work.ticket, again: None, began: self.now });
    }

    fn running(&self, key: &Key) -> u32 {
        let same = |other: &&Key| other.namespace() == key.namespace();
        let running = self.keys.iter().filter(|(_, model)| model.running.is_some()).map(|(key, _)| key);
        u32::try_from(running.filter(same).count()).expect("few keys")
    }

    fn done(&mut self) {
        let outcomes = [
            Outcome::AwaitChange,
            Outcome::Requeue(Duration::from_secs(3)),
            Outcome::Requeue(Duration::ZERO),
            Outcome::Failed,
            Outcome::Failed,
            Outcome::RetryAfter(Duration::from_secs(5)),
            Outcome::Terminal,
            Outcome::Gone,
        ];
        let outcome = outcomes[usize::try_from(self.entropy.below(8)).expect("below eight")];
        let Some((_, model)) = self.keys.iter_mut().find(|(_, model)| model.running.is_some()) else {
            return;
        };
        let ticket = model.running.as_ref().expect("just found").ticket;
        let until = self.queue.done(ticket, outcome, self.now).map(|delay| self.now + delay);
        let again = model.end(outcome, until, self.now);
        if let Some(urgency) = again {
            model.trigger(urgency);
        }
        if outcome == Outcome::Requeue(Duration::ZERO) {
            model.is_ready = true;
        }
    }

    fn agree(&self) {
        let count = |test: fn(&ModelKey) -> bool| self.keys.values().filter(|model| test(model)).count();
        let depth = self.queue.depth();
        assert_eq!(depth.ready, count(|model| model.is_ready));
        assert_eq!(depth.running, count(|model| model.running.is_some()));
        assert_eq!(depth.waiting, count(|model| model.timer.is_some()));
        assert_eq!(self.queue.deadline(), self.keys.values().filter_map(|model| model.timer).min());
    }
}

#[test]
fn the_queue_and_the_model_agree() {
    for seed in 0..40 {
        let entropy = Entropy::seeded(seed);
        let config = Config { per_namespace: Some(PER_NAMESPACE), ..Config::default() };
        let mut model = Model {
            queue: Queue::new(config, &Entropy::seeded(seed)),
            keys: BTreeMap::new(),
            entropy,
            now: Instant::now(),
        };
        for _ in 0..STEPS {
            match model.entropy.below(10) {
                0..4 => model.add(),
                4..7 => model.next(),
                7..9 => model.done(),
                _ => model.now += Duration::from_millis(model.entropy.below(2_000)),
            }
            model.agree();
        }
    }
}
