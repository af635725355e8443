//! One object against the outside: look at each of its things, decide, take the step. Nothing is written on the word
//! of a list: every write follows a look at that very thing in the same run.
//!
//! **Invariant:** between any two calls the process may die. What is left is found by the next run, because the
//! inventory is written before a thing is made and the finalizer goes after the last thing (`tests/it/world/crashes`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Verb};
use kube::Resource;

use super::contract::{Change, World};
use super::decide::{Claim, Seen, Situation, Step, Whose, decide};
use super::desk::{Desk, fingerprint, is_owner};
use super::difference::{Difference, paths, words};
use super::failure::Failure;
use super::gate::Stopped;
use super::inventory::Intent;
use super::ledger::Sighting;
use super::policy::Ownership;
use super::tally::{DRIFTED, SYNCED, State, Sum, Tally, UNAVAILABLE, in_sync};
use crate::action::Action;
use crate::context::Context;
use crate::events::Severity;
use crate::fault::Result;
use crate::kind::key_of;

/// How long a parked object waits at most: the end of the outage brings it back long before.
const PARKED_MAX: Duration = Duration::from_secs(3600);

/// How soon to look again at a name that is taken by something not yet shown.
const RELOOK: Duration = Duration::from_secs(5);

/// One run for one object.
pub(super) struct Hand<W: World> {
    pub(super) desk: Arc<Desk<W>>,
    pub(super) cx: Context<W::Kind>,
    pub(super) object: Arc<W::Kind>,
    key: Key,
    is_cleanup: bool,
}

/// What is known when the run begins.
struct Outset<'a, W: World> {
    wanted: &'a BTreeMap<String, W::Want>,
    inventory: BTreeMap<String, Duration>,
    seen_before: Sighting,
    was_synced: bool,
}

type Outcome = std::result::Result<State, Stopped>;

impl<W: World> Hand<W> {
    pub(super) fn new(desk: Arc<Desk<W>>, object: Arc<W::Kind>, cx: Context<W::Kind>) -> Self {
        let (key, is_cleanup) = (key_of(&*object), object.meta().deletion_timestamp.is_some());
        Self { desk, cx, object, key, is_cleanup }
    }

    /// Makes the outside as the object wants it.
    pub(super) async fn reconcile(self) -> Result<Action> {
        let since = self.desk.ledger.doubts();
        let wanted = self.desk.wanted(&self.object)?;
        let print = fingerprint(&wanted);
        let inventory = self.desk.inventory(&self.object);
        let is_tidy = inventory.keys().all(|name| wanted.contains_key(name));
        if is_tidy && self.desk.ledger.is_certain(&self.key, print) {
            self.cx.condition(in_sync());
            return Ok(Action::await_change());
        }
        let was_synced = self.desk.ledger.agreed(&self.key, print) || says_synced(&*self.object);
        let seen_before = self.desk.ledger.seen(&self.key);
        let tally = self.round(Outset { wanted: &wanted, inventory, seen_before, was_synced }).await;
        self.conclude(tally, print, since)
    }

    /// Removes everything the object has outside.
    pub(super) async fn cleanup(self) -> Result<Action> {
        // An object that makes no sense still has what the inventory says.
        let wanted = self.desk.wanted(&self.object).unwrap_or_default();
        let inventory = self.desk.inventory(&self.object);
        let seen_before = self.desk.ledger.seen(&self.key);
        let tally = self.round(Outset { wanted: &wanted, inventory, seen_before, was_synced: false }).await;
        if let Some(condition) = tally.condition().filter(|condition| condition.status == "False") {
            self.cx.condition(condition);
        }
        match tally.sum().1 {
            Sum::Done => {
                self.desk.ledger.forget(&self.key);
                Ok(Action::await_change())
            }
            Sum::Again(after) => Ok(Action::requeue(after)),
            Sum::Stuck => Ok(Action::requeue(self.desk.policy.poll)),
            Sum::Blocked => Ok(self.park()),
            Sum::Failed(stopped) => Err(stopped.into()),
        }
    }

    async fn round(&self, outset: Outset<'_, W>) -> Tally {
        let names: BTreeSet<&String> =
            outset.wanted.keys().chain(outset.inventory.keys()).chain(&outset.seen_before.names).collect();
        let mut tally = Tally::default();
        for name in names {
            tally.note(name, self.attend(name, &outset).await);
            if tally.is_blocked() {
                break;
            }
        }
        tally
    }

    fn conclude(&self, tally: Tally, print: u64, since: u64) -> Result<Action> {
        if let Some(condition) = tally.condition() {
            if condition.reason == "Conflict" {
                self.cx.event(Severity::Warning, "Conflict", condition.message.clone());
            }
            // That all was well before an outage is worth more than that it cannot be seen now: it tells drift from
            // first sight, also after a restart.
            if condition.reason != UNAVAILABLE || !says_synced(&*self.object) {
                self.cx.condition(condition);
            }
        }
        let (seen, sum) = tally.sum();
        if matches!(sum, Sum::Done) {
            self.desk.ledger.agree(self.key.clone(), print, seen, since);
            return Ok(Action::await_change());
        }
        self.desk.ledger.disagree(self.key.clone(), seen);
        match sum {
            Sum::Done => unreachable!("returned above"),
            Sum::Again(after) => Ok(Action::requeue(after)),
            Sum::Stuck => Ok(Action::requeue(self.desk.policy.poll)),
            Sum::Blocked => Ok(self.park()),
            // It keeps its own back-off, whoever's fault it was; if the outside is down, the retry is turned away.
            Sum::Failed(stopped) => Err(stopped.into()),
        }
    }

