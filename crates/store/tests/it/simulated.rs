//! A simulated folder that can fail: any one call returns an error, or the power fails at any one call.
//!
//! Written data is *seen* at once and *durable* after a sync, as on a real system. After a power cut, each unsynced
//! sector is either written or not, and so is each recent rename, depending on the seed. After a failed sync, a later
//! one succeeds without making durable the data that the failed one should have, unless that data is written again;
//! kernels behave like this.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use homeostat_core::Entropy;
use homeostat_store::disk::files::{File, Files};

const SECTOR_BYTES: usize = 512;

/// The fault that occurs, at the call with this number (from 1).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The call fails without any effect; later ones succeed.
    Fails(usize),
    /// The call fails after half of its effect, up to the end of a sector; later ones succeed.
    FailsHalfDone(usize),
    /// The call is the last one before the power fails.
    PowerCut(usize),
    /// The disk is full: from this call on, no file is created and none grows.
    Full(usize),
}

/// What remains after a power cut or a crash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The process died but the system is still running: everything seen remains, and the disk holds what it held
    /// before.
    Everything,
    /// Only synced data remains.
    Synced,
    /// Synced data and some of the rest remain.
    Torn(u64),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    contents: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// The states of `names` since they were last synced.
    name_changes: Vec<BTreeMap<String, usize>>,
    calls: usize,
    fault: Option<Fault>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    /// The data that can be read, including reserved zeros at the end.
    seen: Vec<u8>,
    /// The data on the disk.
    durable: Vec<u8>,
    /// The sectors that the next sync writes. They are forgotten even if it fails.
    dirty: BTreeSet<usize>,
}

impl Contents {
    fn write(&mut self, from: usize, bytes: &[u8]) {
        let to = from + bytes.len();
        self.seen.resize(self.seen.len().max(to), 0);
        self.seen[from..to].copy_from_slice(bytes);
        self.dirty.extend(from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES));
    }

    /// Writes a sector to the disk as it is seen.
    fn settle(seen: &[u8], durable: &mut Vec<u8>, sector: usize) {
        let from = sector * SECTOR_BYTES;
        let to = seen.len().min(from + SECTOR_BYTES);
        durable.resize(durable.len().max(to), 0);
        durable[from..to].copy_from_slice(&seen[from..to]);
    }

    fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            Self::settle(&self.seen, &mut self.durable, sector);
        }
    }

    /// Returns the contents after a power cut: a random subset of the sectors that differ is written. A length that was
    /// not synced may also be lost.
    fn torn(&self, entropy: &Entropy) -> Vec<u8> {
        let grown = self.seen.len() - self.durable.len();
        let length = self.durable.len() + index_below(entropy, grown + 1);
        let length = if entropy.below(2) == 0 { self.seen.len() } else { length };
        let mut torn = self.durable.clone();
        torn.resize(length, 0);
        let seen = &self.seen[..length];
        for sector in 0..length.div_ceil(SECTOR_BYTES) {
            if entropy.below(2) == 0 {
                Self::settle(seen, &mut torn, sector);
            }
        }
        torn
    }
}

/// The outcome of a call.
enum Fate {
    Succeeds,
    Fails,
    FailsHalfDone,
}

impl Simulated {
    /// Returns a folder with these files, all durable.
    pub(crate) fn of(files: BTreeMap<String, Vec<u8>>) -> Self {
        let simulated = Self::default();
        let mut state = simulated.lock();
        for (name, seen) in files {
            let place = state.contents.len();
            state.contents.push(Contents { durable: seen.clone(), seen, dirty: BTreeSet::new() });
            state.names.insert(name, place);
        }
        state.durable_names = state.names.clone();
        drop(state);
        simulated
    }

