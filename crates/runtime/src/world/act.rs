//! The steps of a reconcile, one method each: what `decide` decided is written outside, told to people and written down.
//!
//! **Invariant:** whatever is made was intended in the inventory before, and leaves it after it is gone. Whether to take
//! a step is never decided here.

use std::borrow::Cow;
use std::time::Duration;

use homeostat_core::journal::{Entry, Verb};

use super::attempts::{DifferencePrint, Tried};
use super::contract::{Change, World};
use super::decide::Step;
use super::difference::{Difference, describe_differences, paths};
use super::failure::Failure;
use super::inventory::Intent;
use super::limiter::Stopped;
use super::parts::WorldParts;
use super::policy::Ownership;
use super::reconcile::{Outcome, WorldRun};
use super::tally::{CONTESTED, NOT_TAKEN, ThingOutcome};
use crate::events::Severity;

/// How soon to look again at a name that is taken by something not yet shown.
const RELOOK: Duration = Duration::from_secs(5);

/// A thing as it is wanted and as it was found.
pub(super) struct Thing<'a, W: World> {
    pub(super) name: &'a str,
    pub(super) want: Option<&'a W::Want>,
    pub(super) have: Option<&'a W::Have>,
    pub(super) differences: &'a [Difference],
    /// The differences as a number.
    pub(super) print: DifferencePrint,
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

impl<W: World> WorldRun<W> {
    pub(super) async fn take_step(&self, step: Step, thing: &Thing<'_, W>) -> Outcome {
        match step {
            Step::Leave => {
                self.parts.ledger.took(&self.key, Some(thing.name));
                self.parts.confirm(&self.object, thing.name).await?;
                self.parts.clear_lasting(&self.object, thing.name).await?;
                Ok(ThingOutcome::Seen)
            }
            Step::Create { is_drift } => self.create(thing, is_drift).await,
            Step::Update { is_drift } => self.update(thing, is_drift).await,
            Step::Adopt => self.adopt(thing).await,
            Step::Delete => self.delete(thing).await,
            Step::Report => Ok(ThingOutcome::Drifted(self.leave_drifted(thing))),
            Step::Forget => self.forget(thing.name).await,
            Step::Release(why) => {
                let message = format!("{} is left alone: {why}", thing.name);
                self.cx.event(Severity::Warning, "Released", message);
                self.forget(thing.name).await
            }
            Step::Wait(after) => Ok(ThingOutcome::Waiting(after)),
            Step::Conflict(whom) => Ok(ThingOutcome::Conflict(whom)),
            Step::Endure { is_contested, left } => self.endure(thing, is_contested, left).await,
        }
    }

    async fn create(&self, thing: &Thing<'_, W>, is_drift: bool) -> Outcome {
        let Some(want) = thing.want else { return Ok(ThingOutcome::Gone) };
        if is_drift {
            self.report_drift(thing, "made again");
        }
        let intent = self.parts.intend(&self.object, thing.name, want).await?;
        let mark = self.parts.mark(&self.object);
        let create = self.parts.world.create(thing.name, want, &mark);
        match self.parts.write((&self.key, Verb::Create, thing.name), create).await {
            Err(Stopped::Failed(Failure::Exists)) => return self.taken(thing.name, intent).await,
            answer => answer?,
        }
        self.parts.confirm(&self.object, thing.name).await?;
        self.cx.event(Severity::Normal, "Created", format!("{} was made", thing.name));
        Ok(ThingOutcome::Written)
    }

    /// The name is taken by something that a look a moment ago did not show.
    async fn taken(&self, name: &str, intent: Intent) -> Outcome {
        if self.parts.records.is_none() || intent == Intent::Known {
            // Its mark will tell whose it is, or it is what an earlier intent made; once it shows.
            return Ok(ThingOutcome::Waiting(RELOOK));
        }
        // No record before, and our create was refused: whatever it is, we did not make it.
        self.parts.forget(&self.object, name).await?;
        Ok(ThingOutcome::Conflict("somebody who made it a moment ago".to_owned()))
    }

    async fn update(&self, thing: &Thing<'_, W>, is_drift: bool) -> Outcome {
        if is_drift {
            self.report_drift(thing, "put right");
        }
        let tried = self.send_update(thing).await?;
        self.parts.confirm(&self.object, thing.name).await?;
        if tried.count > 1 {
            return self.tried_again(thing, tried).await;
        }
        if !is_drift {
            let message = format!("{} was changed: {}", thing.name, describe_differences(thing.differences));
            self.cx.event(Severity::Normal, "Updated", message);
        }
        Ok(ThingOutcome::Seen)
    }

    async fn adopt(&self, thing: &Thing<'_, W>) -> Outcome {
        let Some(want) = thing.want else { return Ok(ThingOutcome::Gone) };
        self.parts.intend(&self.object, thing.name, want).await?;
        // Records say whose it is by themselves; a mark must be put on the thing.
        if self.parts.policy.ownership != Ownership::Records || !thing.differences.is_empty() {
            let tried = self.send_update(thing).await?;
            if tried.count > 1 {
                return self.tried_again(thing, tried).await;
            }
        }
        self.parts.confirm(&self.object, thing.name).await?;
        self.cx.event(Severity::Normal, "Adopted", format!("{} is ours from now on", thing.name));
        Ok(ThingOutcome::Seen)
    }

