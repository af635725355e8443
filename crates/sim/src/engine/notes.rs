//! Records what happens while a schedule runs: points and their faults, lines of the timeline, changes and their
//! writers.

use std::sync::Arc;

use homeostat_store::Store;
use tokio::time::Instant;

use super::calls::ASIDE;
use super::parking::ProcessNumber;
use super::record::{Actor, Change, Point, PointKind, TimelineLine, shown_time};
use super::run::ScheduleRun;
use crate::address::CallTarget;
use crate::fault::Fault;
use crate::state;

/// Who made a write, when they decided on it, and how it was sent.
pub(crate) struct WriteAttribution {
    pub(crate) actor: Actor,
    /// The number of steps the user had done when the write was decided on; `None` means the current number.
    pub(crate) step: Option<usize>,
    pub(crate) subresource: Option<Arc<str>>,
    pub(crate) is_guarded: bool,
}

impl WriteAttribution {
    pub(crate) fn plain(actor: Actor) -> Self {
        Self { actor, step: None, subresource: None, is_guarded: true }
    }
}

impl ScheduleRun<'_> {
    /// Records a point and returns the faults that are planned there.
    pub(crate) fn visit(&mut self, name: &str, kind: PointKind, object: &str) -> Vec<Fault> {
        let count = self.occurrences.entry(name.to_owned()).or_insert(0);
        *count += 1;
        let address: Arc<str> = if *count == 1 { name.into() } else { format!("{name} #{count}").into() };
        self.hasher.update(address.as_bytes());
        self.hasher.update(&self.now().as_millis().to_le_bytes());
        let plan = self.options.plan;
        let taken = plan.iter().enumerate().filter(|(_, deviation)| *deviation.at == *address);
        let taken: Vec<(usize, Fault)> = taken.map(|(at, deviation)| (at, deviation.fault.clone())).collect();
        let point = Point { address, kind, object: object.into(), step: self.step };
        self.record.points.push(point);
        self.record.taken.extend(taken.iter().map(|(at, _)| *at));
        taken.into_iter().map(|(_, fault)| fault).collect()
    }

    /// Adds a line to the timeline, if one is written.
    pub(crate) fn tell(&mut self, actor: &str, is_fault: bool, text: impl FnOnce() -> String) {
        if self.options.is_told {
            let line = TimelineLine {
                at: self.now(),
                actor: actor.to_owned(),
                text: text(),
                is_fault,
                revision: None,
            };
            self.record.lines.push(line);
        }
    }

    /// Records the changes of the store since the last call, attributed to their writer. Returns their number.
    pub(crate) fn note_changes(&mut self, attribution: &WriteAttribution) -> usize {
        let events = self.store.changes_after(self.noted).expect("a schedule is shorter than history");
        let after = self.store.snapshot();
        self.noted = after.revision();
        let at = self.now();
        for event in &events {
            let is_known = match (attribution.actor, &event.old) {
                (Actor::Operator(number), Some(old))
                    if event.new.is_none() || attribution.subresource.is_some() =>
                {
                    let uid = state::uid_of(old);
                    self.process(number).is_some_and(|process| process.known.contains(&uid))
                }
                _ => true,
            };
            let has_two_writers = self.has_two_writers(attribution.actor, event);
            self.server_history.observe(event);
            self.hasher.update(event.key.as_str().as_bytes());
            self.hasher.update(&event.revision.get().to_le_bytes());
            if self.options.has_fingerprints {
                let answers = &self.template.answers;
                let fingerprint = answers.fingerprint(&self.server_history, || state::fingerprint(event));
                self.record.fingerprints.push(fingerprint);
            }
            self.record.changes.push(Change {
                actor: attribution.actor,
                at,
                step: attribution.step.unwrap_or(self.step),
                event: Arc::clone(event),
                after: after.clone(),
                is_known,
                has_two_writers,
                subresource: attribution.subresource.clone(),
                is_guarded: attribution.is_guarded,
            });
        }
        let is_aside = |event: &Arc<homeostat_store::Event>| ASIDE.contains(&event.key.resource());
        if !events.iter().all(is_aside) {
            self.last_write = Instant::now();
            self.operations_at_write = self.record.operations;
            if matches!(attribution.actor, Actor::Operator(_)) {
                self.writes_since_step += events.len() as u64;
            }
            self.note_activity();
        }
        events.len()
    }

    /// Returns whether another process wrote the same object last, although no lease has changed hands since.
    fn has_two_writers(&mut self, actor: Actor, event: &homeostat_store::Event) -> bool {
        let Actor::Operator(number) = actor else { return false };
        if self.setup.replicas < 2 || !self.uses_leases || ASIDE.contains(&event.key.resource()) {
            return false;
        }
        // Only the user's objects are checked: an object that several of them share may legitimately have several
        // writers.
        let name = state::shown_key(&event.key);
        if !self.setup.givens.iter().chain(&self.setup.steps).any(|step| step.object() == name) {
            return false;
        }
        let before = self.last_writers.insert(name, (number, self.lease_changes));
        let Some((other, changes)) = before else { return false };
        let is_alive = self.processes.iter().any(|one| one.number == other);
        other != number && changes == self.lease_changes && is_alive
    }

    /// Records an accepted write, whether or not it changed anything, by a process that is not the leader.
    pub(crate) fn note_turn(&mut self, number: ProcessNumber, target: &CallTarget) {
        let is_judged = self.setup.replicas > 1 && self.uses_leases && !ASIDE.contains(&&*target.plural);
        if is_judged && target.verb.is_write() && self.is_deposed(number) {
            let text = format!(
                "\"{}\" is done by {} at +{} while another process holds the lease",
                target.shown(),
                Actor::Operator(number).shown(),
                shown_time(self.now())
            );
            self.record.deposed_writes.push((target.object(), text));
        }
    }

    /// Returns whether another process holds the lease under which this one writes.
    fn is_deposed(&self, number: ProcessNumber) -> bool {
        let snapshot = self.store.snapshot();
        let prefix = homeostat_core::Prefix::resource("coordination.k8s.io", "leases");
        let mut is_led_by_others = false;
        for entry in snapshot.range(&prefix, "").filter(|entry| entry.revision > self.template.born) {
            let lease: serde_json::Value = serde_json::from_slice(&entry.bytes).unwrap_or_default();
            match lease["spec"]["holderIdentity"].as_str().and_then(|holder| self.holders.get(holder)) {
                Some(holder) if *holder == number => return false,
                Some(holder) => is_led_by_others |= self.processes.iter().any(|one| one.number == *holder),
                None => {}
            }
        }
        is_led_by_others
    }
}