    /// Waits until the outside answers. If it does since we were turned away, nobody would bring us back.
    fn park(&self) -> Action {
        self.desk.ledger.park(self.key.clone());
        Action::requeue(if self.desk.gate.is_closed() { Duration::ZERO } else { PARKED_MAX })
    }

    /// One thing: look, decide, act.
    async fn attend(&self, name: &str, outset: &Outset<'_, W>) -> Outcome {
        let desk = &self.desk;
        let want = outset.wanted.get(name);
        let have = desk.gate.call(desk.world.get(name)).await?;
        let differences = match (want, &have) {
            (Some(want), Some(have)) => desk.world.diff(want, have),
            _ => vec![],
        };
        let seen = match &have {
            None => Seen::Absent,
            Some(have) => {
                let whose = self.whose(name, have, outset.inventory.contains_key(name)).await?;
                Seen::Present { whose, is_equal: want.is_some() && differences.is_empty() }
            }
        };
        let intent = outset.inventory.get(name).copied();
        let situation = Situation {
            seen,
            is_wanted: want.is_some() && !self.is_cleanup,
            intent: intent.filter(|age| !outset.seen_before.is_since(name, *age)),
            was_synced: outset.was_synced,
            is_holder: desk.holds(&self.object, name).await?,
        };
        let step = decide(situation, desk.policy.drift, desk.policy.settle);
        let thing = Thing { name, want, have: have.as_ref(), differences: &differences };
        self.take(step, &thing).await
    }

    /// The claim on the thing, seen from this object, which has it in its inventory or not.
    async fn whose(
        &self,
        name: &str,
        have: &W::Have,
        is_listed: bool,
    ) -> std::result::Result<Whose, Stopped> {
        let desk = &self.desk;
        let nobody = || Whose::Nobody { adopts: desk.policy.adopts(name, have) };
        Ok(match desk.claim(name, have) {
            // Whether an object that cannot be read wants the name is unknown; what it may have is not taken.
            Claim::Ours(None) if !is_listed && !desk.cache.quarantined().is_empty() => {
                Whose::Sibling("an object that does not decode, perhaps".to_owned())
            }
            Claim::Ours(None) => Whose::Common,
            Claim::Theirs(manager) => Whose::Foreign(manager),
            Claim::Ours(Some(owner)) if is_owner(&*self.object, &owner) => Whose::Own,
            Claim::Doubtful(owner) if is_owner(&*self.object, &owner) => Whose::Doubtful,
            Claim::Ours(Some(owner)) | Claim::Doubtful(owner) if desk.lives(&owner).await? => {
                Whose::Sibling(owner.key.to_string())
            }
            Claim::Ours(Some(_)) => Whose::Orphan,
            // The owner of a doubtful one is gone, and nobody ever knew whether it was made by us.
            Claim::Nobody | Claim::Doubtful(_) => nobody(),
        })
    }

    async fn take(&self, step: Step, thing: &Thing<'_, W>) -> Outcome {
        match step {
            Step::Leave => {
                self.desk.confirm(&self.object, thing.name).await?;
                Ok(State::Seen)
            }
            Step::Create { is_drift } => self.create(thing, is_drift).await,
            Step::Update { is_drift } => self.update(thing, is_drift).await,
            Step::Adopt => self.adopt(thing).await,
            Step::Delete => self.delete(thing).await,
            Step::Report => Ok(State::Drifted(self.leave_drifted(thing))),
            Step::Forget => self.forget(thing.name).await,
            Step::Release(why) => {
                let message = format!("{} is left alone: {why}", thing.name);
                self.cx.event(Severity::Warning, "Released", message);
                self.forget(thing.name).await
            }
            Step::Wait(after) => Ok(State::Waiting(after)),
            Step::Conflict(whom) => Ok(State::Conflict(whom)),
        }
    }

    async fn create(&self, thing: &Thing<'_, W>, is_drift: bool) -> Outcome {
        let Some(want) = thing.want else { return Ok(State::Gone) };
        if is_drift {
            self.report_drift(thing, "made again");
        }
        let intent = self.desk.intend(&self.object, thing.name, want).await?;
        let mark = self.desk.mark(&self.object);
        let create = self.desk.world.create(thing.name, want, &mark);
        match self.desk.write((&self.key, Verb::Create, thing.name), create).await {
            Err(Stopped::Failed(Failure::Exists)) => return self.taken(thing.name, intent).await,
            answer => answer?,
        }
        self.desk.confirm(&self.object, thing.name).await?;
        self.cx.event(Severity::Normal, "Created", format!("{} was made", thing.name));
        Ok(State::Written)
    }

