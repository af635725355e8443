//! Performs one run of an object's handlers: it holds the state that the agenda decides on, calls the handlers, and
//! writes the record between any two calls.
//!
//! **Invariant:** no handler is called while the previous one's result is unrecorded. A record that could not be
//! written stays in memory and is written first in the next run, so an unreachable server does not cause repeated
//! calls.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::{Entry as JournalEntry, HandlerOutcome};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::agenda::{self, AgendaInput, Candidate, KnownRecords, Role, Step};
use super::authored_state::{Fingerprint, essence_of, renew};
use super::declared_handlers::{DeclaredHandlers, HandlerInput};
use super::handled_condition::{self, FailingHandler, HandledState, ReportedState};
use super::handler_context::{CallIdentity, HandlerContextState, SubHandler};
use super::record::{FailedAttempts, FinishedWith, HandlerRecord};
use super::record_store::{self, LoadedRecord};
use super::retry_policy::{Failure, RetryPolicy, duration_between};
use super::runner::HandlerMemory;
use crate::context::ReconcileRun;
use crate::error::Error;
use crate::fault::{Fault, Result};
use crate::kind::object::Object;

/// One run of an object's handlers.
pub(super) struct HandlerRun<'a> {
    plan: &'a DeclaredHandlers,
    cx: Arc<ReconcileRun>,
    object: Arc<Object>,
    is_dying: bool,
    essence: Value,
    state: Fingerprint,
    memory: HandlerMemory,
    kept: LoadedRecord,
}

/// A handler or sub-handler about to be called.
struct PendingCall<'a> {
    id: &'a str,
    role: Role,
    policy: RetryPolicy,
    at: Fingerprint,
    /// The current value of the field that it follows.
    value: Option<&'a Value>,
    is_part: bool,
}

/// How a call ended.
enum CallEnd {
    /// It succeeded and registered these sub-handlers.
    Succeeded(Vec<SubHandler>),
    /// It failed; the error has been recorded.
    Failed,
}

impl<'a> HandlerRun<'a> {
    pub(super) fn new(
        plan: &'a DeclaredHandlers,
        cx: Arc<ReconcileRun>,
        object: Arc<Object>,
        mut memory: HandlerMemory,
    ) -> Self {
        let essence = essence_of(&*object);
        let state = Fingerprint::of_value(&essence);
        let kept = memory.kept.take().unwrap_or_default();
        let is_dying = object.meta().deletion_timestamp.is_some();
        Self { plan, cx, object, is_dying, essence, state, memory, kept }
    }

    /// Reads the record, or first writes the one that could not be written last time. A record that another replica
    /// wrote after this one lost the right to act is newer and is used instead.
    pub(super) async fn open(&mut self) -> Result<()> {
        let text = record_store::text_of(&self.cx, &*self.object);
        if self.kept.text == text {
            self.save().await?;
        } else {
            self.kept = record_store::load(&self.cx, text).await?;
            let (info, object) = (self.cx.info(), &*self.object);
            self.kept.record.renew(|essence| renew(info, essence, object));
        }
        self.date_state();
        let candidates = self.plan.candidates(&*self.object, self.state);
        let (record, is_inherited) = (&self.kept.record, self.memory.is_inherited);
        self.memory
            .is_resuming
            .get_or_insert_with(|| agenda::is_resumption(&candidates, record, is_inherited));
        Ok(())
    }

    /// Returns the next thing to do.
    pub(super) fn next_step(&mut self) -> Step {
        if self.refresh() {
            let candidates = self.plan.candidates(&*self.object, self.state);
            return agenda::next(&candidates, self.known(), &self.view());
        }
        // It is being deleted, or another object has taken its name: another run, which is already queued, handles
        // this.
        Step::Rest(None)
    }

