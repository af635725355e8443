//! One run of the handlers of one object: what the agenda decides about, the calls themselves, and the record that is
//! written between any two of them.
//!
//! **Invariant:** no handler is called while the end of the one before is unrecorded. What cannot be written stays in
//! memory and is written first next time, so a server that is away makes nothing run twice.

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
use super::essence::{Fingerprint, essence_of, renew};
use super::handled_condition::{self, FailingHandler, HandledState, ReportedState};
use super::plan::{HandlerInput, Plan};
use super::policy::{Failure, RetryPolicy, until};
use super::record::{HandlerRecord, Seen, Trial};
use super::record_store::{self, StoredRecord};
use super::runner::HandlerMemory;
use super::turn::{SubHandler, TurnState, Which};
use crate::context::Run;
use crate::error::Error;
use crate::fault::{Fault, Result};
use crate::kind::object::Object;

/// One run of the handlers of one object.
pub(super) struct HandlerRun<'a> {
    plan: &'a Plan,
    cx: Arc<Run>,
    object: Arc<Object>,
    is_dying: bool,
    essence: Value,
    state: Fingerprint,
    memory: HandlerMemory,
    kept: StoredRecord,
}

/// A handler about to be called, or a part of one.
struct PendingCall<'a> {
    id: &'a str,
    role: Role,
    policy: RetryPolicy,
    at: Fingerprint,
    /// The value now of the field it follows.
    value: Option<&'a Value>,
    is_part: bool,
}

/// How a call ended.
enum CallEnd {
    /// Well, with these sub-handlers.
    Well(Vec<SubHandler>),
    /// In an error, which is noted.
    Failed,
}

impl<'a> HandlerRun<'a> {
    pub(super) fn new(plan: &'a Plan, cx: Arc<Run>, object: Arc<Object>, mut memory: HandlerMemory) -> Self {
        let essence = essence_of(&*object);
        let state = Fingerprint::of_value(&essence);
        let kept = memory.kept.take().unwrap_or_default();
        let is_dying = object.meta().deletion_timestamp.is_some();
        Self { plan, cx, object, is_dying, essence, state, memory, kept }
    }

    /// Reads the record, or first writes what could not be written last time. A record that another replica wrote
    /// meanwhile, after we had lost the right, is newer.
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

    /// Returns what to do now.
    pub(super) fn next_step(&mut self) -> Step {
        if self.refresh() {
            let candidates = self.plan.candidates(&*self.object, self.state);
            return agenda::next(&candidates, self.known(), &self.view());
        }
        // It is being deleted now, or is another object: that is for another run, which is queued already.
        Step::Rest(None)
    }

