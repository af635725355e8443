//! What a writer knows about its objects: acknowledged writes, unanswered attempts, and the changes that every watch
//! must have reported.
//!
//! **Invariant:** an unanswered attempt happened completely or not at all. After the writer reads the objects again it
//! knows which, and [`Ledger::settle`] refuses any other outcome.

use std::collections::BTreeMap;

/// An object as the server returned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) uid: String,
    pub(crate) revision: String,
    pub(crate) value: String,
}

/// A write in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    Create(String),
    Replace(String),
    Delete,
}

/// How a watch reports a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Added(String),
    Modified(String),
    Deleted,
}

impl From<Attempt> for Change {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Create(value) => Self::Added(value),
            Attempt::Replace(value) => Self::Modified(value),
            Attempt::Delete => Self::Deleted,
        }
    }
}

#[derive(Debug, Default)]
struct Object {
    current: Option<Version>,
    attempt: Option<Attempt>,
    changes: Vec<Change>,
}

/// The objects of one writer by name.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<String, Object>);

impl Ledger {
    /// Returns the object as last known. Only meaningful if no write is in progress.
    pub(crate) fn current(&self, name: &str) -> Option<&Version> {
        self.0.get(name)?.current.as_ref()
    }

    /// Records a write before it is sent.
    pub(crate) fn attempt(&mut self, name: &str, attempt: Attempt) {
        self.0.entry(name.to_owned()).or_default().attempt = Some(attempt);
    }

    /// Records that the write in progress succeeded.
    pub(crate) fn acknowledge(&mut self, name: &str, version: Option<Version>) {
        let object = self.0.get_mut(name).expect("only what was attempted is acknowledged");
        let attempt = object.attempt.take().expect("only what was attempted is acknowledged");
        object.current = version;
        object.changes.push(attempt.into());
    }

    /// Compares the ledger with the server's objects after a crash, and learns which unanswered attempts happened.
    pub(crate) fn settle(&mut self, observed: &BTreeMap<String, Version>) -> Result<(), String> {
        if let Some(stranger) = observed.keys().find(|name| !self.0.contains_key(*name)) {
            return Err(format!("{stranger} exists, though nobody tried to create it"));
        }
        self.0.iter_mut().try_for_each(|(name, object)| object.settle(name, observed.get(name)))
    }

    /// Returns every change in order, by object.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&String, &Vec<Change>)> {
        self.0.iter().map(|(name, object)| (name, &object.changes)).filter(|(_, changes)| !changes.is_empty())
    }
}

impl Object {
    fn settle(&mut self, name: &str, observed: Option<&Version>) -> Result<(), String> {
        let attempt = self.attempt.take();
        if observed == self.current.as_ref() {
            return Ok(());
        }
        let explains = match (&attempt, &self.current, observed) {
            (Some(Attempt::Create(value)), None, Some(new)) => new.value == *value,
            (Some(Attempt::Replace(value)), Some(old), Some(new)) => {
                new.uid == old.uid && new.value == *value
            }
            (Some(Attempt::Delete), Some(_), None) => true,
            _ => false,
        };
        match attempt {
            Some(attempt) if explains => {
                self.current = observed.cloned();
                self.changes.push(attempt.into());
                Ok(())
            }
            attempt => Err(format!(
                "{name}: acknowledged {:?}, then attempted {attempt:?}, but found {observed:?}",
                self.current
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(revision: &str, value: &str) -> Version {
        Version { uid: "u".to_owned(), revision: revision.to_owned(), value: value.to_owned() }
    }

    /// Acknowledges the creation of `1` at revision 5, attempts a write, crashes and finds `observed`.
    #[track_caller]
    fn check(attempt: Option<Attempt>, observed: Option<Version>, changes: Option<usize>) {
        let mut ledger = Ledger::default();
        ledger.attempt("a", Attempt::Create("1".to_owned()));
        ledger.acknowledge("a", Some(version("5", "1")));
        if let Some(attempt) = attempt {
            ledger.attempt("a", attempt);
        }
        let observed = observed.map(|version| ("a".to_owned(), version)).into_iter().collect();
        let found = ledger.settle(&observed).ok().map(|()| ledger.changes().next().expect("created").1.len());
        assert_eq!(found, changes);
    }

    #[test]
    fn acknowledged_writes_are_there() {
        check(None, Some(version("5", "1")), Some(1));
        check(None, None, None);
        check(None, Some(version("6", "1")), None);
        check(None, Some(version("5", "2")), None);
    }

    #[test]
    fn unanswered_writes_happened_whole_or_not_at_all() {
        let replace = || Some(Attempt::Replace("2".to_owned()));
        check(replace(), Some(version("5", "1")), Some(1));
        check(replace(), Some(version("6", "2")), Some(2));
        check(replace(), Some(version("6", "3")), None);
        check(replace(), None, None);
        check(Some(Attempt::Delete), None, Some(2));
        check(Some(Attempt::Delete), Some(version("5", "1")), Some(1));
        check(Some(Attempt::Delete), Some(version("6", "1")), None);
    }
}