    /// An update that was sent before, and did not show: that it was accepted again says little.
    async fn tried_again(&self, thing: &Thing<'_, W>, tried: Tried) -> Outcome {
        let shown = tried.settle;
        if tried.is_hopeless() {
            self.endure(thing, tried.has_taken, shown).await
        } else {
            Ok(ThingOutcome::Waiting(shown))
        }
    }

    /// Leaves a thing for a while that does not become as wanted, writes that down, and reports it, once.
    async fn endure(&self, thing: &Thing<'_, W>, is_contested: bool, after: Duration) -> Outcome {
        self.parts.note_lasting(&self.object, thing.name, thing.print, is_contested).await?;
        let (reason, how) = endured(thing.differences, is_contested);
        if self.parts.ledger.is_news(&self.key, &format!("{reason} {}: {how}", thing.name)) {
            self.cx.event(Severity::Warning, reason, format!("{}: {how}", thing.name));
        }
        // Somebody may cure it outside meanwhile, and the object should say so soon.
        Ok(ThingOutcome::Endured { reason, how, after: after.min(self.parts.policy.poll) })
    }

    /// Returns what a former process wrote down about this very difference, if this one knows nothing of it yet.
    pub(super) fn resume(&self, thing: &Thing<'_, W>) -> Option<Tried> {
        thing.want.and(thing.have)?;
        let is_contested = self.parts.lasting(&self.object, thing.name, thing.print)?;
        self.parts.ledger.resume(&self.key, thing.name, thing.print, is_contested)
    }

    /// Sends the update, and tells how often it was sent for this very difference.
    async fn send_update(&self, thing: &Thing<'_, W>) -> std::result::Result<Tried, Stopped> {
        if let (Some(want), Some(have)) = (thing.want, thing.have) {
            let mark = self.parts.mark(&self.object);
            let update = self.parts.world.update(thing.name, Change { have, want, mark: &mark });
            self.parts.write((&self.key, Verb::Update, thing.name), update).await?;
        }
        Ok(self.parts.ledger.sent(&self.key, thing.name, thing.print))
    }

    async fn delete(&self, thing: &Thing<'_, W>) -> Outcome {
        let Some(have) = thing.have else { return Ok(ThingOutcome::Gone) };
        // Whoever deletes an object means it; that wishes vanish from many objects at once may be a mistake.
        if !self.is_cleanup
            && let Err(wait) = self.parts.pace()
        {
            return Ok(ThingOutcome::Waiting(wait));
        }
        let delete = self.parts.world.delete(thing.name, have);
        self.parts.write((&self.key, Verb::Delete, thing.name), delete).await?;
        self.cx.event(Severity::Normal, "Deleted", format!("{} was removed", thing.name));
        // It may have been kept for an object that is gone, whose record nobody else removes.
        let former = self.parts.recorded_owner(thing.name).filter(|former| self.parts.is_missing(former));
        if let Some(former) = former {
            self.parts.forget_record(&former, thing.name).await?;
        }
        self.forget(thing.name).await
    }

    async fn forget(&self, name: &str) -> Outcome {
        // The annotation goes with the object; records do not.
        if !self.is_cleanup || self.parts.records.is_some() {
            self.parts.forget(&self.object, name).await?;
        }
        if !self.is_cleanup {
            self.parts.clear_lasting(&self.object, name).await?;
        }
        Ok(ThingOutcome::Gone)
    }

    /// Reports drift that is not put right, once; returns how it drifted.
    fn leave_drifted(&self, thing: &Thing<'_, W>) -> String {
        let how = describe_differences(&thing.drift());
        if self.parts.ledger.is_news(&self.key, &format!("{}: {how}", thing.name)) {
            self.report_drift(thing, "left as it is");
        }
        how
    }

    /// Tells people, metrics and the journal.
    fn report_drift(&self, thing: &Thing<'_, W>, what_follows: &str) {
        let differences = thing.drift();
        let target = WorldParts::<W>::target(thing.name).to_string();
        let entry = Entry::Drifted { object: self.key.clone(), target, diff: paths(&differences) };
        self.parts.shared.journal.record(&self.parts.source, entry);
        let what = match thing.have {
            None => "deleted by others".to_owned(),
            Some(_) => format!("changed by others: {}", describe_differences(&differences)),
        };
        let message = format!("{} was {what}; {what_follows}", thing.name);
        self.cx.event(Severity::Warning, "Drifted", message);
    }
}

/// The reason and the words for a thing that does not become as wanted.
fn endured(differences: &[Difference], is_contested: bool) -> (&'static str, String) {
    let (reason, what_happened) = if is_contested {
        (CONTESTED, "somebody else changes it back each time we put it right")
    } else {
        (NOT_TAKEN, "the API accepts our updates, and it stays as it is")
    };
    let how = match describe_differences(differences) {
        // It would be as wanted, and does not keep our mark.
        same if same.is_empty() => format!("it does not show our mark; {what_happened}"),
        how => format!("{how}; {what_happened}"),
    };
    (reason, how)
}