    /// Calls a handler and records the result.
    pub(super) async fn run_handler(&mut self, index: usize) -> Result<()> {
        let plan = self.plan;
        let entry = &plan.entries[index];
        let mut candidates = plan.candidates(&*self.object, self.state);
        // What has to be saved anyway takes the announcements along.
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
            CallEnd::Well(parts) => match self.run_parts(&call, parts).await? {
                Some(wake) => self.wait_for_parts(&call, wake),
                None => self.succeeded(&call, &view, began),
            },
        }
        Ok(())
    }

    /// Makes the present state the one that updates start from.
    pub(super) fn adopt(&mut self) {
        self.kept.record.adopt(self.plan.updates(), self.state);
        self.keep_state();
    }

    /// Ends the run; these daemons have given up.
    pub(super) async fn close(
        &mut self,
        rest: Option<Timestamp>,
        daemons: Vec<FailingHandler>,
    ) -> Result<(), Error> {
        // When the last handler of a deletion has finished, removing the finalizer records it.
        if self.is_dying && rest.is_none() {
            return Ok(());
        }
        self.report_handled(daemons);
        self.save().await
    }

    /// Makes the status say how the handlers are doing, if the runtime may write it and it does not say so already.
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
        // The condition is about the state this run began with; what was edited meanwhile belongs to the next run.
        let news = ReportedState::new(word.clone(), &**self.cx.object());
        if told != news {
            self.cx.condition(word.condition());
            // It is written after this run, and that may fail: the next run reads from the object what it says.
            self.memory.told = None;
        }
    }

    /// Returns whether nothing is left to do. Timers and daemons count only when they fail.
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

    /// Adds to a status that is written anyway at the end of the last handler that all have finished.
    fn foretell(&mut self, call: &PendingCall<'_>, turn: &TurnState) {
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

    /// Returns the object as it was last looked at, and the name of its state.
    pub(super) fn object(&self) -> (&Object, Fingerprint) {
        (&*self.object, self.state)
    }

    pub(super) fn key(&self) -> &Key {
        self.cx.key()
    }

    /// Returns what to remember until the next run.
    pub(super) fn into_memory(self) -> HandlerMemory {
        let is_worth_it = self.kept.is_unsaved || self.kept.is_aside;
        HandlerMemory { kept: is_worth_it.then_some(self.kept), ..self.memory }
    }

    /// Calls a function as the handler says: within its time, guarded against panics, its status and result written.
    async fn attempt(
        &mut self,
        call: &PendingCall<'_>,
        function: impl FnOnce(Arc<TurnState>) -> BoxFuture<'static, Result<Value>> + Send,
    ) -> CallEnd {
        let began = self.cx.now();
        let trial = self.trial(call);
        let since = trial.map_or(began, |trial| trial.since);
        let attempt = trial.map_or(0, |trial| trial.attempts).saturating_add(1);
        let which = Which { id: call.id.to_owned(), attempt, since };
        let turn = TurnState::new(
            self.cx.renew(self.object.clone()),
            which,
            CancellationToken::new(),
            self.plan.lookups.clone(),
        );
        let left = call.policy.deadline(since).map(|deadline| until(began, deadline));
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
            // What was announced must not be written.
            self.memory.told = None;
        }
        self.record_end(call, began, result.as_ref().err());
        if result.is_ok() { CallEnd::Well(parts) } else { CallEnd::Failed }
    }

    /// Writes a failure into the record, and either end into the journal.
    fn record_end(&mut self, call: &PendingCall<'_>, began: Timestamp, fault: Option<&Fault>) {
        let (now, controller) = (self.cx.now(), self.cx.controller().clone());
        let outcome = match fault {
            None => HandlerOutcome::Done,
            Some(fault) => {
                let failure = Failure { at: call.at, began, now, fault };
                let trial = call.policy.judge(self.trial(call), failure, &controller.operator.entropy);
                let outcome = outcome_of(&trial, now);
                self.failed(call, trial);
                outcome
            }
        };
        match &outcome {
            HandlerOutcome::Done => {}
            // The watches report once that the server is away, so not every object does.
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
        let (object, handler, took) = (self.cx.key().clone(), call.id.to_owned(), until(began, now));
        controller
            .operator
            .journal
            .record(&controller.source, JournalEntry::Handled { object, handler, outcome, took });
    }

    /// Runs the sub-handlers that are due. Returns when to look again, if some have not finished.
    async fn run_parts(
        &mut self,
        parent: &PendingCall<'_>,
        parts: Vec<SubHandler>,
    ) -> Result<Option<Timestamp>> {
        let mut wake: Option<Timestamp> = None;
        for SubHandler { id, call: function } in parts {
            let part = PendingCall { id: &id, is_part: true, ..*parent };
            if self.marks(part.role).seen(&id) == Some(&Seen::SubHandler(part.at)) {
                continue;
            }
            let is_due =
                self.trial(&part).is_none_or(|trial| trial.after.is_some_and(|after| after <= self.cx.now()));
            if is_due {
                self.save().await?;
                if let CallEnd::Well(_) = self.attempt(&part, function).await {
                    self.marks_mut(part.role).succeeded(&id, Seen::SubHandler(part.at));
                }
            }
            if let Some(after) = self.trial(&part).and_then(|trial| trial.after) {
                wake = Some(wake.map_or(after, |wake| wake.min(after)));
            }
        }
        Ok(wake)
    }

    /// Schedules the next call of a parent for when its sub-handlers are called; that is no failure of its own.
    fn wait_for_parts(&mut self, call: &PendingCall<'_>, wake: Timestamp) {
        let before = self.trial(call);
        let trial = Trial {
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
            Role::Resume => self.memory.in_process.succeeded(call.id, Seen::Once),
            Role::Delete => self.unsaved().succeeded(call.id, Seen::Once),
            Role::Create | Role::Update | Role::Field => {
                let (updates, state) = (self.plan.updates(), self.state);
                note_finished(self.unsaved(), call, updates, state);
            }
        }
        if call.role.is_durable() {
            self.keep_state();
        }
    }

    fn failed(&mut self, call: &PendingCall<'_>, trial: Trial) {
        self.marks_mut(call.role).failed(call.id, trial);
    }

    fn keep_state(&mut self) {
        let since = self.memory.unchanged.map_or_else(|| self.cx.now(), |(_, since)| since);
        self.kept.record.keep_state(self.state, &self.essence, since);
        self.kept.is_unsaved = true;
    }

    /// Returns the state that the handler finished with last.
    fn before(&self, candidate: &Candidate<'_>) -> Option<Value> {
        match (candidate.role, self.kept.record.seen(candidate.id)) {
            (Role::Update, _) => self.kept.record.baseline(candidate.id).cloned(),
            (Role::Field, Some(Seen::Value(value))) => Some(value.clone()),
            _ => None,
        }
    }

    fn trial(&self, call: &PendingCall<'_>) -> Option<&Trial> {
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

    /// Looks at the newest state. Returns whether it is still the object this run is about.
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

    /// Notes since when the object is as it is: as the record says, or since now.
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

/// Notes that a handler of a living object finished. The first that does makes its state the one that updates start
/// from.
fn note_finished<'a>(
    record: &mut HandlerRecord,
    call: &PendingCall<'_>,
    updates: impl IntoIterator<Item = &'a str>,
    state: Fingerprint,
) {
    let seen = match (call.role, call.value) {
        (Role::Update, _) => Seen::State(call.at),
        (Role::Field, Some(value)) => Seen::Value(value.clone()),
        _ => Seen::Once,
    };
    let is_first = record.is_fresh();
    record.succeeded(call.id, seen);
    if is_first {
        record.adopt(updates, state);
    }
}

/// Writes the status the handler asked for, also when it failed.
async fn finish(turn: &TurnState, result: Result<Value>) -> Result<()> {
    let written = turn.write_status(None).await;
    result?;
    Ok(written?)
}

fn outcome_of(trial: &Trial, now: Timestamp) -> HandlerOutcome {
    let error = trial.error.clone();
    match trial.after {
        Some(after) => HandlerOutcome::Retry { after: until(now, after), error },
        None => HandlerOutcome::GaveUp { error },
    }
}