    /// Calls a handler and records the result.
    pub(super) async fn run_handler(&mut self, index: usize) -> Result<()> {
        let plan = self.plan;
        let entry = &plan.entries[index];
        let mut candidates = plan.candidates(&*self.object, self.state);
        // If the record is saved anyway, that write includes the announcements.
        if entry.role == Role::Field || self.kept.is_unsaved {
            self.kept.is_unsaved |= agenda::announce_first_calls(&candidates, &mut self.kept.record);
        }
        self.save().await?;
        candidates.retain(|candidate| candidate.index == index);
        let Some(candidate) = candidates.pop() else { return Ok(()) };
        let call = PendingCall {
            id: &entry.id,
            role: entry.role,
            policy: entry.policy,
            at: candidate.at,
            value: candidate.value.as_ref(),
            is_part: false,
        };
        let occasion = HandlerInput { object: self.object.clone(), before: self.before(&candidate) };
        let (function, view, began) = (entry.call.clone(), self.view(), self.cx.now());
        match self.attempt(&call, move |turn| function(occasion, turn)).await {
            CallEnd::Failed => {}
            CallEnd::Succeeded(parts) => match self.run_parts(&call, parts).await? {
                Some(wake) => self.wait_for_parts(&call, wake),
                None => self.succeeded(&call, &view, began),
            },
        }
        Ok(())
    }

    /// Makes updates start from the current state.
    pub(super) fn adopt(&mut self) {
        self.kept.record.adopt(self.plan.updates(), self.state);
        self.keep_state();
    }

    /// Finishes the run; these daemons have given up.
    pub(super) async fn close(
        &mut self,
        rest: Option<Timestamp>,
        daemons: Vec<FailingHandler>,
    ) -> Result<(), Error> {
        // After the last handler of a deletion, removing the finalizer serves as its record.
        if self.is_dying && rest.is_none() {
            return Ok(());
        }
        self.report_handled(daemons);
        self.save().await
    }

    /// Makes the status show the progress of the handlers, if the runtime may write it and it differs.
    fn report_handled(&mut self, daemons: Vec<FailingHandler>) {
        if !self.cx.controller().tells_in_status() {
            return;
        }
        let candidates = self.plan.candidates(&*self.object, self.state);
        let mut troubles = handled_condition::failing_handlers(&candidates, self.known());
        troubles.extend(daemons);
        let told = self.reported().clone();
        let Some(word) = HandledState::from_failures(&troubles)
            .or_else(|| self.is_well(&candidates, &told).then_some(HandledState::Well))
        else {
            return;
        };
        // The condition is about the state at the start of this run; later edits belong to the next run.
        let news = ReportedState::new(word.clone(), &**self.cx.object());
        if told != news {
            self.cx.condition(word.condition());
            // The status is written after this run, which may fail: the next run reads it from the object.
            self.memory.told = None;
        }
    }

