//! Carries out the steps of a reconcile, one method each, that `decide_step` decided on, reports them to people and
//! records them.
//!
//! **Invariant:** a resource is in the inventory as an intent before it is created, and leaves it after it is deleted.
//! This module never decides whether to take a step.

use std::borrow::Cow;
use std::time::Duration;

use homeostat_core::FieldDiff;
use homeostat_core::journal::{Entry, Verb};

use super::call_limiter::CallStopped;
use super::decide_step::ResourceStep;
use super::difference::{Difference, describe_differences, field_diff, paths};
use super::failure::Failure;
use super::inventory::IntentState;
use super::reconcile_object::{Outcome, WorldRun};
use super::resource_outcomes::{CONTESTED, NOT_TAKEN, ResourceOutcome};
use super::update_attempts::{CorrectionHistory, DifferencePrint};
use super::world_parts::{OutsideWrite, WorldParts};
use super::world_policy::Ownership;
use super::world_trait::{UpdateRequest, World};
use crate::events::Severity;

/// How soon to check a name again if it is taken by a resource that the API does not show yet.
const RELOOK: Duration = Duration::from_secs(5);

/// An external resource: its spec and its state when it was read.
pub(super) struct ExternalResource<'a, W: World> {
    pub(super) name: &'a str,
    pub(super) want: Option<&'a W::Want>,
    pub(super) have: Option<&'a W::Have>,
    pub(super) differences: &'a [Difference],
    /// A hash of the differences.
    pub(super) print: DifferencePrint,
}

impl<W: World> ExternalResource<'_, W> {
    /// Returns the differences; a missing resource is a difference as well.
    fn drift(&self) -> Cow<'_, [Difference]> {
        match self.have {
            None => vec![Difference::new("/", "there", "gone")].into(),
            Some(_) => self.differences.into(),
        }
    }
}

impl<W: World> WorldRun<W> {
    pub(super) async fn take_step(&self, step: ResourceStep, resource: &ExternalResource<'_, W>) -> Outcome {
        match step {
            ResourceStep::Leave => {
                self.parts.memory.took(&self.key, Some(resource.name));
                self.parts.confirm(&self.object, resource.name).await?;
                self.parts.clear_lasting(&self.object, resource.name).await?;
                Ok(ResourceOutcome::Seen)
            }
            ResourceStep::Create { is_drift } => self.create(resource, is_drift).await,
            ResourceStep::Update { is_drift } => self.update(resource, is_drift).await,
            ResourceStep::Adopt => self.adopt(resource).await,
            ResourceStep::Delete => self.delete(resource).await,
            ResourceStep::Report => Ok(ResourceOutcome::Drifted(self.leave_drifted(resource))),
            ResourceStep::Forget => self.forget(resource.name).await,
            ResourceStep::Release(why) => {
                let message = format!("{} is left alone: {why}", resource.name);
                self.cx.event(Severity::Warning, "Released", message);
                self.forget(resource.name).await
            }
            ResourceStep::Wait(after) => Ok(ResourceOutcome::Waiting(after)),
            ResourceStep::Conflict(whom) => Ok(ResourceOutcome::Conflict(whom)),
            ResourceStep::Endure { is_contested, left } => self.endure(resource, is_contested, left).await,
        }
    }

    async fn create(&self, resource: &ExternalResource<'_, W>, is_drift: bool) -> Outcome {
        let Some(want) = resource.want else { return Ok(ResourceOutcome::Gone) };
        if is_drift {
            self.report_drift(resource, "created again");
        }
        let intent = self.parts.intend(&self.object, resource.name, want).await?;
        let mark = self.parts.mark(&self.object);
        let create = self.parts.world.create(resource.name, want, &mark);
        match self.parts.write(self.outside_write(Verb::Create, resource.name), create).await {
            Err(CallStopped::Failed(Failure::Exists)) => {
                return self.conclude_taken_name(resource.name, intent).await;
            }
            answer => answer?,
        }
        self.parts.confirm(&self.object, resource.name).await?;
        self.cx.event(Severity::Normal, "Created", format!("{} was created", resource.name));
        Ok(ResourceOutcome::Written)
    }

