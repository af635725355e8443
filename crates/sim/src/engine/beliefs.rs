//! Adds the operators' own journals to the timeline: what they reconcile, where their caches are out of date, and how
//! each run ended. Does nothing unless a timeline is written.

use homeostat_core::canonical_state::CUSTOM_GROUP_PREFIX;
use homeostat_core::journal::{Entry, FaultClass, Record, RequestedNext};
use homeostat_core::{Key, Revision};
use homeostat_store::Store;

use super::run::ScheduleRun;
use crate::state::shown_key;

impl ScheduleRun<'_> {
    /// Adds the journal records since the last call to the timeline.
    pub(crate) fn tell_journals(&mut self) {
        if !self.options.is_told {
            return;
        }
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let (number, is_tested) = (process.number, process.is_tested());
            let records = std::mem::take(&mut process.journal().records);
            for record in records {
                self.hasher.update(format!("{record:?}").as_bytes());
                if let Entry::Observed { object, revision, .. } = &record.entry {
                    self.processes[at].cached.insert(object.to_string(), *revision);
                }
                let words = if is_tested { self.words_of(at, &record) } else { None };
                if let Some(words) = words {
                    let actor = self.shown_process(number);
                    self.tell(&actor, false, || words);
                }
            }
        }
    }

    fn words_of(&self, at: usize, record: &Record) -> Option<String> {
        match &record.entry {
            Entry::Started { object, .. } => {
                let believed = self.processes[at].cached.get(&object.to_string()).copied();
                let belief = self.belief(object, believed);
                Some(format!("reconciles {}{belief}", shown_key(object)))
            }
            Entry::Read { read, revision, .. } => {
                let belief = self.belief(read, *revision);
                (!belief.is_empty()).then(|| format!("reads {} from its cache{belief}", shown_key(read)))
            }
            Entry::Failed { error, fault, .. } => {
                let next = match fault {
                    FaultClass::Terminal => "gives up until it changes".to_owned(),
                    FaultClass::Retry { after } | FaultClass::Panic { after } => {
                        format!("tries again in {:.1}s", after.as_secs_f64())
                    }
                };
                Some(format!("fails: {error}; {next}"))
            }
            Entry::Settled { next: RequestedNext::AwaitChange, .. } => {
                Some("is done and waits for a change".to_owned())
            }
            Entry::Settled { next: RequestedNext::Requeue { after }, .. } => {
                Some(format!("is done and comes back in {:.1}s", after.as_secs_f64()))
            }
            Entry::Cancelled { object, .. } => {
                Some(format!("is cut off while it reconciles {}", shown_key(object)))
            }
            _ => None,
        }
    }

    /// Returns what the operator believes about an object; empty if that is still true.
    fn belief(&self, key: &Key, believed: Option<Revision>) -> String {
        let snapshot = self.store.snapshot();
        let custom = Key::new(
            &format!("{CUSTOM_GROUP_PREFIX}{}", key.group()),
            key.resource(),
            key.namespace(),
            key.name(),
        );
        let stored = snapshot.get(key).or_else(|| snapshot.get(&custom)).map(|entry| entry.revision);
        match (believed, stored) {
            (Some(believed), Some(stored)) if believed < stored => {
                format!(" — it believes r{believed}, the server has r{stored}")
            }
            (Some(believed), None) => format!(" — it believes r{believed}, but the object is gone"),
            (None, Some(stored)) => format!(" — it believes there is none, the server has r{stored}"),
            _ => String::new(),
        }
    }
}