    /// The name is taken by something that a look a moment ago did not show.
    async fn taken(&self, name: &str, intent: Intent) -> Outcome {
        if self.desk.records.is_none() || intent == Intent::Known {
            // Its mark will tell whose it is, or it is what an earlier intent made; once it shows.
            return Ok(State::Waiting(RELOOK));
        }
        // No record before, and our create was refused: whatever it is, we did not make it.
        self.desk.forget(&self.object, name).await?;
        Ok(State::Conflict("somebody who made it a moment ago".to_owned()))
    }

    async fn update(&self, thing: &Thing<'_, W>, is_drift: bool) -> Outcome {
        if is_drift {
            self.report_drift(thing, "put right");
        }
        self.send_update(thing).await?;
        self.desk.confirm(&self.object, thing.name).await?;
        if !is_drift {
            let message = format!("{} was changed: {}", thing.name, words(thing.differences));
            self.cx.event(Severity::Normal, "Updated", message);
        }
        Ok(State::Seen)
    }

    async fn adopt(&self, thing: &Thing<'_, W>) -> Outcome {
        let Some(want) = thing.want else { return Ok(State::Gone) };
        self.desk.intend(&self.object, thing.name, want).await?;
        // Records say whose it is by themselves; a mark must be put on the thing.
        if self.desk.policy.ownership != Ownership::Records || !thing.differences.is_empty() {
            self.send_update(thing).await?;
        }
        self.desk.confirm(&self.object, thing.name).await?;
        self.cx.event(Severity::Normal, "Adopted", format!("{} is ours from now on", thing.name));
        Ok(State::Seen)
    }

    async fn send_update(&self, thing: &Thing<'_, W>) -> std::result::Result<(), Stopped> {
        let (Some(want), Some(have)) = (thing.want, thing.have) else { return Ok(()) };
        let mark = self.desk.mark(&self.object);
        let update = self.desk.world.update(thing.name, Change { have, want, mark: &mark });
        self.desk.write((&self.key, Verb::Update, thing.name), update).await
    }

    async fn delete(&self, thing: &Thing<'_, W>) -> Outcome {
        let Some(have) = thing.have else { return Ok(State::Gone) };
        // Whoever deletes an object means it; that wishes vanish from many objects at once may be a mistake.
        if !self.is_cleanup
            && let Err(wait) = self.desk.pace()
        {
            return Ok(State::Waiting(wait));
        }
        let delete = self.desk.world.delete(thing.name, have);
        self.desk.write((&self.key, Verb::Delete, thing.name), delete).await?;
        self.cx.event(Severity::Normal, "Deleted", format!("{} was removed", thing.name));
        // It may have been kept for an object that is gone, whose record nobody else removes.
        let former = self.desk.recorded_owner(thing.name).filter(|former| self.desk.is_missing(former));
        if let Some(former) = former {
            self.desk.forget_record(&former, thing.name).await?;
        }
        self.forget(thing.name).await
    }

    async fn forget(&self, name: &str) -> Outcome {
        // The annotation goes with the object; records do not.
        if !self.is_cleanup || self.desk.records.is_some() {
            self.desk.forget(&self.object, name).await?;
        }
        Ok(State::Gone)
    }

    /// Reports drift that is not put right, once; returns how it drifted.
    fn leave_drifted(&self, thing: &Thing<'_, W>) -> String {
        let how = words(&thing.drift());
        if self.desk.ledger.tell(&self.key, &format!("{}: {how}", thing.name)) {
            self.report_drift(thing, "left as it is");
        }
        how
    }

    /// Tells people, metrics and the journal.
    fn report_drift(&self, thing: &Thing<'_, W>, what_follows: &str) {
        let differences = thing.drift();
        let target = Desk::<W>::target(thing.name).to_string();
        let entry = Entry::Drifted { object: self.key.clone(), target, diff: paths(&differences) };
        self.desk.ground.journal.record(&self.desk.source, entry);
        let how = words(&differences);
        let message = format!("{} was changed by others: {how}; {what_follows}", thing.name);
        self.cx.event(Severity::Warning, "Drifted", message);
    }
}

/// A thing as it is wanted and as it was found.
struct Thing<'a, W: World> {
    name: &'a str,
    want: Option<&'a W::Want>,
    have: Option<&'a W::Have>,
    differences: &'a [Difference],
}

impl<W: World> Thing<'_, W> {
    /// The differences; that it is gone is one, too.
    fn drift(&self) -> Cow<'_, [Difference]> {
        match self.have {
            None => vec![Difference::new("/", "there", "gone")].into(),
            Some(_) => self.differences.into(),
        }
    }
}

/// Does the status say that this generation was in sync, or drifted from it? Then a difference is drift, also after a
/// restart.
fn says_synced<K: crate::kind::Kind>(object: &K) -> bool {
    let Some(generation) = object.meta().generation else { return false };
    let object = serde_json::to_value(object).unwrap_or_default();
    object["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            condition["type"] == SYNCED
                && (condition["status"] == "True" || condition["reason"] == DRIFTED)
                && condition["observedGeneration"] == generation
        })
    })
}