    fn outside_write<'a>(&'a self, verb: Verb, name: &'a str) -> OutsideWrite<'a> {
        OutsideWrite { object: &self.key, verb, name, diff: FieldDiff::default() }
    }

    /// Handles a name that is taken by a resource that the last read did not show.
    async fn conclude_taken_name(&self, name: &str, intent: IntentState) -> Outcome {
        if self.parts.records.is_none() || intent == IntentState::Known {
            // Once the API shows it, its mark says who owns it, or it turns out to be the result of an earlier intent.
            return Ok(ResourceOutcome::Waiting(RELOOK));
        }
        // There was no record before and our create was refused: so whatever this resource is, we did not create it.
        self.parts.forget(&self.object, name).await?;
        Ok(ResourceOutcome::Conflict("somebody who made it a moment ago".to_owned()))
    }

    async fn update(&self, resource: &ExternalResource<'_, W>, is_drift: bool) -> Outcome {
        if is_drift {
            self.report_drift(resource, "corrected");
        }
        let tried = self.send_update(resource).await?;
        self.parts.confirm(&self.object, resource.name).await?;
        if tried.count > 1 {
            return self.conclude_repeated_update(resource, tried).await;
        }
        if !is_drift {
            let message =
                format!("{} was changed: {}", resource.name, describe_differences(resource.differences));
            self.cx.event(Severity::Normal, "Updated", message);
        }
        Ok(ResourceOutcome::Seen)
    }

    async fn adopt(&self, resource: &ExternalResource<'_, W>) -> Outcome {
        let Some(want) = resource.want else { return Ok(ResourceOutcome::Gone) };
        self.parts.intend(&self.object, resource.name, want).await?;
        // Records identify the owner by themselves; a mark must be put on the resource.
        if self.parts.policy.ownership != Ownership::Records || !resource.differences.is_empty() {
            let tried = self.send_update(resource).await?;
            if tried.count > 1 {
                return self.conclude_repeated_update(resource, tried).await;
            }
        }
        self.parts.confirm(&self.object, resource.name).await?;
        self.cx.event(Severity::Normal, "Adopted", format!("{} was adopted", resource.name));
        Ok(ResourceOutcome::Seen)
    }

    /// Handles an update that was sent before without visible effect: the fact that it was accepted again says little.
    async fn conclude_repeated_update(
        &self,
        resource: &ExternalResource<'_, W>,
        tried: CorrectionHistory,
    ) -> Outcome {
        let shown = tried.visible_within;
        if tried.is_hopeless() {
            self.endure(resource, tried.has_taken, shown).await
        } else {
            Ok(ResourceOutcome::Waiting(shown))
        }
    }

    /// Leaves a resource alone for a while if updates do not make it match the spec, and records and reports this once.
    async fn endure(
        &self,
        resource: &ExternalResource<'_, W>,
        is_contested: bool,
        after: Duration,
    ) -> Outcome {
        self.parts.note_lasting(&self.object, resource.name, resource.print, is_contested).await?;
        let (reason, how) = describe_endured(resource.differences, is_contested);
        if self.parts.memory.is_news(&self.key, &format!("{reason} {}: {how}", resource.name)) {
            self.cx.event(Severity::Warning, reason, format!("{}: {how}", resource.name));
        }
        // The resource may be repaired externally in the meantime, and the object should say so soon.
        Ok(ResourceOutcome::Endured { reason, how, after: after.min(self.parts.policy.poll) })
    }

    /// Returns a previous process's record of this difference, if this process does not know about it yet.
    pub(super) fn resume(&self, resource: &ExternalResource<'_, W>) -> Option<CorrectionHistory> {
        resource.want.and(resource.have)?;
        let is_contested = self.parts.lasting(&self.object, resource.name, resource.print)?;
        self.parts.memory.resume(&self.key, resource.name, resource.print, is_contested)
    }

