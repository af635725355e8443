//! Decides what runs next, without I/O: given the handlers, the record, the object's state and the time, returns the
//! handler to call now or the time to check again. All decisions are made here; the other modules call handlers and
//! record results.
//!
//! These are the rules, which the guide repeats for users:
//! - `create` runs once for each object, the first time its filters match; `resume` once for each process;
//! - `update` runs when the state differs from the one it last finished with. If there is none yet, it starts from the
//!   state that the first successful handler saw. A handler that is added to the program later has not finished with
//!   any state, so it runs;
//! - `field` runs when the value differs from the one it last finished with; until its first call, absent and empty are
//!   the same;
//! - updates wait until creation has finished; when the object is being deleted, only `delete` runs;
//! - a failed handler waits for its backoff; one that gave up counts as finished. Both last only until the state
//!   changes again.

use jiff::Timestamp;
use serde_json::Value;

use super::authored_state::Fingerprint;
use super::record::{FinishedWith, HandlerRecord};
use super::timer::{Phase, Schedule};

/// The purpose of a handler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    Resume,
    Create,
    Update,
    Field,
    Delete,
    Timer(Schedule),
}

impl Role {
    /// Returns whether its progress is recorded with the object rather than only in this process.
    pub(super) fn is_durable(self) -> bool {
        !matches!(self, Self::Resume | Self::Timer(_))
    }
}

/// A handler whose filters match the object.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    /// Its index among the declared handlers.
    pub(super) index: usize,
    pub(super) id: &'a str,
    pub(super) role: Role,
    /// The state to handle.
    pub(super) at: Fingerprint,
    /// The current value of the field that it follows.
    pub(super) value: Option<Value>,
}

/// The facts about the object that decide what runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgendaInput {
    pub(super) now: Timestamp,
    pub(super) is_dying: bool,
    /// Whether this process has taken over the object from another one.
    pub(super) is_resuming: bool,
    /// Whether the object existed before this process.
    pub(super) is_inherited: bool,
    pub(super) created: Timestamp,
    /// When the object last changed.
    pub(super) unchanged: Timestamp,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Call the handler at this index.
    Run(usize),
    /// Record this state as the one that updates start from.
    Adopt,
    /// Do nothing until this time or until a change.
    Rest(Option<Timestamp>),
}

/// The progress of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandlerProgress {
    Due,
    Waits(Timestamp),
    Through,
}

/// The progress recorded for the object, and the progress recorded in this process.
#[derive(Clone, Copy)]
pub(super) struct KnownRecords<'a> {
    pub(super) record: &'a HandlerRecord,
    pub(super) in_process: &'a HandlerRecord,
}