    pub(crate) fn with_fault(self, fault: Fault) -> Self {
        self.lock().fault = Some(fault);
        self
    }

    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Gives a checkpoint that is due or being written time to complete, so that scripts perform about the same calls
    /// every time. A log of more than `logs_max` files means that one is due.
    pub(crate) async fn let_checkpoint_finish(&self, logs_max: usize) {
        const PATIENCE: usize = 2000;
        for _ in 0..PATIENCE {
            let names: Vec<_> = self.lock().names.keys().cloned().collect();
            let is_writing = |name: &String| name.starts_with("checkpoint-") && name.ends_with(".unfinished");
            let logs = names.iter().filter(|name| name.starts_with("log-")).count();
            if logs <= logs_max && !names.iter().any(is_writing) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns all files as they are seen.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        state.names.iter().map(|(name, place)| (name.clone(), state.contents[*place].seen.clone())).collect()
    }

    /// Returns the folder as the next process finds it.
    pub(crate) fn after(&self, left: Left) -> Self {
        let state = self.lock();
        let with = |names: &BTreeMap<String, usize>, contents: &dyn Fn(&Contents) -> Vec<u8>| {
            let file = |(name, place): (&String, &usize)| (name.clone(), contents(&state.contents[*place]));
            Self::of(names.iter().map(file).collect())
        };
        match left {
            Left::Everything => Self(Arc::new(Mutex::new(State { calls: 0, fault: None, ..state.clone() }))),
            Left::Synced => with(&state.durable_names, &|contents| contents.durable.clone()),
            Left::Torn(seed) => {
                let entropy = Entropy::seeded(seed);
                let choice = index_below(&entropy, state.name_changes.len() + 1);
                let durable = &state.durable_names;
                let names = choice.checked_sub(1).map_or(durable, |change| &state.name_changes[change]);
                with(names, &|contents| contents.torn(&entropy))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Counts a call and returns its outcome.
    fn begin(&self) -> io::Result<(MutexGuard<'_, State>, Fate)> {
        let mut state = self.lock();
        state.calls += 1;
        let calls = state.calls;
        let fate = match state.fault {
            Some(Fault::PowerCut(at)) if calls > at => return Err(io::Error::other("the power is out")),
            Some(Fault::Fails(at)) if calls == at => Fate::Fails,
            Some(Fault::FailsHalfDone(at)) if calls == at => Fate::FailsHalfDone,
            _ => Fate::Succeeds,
        };
        Ok((state, fate))
    }

    /// Returns whether the disk is full for the call that has just begun.
    fn is_full(state: &State) -> bool {
        matches!(state.fault, Some(Fault::Full(at)) if state.calls >= at)
    }

    /// Changes names, unless the call must fail.
    fn change(&self, change: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let (mut state, fate) = self.begin()?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(no_space());
        }
        change(&mut state)?;
        let names = state.names.clone();
        state.name_changes.push(names);
        Ok(())
    }
}

fn no_space() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
}

fn index_below(entropy: &Entropy, bound: usize) -> usize {
    usize::try_from(entropy.below(bound as u64)).expect("below a small number")
}

impl Files for Simulated {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let state = self.lock();
        let place = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(state.contents[place].seen.clone())))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.change(|state| {
            if Self::is_full(state) {
                return Err(no_space());
            }
            let place = state.contents.len();
            state.contents.push(Contents::default());
            state.names.insert(name.to_owned(), place);
            Ok(())
        })?;
        let place = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimulatedFile { folder: self.clone(), place, end: 0, blank_to: 0 }))
    }

    fn reopen(&self, name: &str, at: u64) -> io::Result<Box<dyn File>> {
        let (state, fate) = self.begin()?;
        let place = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let at = usize::try_from(at).expect("small");
        Ok(Box::new(SimulatedFile { folder: self.clone(), place, end: at, blank_to: at }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|state| {
            let place = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.names.insert(to.to_owned(), place);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|state| state.names.remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into()))
    }

    fn sync_names(&self) -> io::Result<()> {
        let (mut state, fate) = self.begin()?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(io::Error::other("input/output error"));
        }
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn place(&self) -> String {
        "simulated".to_owned()
    }
}

#[derive(Debug)]
struct SimulatedFile {
    folder: Simulated,
    place: usize,
    /// The position at which the next bytes are written.
    end: usize,
    /// If this is greater than `end`, the file is filled with zeros up to here.
    blank_to: usize,
}

impl File for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        if Simulated::is_full(&state) && self.end + bytes.len() > state.contents[self.place].seen.len() {
            return Err(no_space());
        }
        let done = match fate {
            Fate::Succeeds => bytes.len(),
            Fate::Fails => 0,
            Fate::FailsHalfDone => {
                let middle = self.end + bytes.len() / 2;
                (middle - middle % SECTOR_BYTES).saturating_sub(self.end)
            }
        };
        state.contents[self.place].write(self.end, &bytes[..done]);
        self.end += done;
        if done == bytes.len() { Ok(()) } else { Err(no_space()) }
    }

    fn rewrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(io::Error::other("input/output error"));
        }
        state.contents[self.place].write(0, bytes);
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(no_space());
        }
        let from = self.end.max(self.blank_to);
        let to = from.max(usize::try_from(bytes).expect("small"));
        if Simulated::is_full(&state) && to > state.contents[self.place].seen.len() {
            return Err(no_space());
        }
        state.contents[self.place].write(from, &vec![0; to - from]);
        self.blank_to = to;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        let contents = &mut state.contents[self.place];
        if !matches!(fate, Fate::Succeeds) {
            contents.dirty.clear();
            return Err(io::Error::other("input/output error"));
        }
        contents.sync();
        Ok(())
    }
}