    /// Sends the update and returns how often it was sent for this difference.
    async fn send_update(
        &self,
        resource: &ExternalResource<'_, W>,
    ) -> std::result::Result<CorrectionHistory, CallStopped> {
        if let (Some(want), Some(have)) = (resource.want, resource.have) {
            let mark = self.parts.mark(&self.object);
            let update = self.parts.world.update(resource.name, UpdateRequest { have, want, mark: &mark });
            let diff = field_diff(&WorldParts::<W>::target(resource.name), resource.differences);
            let write = OutsideWrite { diff, ..self.outside_write(Verb::Update, resource.name) };
            self.parts.write(write, update).await?;
        }
        Ok(self.parts.memory.sent(&self.key, resource.name, resource.print))
    }

    async fn delete(&self, resource: &ExternalResource<'_, W>) -> Outcome {
        let Some(have) = resource.have else { return Ok(ResourceOutcome::Gone) };
        // A deleted object is supposed to disappear, so deletions of its resources are not limited. If many objects
        // drop resources from their specs at once, this may be a mistake.
        if !self.is_cleanup
            && let Err(wait) = self.parts.count_deletion()
        {
            return Ok(ResourceOutcome::Waiting(wait));
        }
        let delete = self.parts.world.delete(resource.name, have);
        self.parts.write(self.outside_write(Verb::Delete, resource.name), delete).await?;
        self.cx.event(Severity::Normal, "Deleted", format!("{} was removed", resource.name));
        // It may have belonged to an object that is gone; nothing else would remove that object's record.
        let former = self.parts.recorded_owner(resource.name).filter(|former| self.parts.is_missing(former));
        if let Some(former) = former {
            self.parts.forget_record(&former, resource.name).await?;
        }
        self.forget(resource.name).await
    }

    async fn forget(&self, name: &str) -> Outcome {
        // The annotation is deleted with the object; records are not.
        if !self.is_cleanup || self.parts.records.is_some() {
            self.parts.forget(&self.object, name).await?;
        }
        if !self.is_cleanup {
            self.parts.clear_lasting(&self.object, name).await?;
        }
        Ok(ResourceOutcome::Gone)
    }

    /// Reports drift that is not corrected, once; returns a description of it.
    fn leave_drifted(&self, resource: &ExternalResource<'_, W>) -> String {
        let how = describe_differences(&resource.drift());
        if self.parts.memory.is_news(&self.key, &format!("{}: {how}", resource.name)) {
            self.report_drift(resource, "left as it is");
        }
        how
    }

    /// Reports drift to people, metrics and the journal.
    fn report_drift(&self, resource: &ExternalResource<'_, W>, what_follows: &str) {
        let differences = resource.drift();
        let target = WorldParts::<W>::target(resource.name).to_string();
        let entry = Entry::Drifted { object: self.key.clone(), target, diff: paths(&differences) };
        self.parts.shared.journal.record(&self.parts.source, entry);
        let what = match resource.have {
            None => "deleted by others".to_owned(),
            Some(_) => format!("changed by others: {}", describe_differences(&differences)),
        };
        let message = format!("{} was {what}; {what_follows}", resource.name);
        self.cx.event(Severity::Warning, "Drifted", message);
    }
}

/// Returns the reason and the message for a resource that updates do not make match the spec.
fn describe_endured(differences: &[Difference], is_contested: bool) -> (&'static str, String) {
    let (reason, what_happened) = if is_contested {
        (CONTESTED, "somebody else reverts our update each time")
    } else {
        (NOT_TAKEN, "the API accepts our updates but does not change it")
    };
    let how = match describe_differences(differences) {
        // It matches the spec but does not keep our mark.
        same if same.is_empty() => format!("it does not carry our mark; {what_happened}"),
        how => format!("{how}; {what_happened}"),
    };
    (reason, how)
}