    /// Returns whether nothing is left to do. Timers and daemons count only if they fail.
    fn is_well(&self, candidates: &[Candidate<'_>], told: &ReportedState) -> bool {
        let is_handled =
            |candidate: &Candidate<'_>| candidate.role.is_durable() && candidate.role != Role::Delete;
        let may_say = told.is_trouble()
            || (candidates.iter().any(is_handled)
                && (told.word.is_some()
                    || handled_condition::keeps_conditions(self.cx.info(), &*self.object)));
        may_say && !self.is_dying && !agenda::is_pending(candidates, self.known(), &self.view())
    }

    fn reported(&mut self) -> &ReportedState {
        let object = &self.object;
        self.memory.told.get_or_insert_with(|| ReportedState::read(&**object))
    }

    /// Adds the fact that all handlers have finished to a status that is written after the last handler anyway.
    fn foretell(&mut self, call: &PendingCall<'_>, turn: &HandlerContextState) {
        let is_worth_it = !call.is_part
            && call.role.is_durable()
            && self.cx.controller().tells_in_status()
            && turn.has_draft();
        if !is_worth_it || self.is_dying || self.reported().is_trouble() {
            return;
        }
        let mut record = self.kept.record.clone();
        note_finished(&mut record, call, self.plan.updates(), self.state);
        let candidates = self.plan.candidates(&*self.object, self.state);
        let known = KnownRecords { record: &record, in_process: &self.memory.in_process };
        let is_well = handled_condition::failing_handlers(&candidates, known).is_empty()
            && !agenda::is_pending(&candidates, known, &self.view())
            && handled_condition::keeps_conditions(self.cx.info(), &*self.object);
        let news = ReportedState::new(HandledState::Well, &*self.object);
        if is_well && *self.reported() != news {
            turn.condition(HandledState::Well.condition());
            self.memory.told = Some(news);
        }
    }

    pub(super) async fn save(&mut self) -> Result<(), Error> {
        if self.kept.is_unsaved {
            self.kept.record.prune(|id| self.plan.is_known(id));
        }
        record_store::save(&self.cx, &mut self.kept).await
    }

    /// Returns the object as last observed, and the fingerprint of its state.
    pub(super) fn object(&self) -> (&Object, Fingerprint) {
        (&*self.object, self.state)
    }

    pub(super) fn key(&self) -> &Key {
        self.cx.key()
    }

    /// Returns the state to remember until the next run.
    pub(super) fn into_memory(self) -> HandlerMemory {
        let is_worth_it = self.kept.is_unsaved || self.kept.is_aside;
        HandlerMemory { kept: is_worth_it.then_some(self.kept), ..self.memory }
    }

    /// Calls a function with the options of its handler: within its timeout and guarded against panics; then writes its
    /// status and result.
    async fn attempt(
        &mut self,
        call: &PendingCall<'_>,
        function: impl FnOnce(Arc<HandlerContextState>) -> BoxFuture<'static, Result<Value>> + Send,
    ) -> CallEnd {
        let began = self.cx.now();
        let trial = self.trial(call);
        let since = trial.map_or(began, |trial| trial.since);
        let attempt = trial.map_or(0, |trial| trial.attempts).saturating_add(1);
        let which = CallIdentity { id: call.id.to_owned(), attempt, since };
        let turn = HandlerContextState::new(
            self.cx.renew(self.object.clone()),
            which,
            CancellationToken::new(),
            self.plan.lookups.clone(),
        );
        let left = call.policy.deadline(since).map(|deadline| duration_between(began, deadline));
        let guarded = AssertUnwindSafe(async { function(turn.clone()).await }).catch_unwind();
        let guarded = guarded.map(|ended| ended.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic))));
        let result = match left {
            None => guarded.await,
            Some(left) => match tokio::time::timeout(left, guarded).await {
                Ok(result) => result,
                Err(_) => Err(format!(
                    "the handler did not finish within its timeout of {:?}",
                    call.policy.timeout.unwrap_or_default()
                )
                .into()),
            },
        };
        let parts = turn.take_parts();
        if let Ok(value) = &result {
            if !value.is_null() {
                turn.set_status_field(call.id, value.clone());
            }
            if parts.is_empty() {
                self.foretell(call, &turn);
            }
        }
        let result = finish(&turn, result).await;
        if result.is_err() {
            // Announced progress must not be written.
            self.memory.told = None;
        }
        self.record_end(call, began, result.as_ref().err());
        if result.is_ok() { CallEnd::Succeeded(parts) } else { CallEnd::Failed }
    }

    /// Records a failure, and writes either result to the journal.
    fn record_end(&mut self, call: &PendingCall<'_>, began: Timestamp, fault: Option<&Fault>) {
        let (now, controller) = (self.cx.now(), self.cx.controller().clone());
        let outcome = match fault {
            None => HandlerOutcome::Done,
            Some(fault) => {
                let failure = Failure { at: call.at, began, now, fault };
                let trial = call.policy.next_attempt(self.trial(call), failure, &controller.operator.entropy);
                let outcome = trial.outcome(now);
                self.failed(call, trial);
                outcome
            }
        };
        match &outcome {
            HandlerOutcome::Done => {}
            // The watches report an unreachable server once, so they are not reported for each object.
            HandlerOutcome::Retry { after, error } if fault.is_some_and(Fault::is_cut_off) => {
                tracing::debug!(object = %self.cx.key(), handler = call.id, %error, retry = ?after, "handler failed");
            }
            HandlerOutcome::Retry { after, error } => {
                tracing::warn!(object = %self.cx.key(), handler = call.id, %error, retry = ?after, "handler failed");
            }
            HandlerOutcome::GaveUp { error } => {
                tracing::error!(object = %self.cx.key(), handler = call.id, %error, "handler gave up");
            }
        }
        let attempt = self.trial(call).map_or(1, |trial| trial.attempts);
        handled_condition::warn_of_outcome(&self.cx, call.id, attempt, &outcome);
        let (object, handler, took) =
            (self.cx.key().clone(), call.id.to_owned(), duration_between(began, now));
        controller
            .operator
            .journal
            .record(&controller.source, JournalEntry::Handled { object, handler, outcome, took });
    }

    /// Runs the sub-handlers that are due. Returns when to check again if some of them have not finished.
    async fn run_parts(
        &mut self,
        parent: &PendingCall<'_>,
        parts: Vec<SubHandler>,
    ) -> Result<Option<Timestamp>> {
        let mut wake: Option<Timestamp> = None;
        for SubHandler { id, call: function } in parts {
            let part = PendingCall { id: &id, is_part: true, ..*parent };
            if self.marks(part.role).seen(&id) == Some(&FinishedWith::SubHandler(part.at)) {
                continue;
            }
            let is_due =
                self.trial(&part).is_none_or(|trial| trial.after.is_some_and(|after| after <= self.cx.now()));
            if is_due {
                self.save().await?;
                if let CallEnd::Succeeded(_) = self.attempt(&part, function).await {
                    self.marks_mut(part.role).succeeded(&id, FinishedWith::SubHandler(part.at));
                }
            }
            if let Some(after) = self.trial(&part).and_then(|trial| trial.after) {
                wake = Some(wake.map_or(after, |wake| wake.min(after)));
            }
        }
        Ok(wake)
    }

    /// Schedules the next call of a parent for the time of its sub-handlers; this does not count as a failure of the
    /// parent.
    fn wait_for_parts(&mut self, call: &PendingCall<'_>, wake: Timestamp) {
        let before = self.trial(call);
        let trial = FailedAttempts {
            at: call.at,
            attempts: before.map_or(0, |trial| trial.attempts),
            since: before.map_or(self.cx.now(), |trial| trial.since),
            after: Some(wake),
            error: "its sub-handlers have not finished".to_owned(),
        };
        self.failed(call, trial);
    }

    fn succeeded(&mut self, call: &PendingCall<'_>, view: &AgendaInput, began: Timestamp) {
        match call.role {
            Role::Timer(schedule) => {
                let due = agenda::next_tick(call.id, &schedule, self.known(), view);
                let tick = schedule.ticked(due, began, self.cx.now());
                self.memory.in_process.marks.remove(call.id);
                let ticks = if schedule.is_recorded() { self.unsaved() } else { &mut self.memory.in_process };
                ticks.ticks.insert(call.id.to_owned(), tick);
            }
            Role::Resume => self.memory.in_process.succeeded(call.id, FinishedWith::Once),
            Role::Delete => self.unsaved().succeeded(call.id, FinishedWith::Once),
            Role::Create | Role::Update | Role::Field => {
                let (updates, state) = (self.plan.updates(), self.state);
                note_finished(self.unsaved(), call, updates, state);
            }
        }
        if call.role.is_durable() {
            self.keep_state();
        }
    }

    fn failed(&mut self, call: &PendingCall<'_>, trial: FailedAttempts) {
        self.marks_mut(call.role).failed(call.id, trial);
    }

    fn keep_state(&mut self) {
        let since = self.memory.unchanged.map_or_else(|| self.cx.now(), |(_, since)| since);
        self.kept.record.keep_state(self.state, &self.essence, since);
        self.kept.is_unsaved = true;
    }

    /// Returns the state that the handler last finished with.
    fn before(&self, candidate: &Candidate<'_>) -> Option<Value> {
        match (candidate.role, self.kept.record.seen(candidate.id)) {
            (Role::Update, _) => self.kept.record.baseline(candidate.id).cloned(),
            (Role::Field, Some(FinishedWith::Value(value))) => Some(value.clone()),
            _ => None,
        }
    }

    fn trial(&self, call: &PendingCall<'_>) -> Option<&FailedAttempts> {
        self.marks(call.role).trial(call.id, call.at)
    }

    fn marks(&self, role: Role) -> &HandlerRecord {
        if role.is_durable() { &self.kept.record } else { &self.memory.in_process }
    }

    fn marks_mut(&mut self, role: Role) -> &mut HandlerRecord {
        if role.is_durable() { self.unsaved() } else { &mut self.memory.in_process }
    }

    fn unsaved(&mut self) -> &mut HandlerRecord {
        self.kept.is_unsaved = true;
        &mut self.kept.record
    }

    fn known(&self) -> KnownRecords<'_> {
        KnownRecords { record: &self.kept.record, in_process: &self.memory.in_process }
    }

    fn view(&self) -> AgendaInput {
        let now = self.cx.now();
        let created = self.object.meta().creation_timestamp.as_ref().map_or(now, |time| time.0);
        AgendaInput {
            now,
            is_dying: self.is_dying,
            is_resuming: self.memory.is_resuming.unwrap_or_default(),
            is_inherited: self.memory.is_inherited,
            created,
            unchanged: self.memory.unchanged.map_or(now, |(_, since)| since),
        }
    }

    /// Reads the newest state. Returns whether the run still concerns this object.
    fn refresh(&mut self) -> bool {
        let Some(newest) = self.cx.controller().cache.get(self.cx.key()) else { return !self.is_dying };
        let (old, new) = (self.object.meta(), newest.meta());
        if old.uid != new.uid || self.is_dying != new.deletion_timestamp.is_some() {
            return false;
        }
        if newest.revision() != self.object.revision() {
            self.essence = essence_of(&*newest);
            self.state = Fingerprint::of_value(&self.essence);
            self.object = newest;
            self.date_state();
        }
        true
    }

    /// Records when the object last changed: the time in the record if there is one, otherwise the current time.
    fn date_state(&mut self) {
        if self.memory.unchanged.is_some_and(|(state, _)| state == self.state) {
            return;
        }
        let view = self.view();
        let is_first = self.memory.unchanged.is_none() && self.object.meta().generation == Some(1);
        let recorded = self.kept.record.states.get(&self.state).map(|state| state.since);
        let since = recorded.unwrap_or(if is_first { view.created } else { view.now });
        self.memory.unchanged = Some((self.state, since));
    }
}

/// Records that a handler finished for an object that is not being deleted. Updates start from the state of the first
/// one that finishes.
fn note_finished<'a>(
    record: &mut HandlerRecord,
    call: &PendingCall<'_>,
    updates: impl IntoIterator<Item = &'a str>,
    state: Fingerprint,
) {
    let seen = match (call.role, call.value) {
        (Role::Update, _) => FinishedWith::State(call.at),
        (Role::Field, Some(value)) => FinishedWith::Value(value.clone()),
        _ => FinishedWith::Once,
    };
    let is_first = record.is_fresh();
    record.succeeded(call.id, seen);
    if is_first {
        record.adopt(updates, state);
    }
}

/// Writes the status that the handler set, even if it failed.
async fn finish(turn: &HandlerContextState, result: Result<Value>) -> Result<()> {
    let written = turn.write_status(None).await;
    result?;
    Ok(written?)
}