/// Returns the next thing to do.
pub(super) fn next(candidates: &[Candidate<'_>], known: KnownRecords<'_>, view: &AgendaInput) -> Step {
    let is_creating = candidates.iter().any(|candidate| {
        candidate.role == Role::Create && progress_of(candidate, known, view) != HandlerProgress::Through
    });
    let mut wake: Option<Timestamp> = None;
    for rank in 0..=RANK_LAST {
        for candidate in candidates.iter().filter(|candidate| rank_of(candidate.role) == rank) {
            if !is_eligible(candidate.role, view, is_creating) {
                continue;
            }
            match progress_of(candidate, known, view) {
                HandlerProgress::Due => return Step::Run(candidate.index),
                HandlerProgress::Waits(until) => wake = Some(wake.map_or(until, |wake| wake.min(until))),
                HandlerProgress::Through => {}
            }
        }
    }
    let has_updates = candidates.iter().any(|candidate| candidate.role == Role::Update);
    if has_updates && known.record.is_fresh() && !is_creating && !view.is_dying {
        return Step::Adopt;
    }
    Step::Rest(wake)
}

/// Returns whether anything remains to be done for this state of the object, now or after a backoff. Ticks of timers do
/// not count.
pub(super) fn is_pending(candidates: &[Candidate<'_>], known: KnownRecords<'_>, view: &AgendaInput) -> bool {
    let is_lasting = |candidate: &&Candidate<'_>| !matches!(candidate.role, Role::Timer(_) | Role::Delete);
    candidates.iter().filter(is_lasting).any(|candidate| {
        is_eligible(candidate.role, view, false)
            && progress_of(candidate, known, view) != HandlerProgress::Through
    })
}

/// Returns whether an object that this process sees for the first time was handled before.
pub(super) fn is_resumption(
    candidates: &[Candidate<'_>],
    record: &HandlerRecord,
    is_inherited: bool,
) -> bool {
    let is_creation = candidates.iter().any(|candidate| candidate.role == Role::Create) && record.is_fresh();
    (is_inherited || !record.is_fresh()) && !is_creation
}

const RANK_LAST: u8 = 3;

fn rank_of(role: Role) -> u8 {
    match role {
        Role::Resume => 0,
        Role::Create => 1,
        Role::Update | Role::Field | Role::Delete => 2,
        Role::Timer(_) => RANK_LAST,
    }
}

fn is_eligible(role: Role, view: &AgendaInput, is_creating: bool) -> bool {
    match role {
        Role::Delete => view.is_dying,
        _ if view.is_dying => false,
        Role::Update | Role::Field => !is_creating,
        Role::Resume => view.is_resuming,
        Role::Create | Role::Timer(_) => true,
    }
}

fn progress_of(candidate: &Candidate<'_>, known: KnownRecords<'_>, view: &AgendaInput) -> HandlerProgress {
    let marks = if candidate.role.is_durable() { known.record } else { known.in_process };
    if !is_wanted(candidate, known.record, marks.seen(candidate.id)) {
        return HandlerProgress::Through;
    }
    let due = match (marks.trial(candidate.id, candidate.at), candidate.role) {
        (Some(trial), _) => trial.after,
        (None, Role::Timer(schedule)) => Some(next_tick(candidate.id, &schedule, known, view)),
        (None, _) => return HandlerProgress::Due,
    };
    match due {
        None => HandlerProgress::Through,
        Some(due) if due > view.now => HandlerProgress::Waits(due),
        Some(_) => HandlerProgress::Due,
    }
}

fn is_wanted(candidate: &Candidate<'_>, record: &HandlerRecord, seen: Option<&FinishedWith>) -> bool {
    match (candidate.role, seen) {
        (Role::Timer(_), _) => true,
        (Role::Update, None) => !record.is_fresh(),
        (Role::Update, Some(seen)) => *seen != FinishedWith::State(candidate.at),
        // The handler was called but did not finish, perhaps with a value that is gone.
        (Role::Field, None) => record.has_mark(candidate.id) || is_first_call(candidate, record),
        (Role::Field, Some(seen)) => {
            !matches!((seen, &candidate.value), (FinishedWith::Value(old), Some(new)) if old == new)
        }
        (Role::Resume | Role::Create | Role::Delete, seen) => seen.is_none(),
    }
}

/// Records the field handlers that are about to be called for the first time; returns whether there are any. Otherwise
/// a handler whose completion could not be recorded would look like one that was never called, and an emptied field
/// like one that was never filled.
pub(super) fn announce_first_calls(candidates: &[Candidate<'_>], record: &mut HandlerRecord) -> bool {
    let fields = candidates.iter().filter(|candidate| candidate.role == Role::Field);
    let first: Vec<_> = fields.filter(|candidate| is_first_call(candidate, record)).collect();
    for candidate in &first {
        record.announce(candidate.id);
    }
    !first.is_empty()
}

/// Returns whether to call a field's handler for the first time.
fn is_first_call(candidate: &Candidate<'_>, record: &HandlerRecord) -> bool {
    !record.has_mark(candidate.id) && candidate.value.as_ref().is_some_and(|value| !is_empty(value))
}

/// Returns when the timer ticks next.
pub(super) fn next_tick(
    id: &str,
    schedule: &Schedule,
    known: KnownRecords<'_>,
    view: &AgendaInput,
) -> Timestamp {
    let last = known.record.ticks.get(id).or_else(|| known.in_process.ticks.get(id)).copied();
    let AgendaInput { created, unchanged, is_inherited, now, .. } = *view;
    schedule.next(&Phase { last, created, unchanged, is_inherited }, now)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::record::FailedAttempts;
    use super::*;

    const NOW: i64 = 1000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn state(number: i64) -> Fingerprint {
        Fingerprint::of_value(&json!(number))
    }

    fn view() -> AgendaInput {
        AgendaInput {
            now: at(NOW),
            is_dying: false,
            is_resuming: false,
            is_inherited: false,
            created: at(NOW),
            unchanged: at(NOW),
        }
    }

    /// Handlers `r`, `c`, `u`, `f`, `d`, `t` for the object in state 2.
    fn candidates(roles: &[Role]) -> Vec<Candidate<'static>> {
        let candidate = |(index, &role): (usize, &Role)| {
            let id = match role {
                Role::Resume => "r",
                Role::Create => "c",
                Role::Update => "u",
                Role::Field => "f",
                Role::Delete => "d",
                Role::Timer(_) => "t",
            };
            let value = (role == Role::Field).then(|| json!(2));
            Candidate { index, id, role, at: state(2), value }
        };
        roles.iter().enumerate().map(candidate).collect()
    }

    fn record(marks: &[(&str, FinishedWith)]) -> HandlerRecord {
        let mut record = HandlerRecord::default();
        for (id, seen) in marks {
            record.succeeded(id, seen.clone());
        }
        record
    }

    fn failing(id: &str, at_state: i64, after: Option<i64>) -> HandlerRecord {
        let mut record = HandlerRecord::default();
        let after = after.map(at);
        record.failed(
            id,
            FailedAttempts { at: state(at_state), attempts: 1, since: at(NOW), after, error: "no".into() },
        );
        record
    }

    #[track_caller]
    fn check(roles: &[Role], record: &HandlerRecord, view: AgendaInput, expected: Step) {
        let in_process = HandlerRecord::default();
        assert_eq!(
            next(&candidates(roles), KnownRecords { record, in_process: &in_process }, &view),
            expected
        );
    }

    #[test]
    fn creation() {
        let (none, both) = (HandlerRecord::default(), [Role::Update, Role::Create]);
        check(&both, &none, view(), Step::Run(1));
        check(&both, &failing("c", 2, Some(NOW + 5)), view(), Step::Rest(Some(at(NOW + 5))));
        check(&both, &failing("c", 2, Some(NOW)), view(), Step::Run(1));
        check(&both, &failing("c", 1, Some(NOW + 5)), view(), Step::Run(1));
        // It gave up, so updates start from this state.
        check(&both, &failing("c", 2, None), view(), Step::Adopt);
        check(&[Role::Create], &record(&[("c", FinishedWith::Once)]), view(), Step::Rest(None));
        check(&[Role::Create], &record(&[("other", FinishedWith::Once)]), view(), Step::Run(0));
    }

    #[test]
    fn updates() {
        let created = |seen: FinishedWith| record(&[("c", FinishedWith::Once), ("u", seen)]);
        let both = [Role::Create, Role::Update];
        check(&both, &created(FinishedWith::State(state(1))), view(), Step::Run(1));
        check(&both, &created(FinishedWith::State(state(2))), view(), Step::Rest(None));
        check(&[Role::Update], &HandlerRecord::default(), view(), Step::Adopt);
        // The handler is new in the program, so it has finished with nothing, although the object is not new.
        check(&both, &record(&[("c", FinishedWith::Once)]), view(), Step::Run(1));
        check(&[], &HandlerRecord::default(), view(), Step::Rest(None));
    }

    #[test]
    fn fields() {
        let one = [Role::Field];
        check(&one, &HandlerRecord::default(), view(), Step::Run(0));
        check(&one, &record(&[("f", FinishedWith::Value(json!(1)))]), view(), Step::Run(0));
        check(&one, &record(&[("f", FinishedWith::Value(json!(2)))]), view(), Step::Rest(None));
        let mut absent = candidates(&one);
        for empty in [json!(null), json!({}), json!([])] {
            absent[0].value = Some(empty);
            let (record, in_process) = (HandlerRecord::default(), HandlerRecord::default());
            let known = KnownRecords { record: &record, in_process: &in_process };
            assert_eq!(next(&absent, known, &view()), Step::Rest(None));
            let mut begun = HandlerRecord::default();
            begun.announce("f");
            for record in [begun, failing("f", 1, None)] {
                let known = KnownRecords { record: &record, in_process: &in_process };
                assert_eq!(next(&absent, known, &view()), Step::Run(0), "it was called with something");
            }
        }
    }

    #[test]
    fn deletion_runs_alone() {
        let dying = AgendaInput { is_dying: true, ..view() };
        let all = [Role::Create, Role::Update, Role::Delete];
        check(&all, &HandlerRecord::default(), dying, Step::Run(2));
        check(&all, &HandlerRecord::default(), view(), Step::Run(0));
        check(&all, &record(&[("d", FinishedWith::Once)]), dying, Step::Rest(None));
        check(&[Role::Update], &HandlerRecord::default(), dying, Step::Rest(None));
    }

    #[test]
    fn resumption() {
        let resuming = AgendaInput { is_resuming: true, ..view() };
        let both = [Role::Create, Role::Resume];
        check(&both, &record(&[("c", FinishedWith::Once)]), resuming, Step::Run(1));
        check(&both, &record(&[("c", FinishedWith::Once)]), view(), Step::Rest(None));
        let fresh = HandlerRecord::default();
        assert!(!is_resumption(&candidates(&both), &fresh, true), "it is being created");
        assert!(is_resumption(&candidates(&[Role::Resume]), &fresh, true));
        assert!(!is_resumption(&candidates(&[Role::Resume]), &fresh, false));
        assert!(is_resumption(&candidates(&both), &record(&[("c", FinishedWith::Once)]), false));
    }

    #[test]
    fn timers_wait_for_nobody() {
        use std::time::Duration;
        let interval = Duration::from_secs(60);
        let timer =
            Role::Timer(Schedule { interval, is_sharp: false, idle: None, initial_delay: Duration::ZERO });
        check(&[timer, Role::Create], &failing("c", 2, Some(NOW + 5)), view(), Step::Run(0));
        let mut ticked = failing("c", 2, Some(NOW + 500));
        ticked.ticks.insert("t".into(), at(NOW - 50));
        check(&[timer, Role::Create], &ticked, view(), Step::Rest(Some(at(NOW + 10))));
    }
}
