//! A folder that can fail: any one call returns an error, or the power goes at any one call.
//!
//! What is written is *seen* at once and *durable* after a sync, as on a real system. After a power cut the unsynced
//! sectors of each file are there or not, as a seed decides, and so are the last changes of names. After a failed
//! sync, a later one succeeds without making anything durable: that is what kernels do.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use homeostat_core::Entropy;
use homeostat_store::disk::files::{File, Files};

const SECTOR_BYTES: usize = 512;

/// What goes wrong, at the call with this number (from 1).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The call fails, having done nothing; later ones succeed.
    Fails(usize),
    /// The call fails, having done half of it; later ones succeed.
    FailsHalfDone(usize),
    /// The call is the last one before the power goes.
    PowerCut(usize),
}

/// What is left after a power cut or a crash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The process died, the system lives: everything seen.
    Everything,
    /// Only what was synced.
    Synced,
    /// What was synced, and some of the rest.
    Torn(u64),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    contents: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// The states `names` went through since they were last synced.
    name_changes: Vec<BTreeMap<String, usize>>,
    calls: usize,
    fault: Option<Fault>,
}

#[derive(Debug, Default)]
struct Contents {
    /// What can be read, reserved zeros at the end included.
    seen: Vec<u8>,
    /// Where the next bytes go.
    written: usize,
    /// `written` and the length when it was last synced.
    durable_bytes: usize,
    durable_length: usize,
    /// A sync failed: nothing more becomes durable.
    is_lost: bool,
}

/// How a call goes.
enum Fate {
    Succeeds,
    Fails,
    FailsHalfDone,
}

impl Simulated {
    /// A folder with these files, all durable.
    pub(crate) fn of(files: BTreeMap<String, Vec<u8>>) -> Self {
        let simulated = Self::default();
        let mut state = simulated.lock();
        for (name, seen) in files {
            let place = state.contents.len();
            let length = seen.len();
            state.contents.push(Contents {
                seen,
                written: length,
                durable_bytes: length,
                durable_length: length,
                is_lost: false,
            });
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

    /// Gives a checkpoint that is due or being written the time to become whole, so that scripts run through about
    /// the same calls every time. A log of more than `logs_max` files means that one is due.
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

    /// Everything that can be seen.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        state.names.iter().map(|(name, place)| (name.clone(), state.contents[*place].seen.clone())).collect()
    }

    /// The folder as the next process finds it.
    pub(crate) fn after(&self, left: Left) -> Self {
        let Left::Torn(seed) = left else { return Self::of(self.settled(left)) };
        let state = self.lock();
        let entropy = Entropy::seeded(seed);
        let choice = index_below(&entropy, state.name_changes.len() + 1);
        let names = choice.checked_sub(1).map_or(&state.durable_names, |change| &state.name_changes[change]);
        let torn = |place: &usize| tear(&state.contents[*place], &entropy);
        Self::of(names.iter().map(|(name, place)| (name.clone(), torn(place))).collect())
    }

    fn settled(&self, left: Left) -> BTreeMap<String, Vec<u8>> {
        if matches!(left, Left::Everything) {
            return self.files();
        }
        let state = self.lock();
        let durable = |place: usize| {
            let contents = &state.contents[place];
            let mut durable = contents.seen[..contents.durable_bytes].to_vec();
            durable.resize(contents.durable_length, 0);
            durable
        };
        state.durable_names.iter().map(|(name, place)| (name.clone(), durable(*place))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// Counts a call and says how it goes.
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

    /// Changes names, unless the call is to fail.
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

/// Unsynced sectors kept or lost by chance; a length that was not synced may also be lost.
fn tear(contents: &Contents, entropy: &Entropy) -> Vec<u8> {
    let grown = contents.seen.len() - contents.durable_length;
    let length = contents.durable_length + index_below(entropy, grown + 1);
    let length = if entropy.below(2) == 0 { contents.seen.len() } else { length };
    let mut torn = contents.seen[..length].to_vec();
    let mut at = contents.durable_bytes;
    while at < length {
        let to = length.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if entropy.below(2) == 0 {
            torn[at..to].fill(0);
        }
        at = to;
    }
    torn
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
            let place = state.contents.len();
            state.contents.push(Contents::default());
            state.names.insert(name.to_owned(), place);
            Ok(())
        })?;
        let place = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimulatedFile { folder: self.clone(), place }))
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
}

impl File for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        let done = match fate {
            Fate::Succeeds => bytes.len(),
            Fate::Fails => 0,
            Fate::FailsHalfDone => bytes.len() / 2,
        };
        let contents = &mut state.contents[self.place];
        let (from, to) = (contents.written, contents.written + done);
        contents.seen.resize(contents.seen.len().max(to), 0);
        contents.seen[from..to].copy_from_slice(&bytes[..done]);
        contents.written = to;
        if done == bytes.len() { Ok(()) } else { Err(no_space()) }
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        if !matches!(fate, Fate::Succeeds) {
            return Err(no_space());
        }
        state.contents[self.place].seen.resize(usize::try_from(bytes).expect("small"), 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let (mut state, fate) = self.folder.begin()?;
        let contents = &mut state.contents[self.place];
        contents.is_lost |= !matches!(fate, Fate::Succeeds);
        if !contents.is_lost {
            contents.durable_bytes = contents.written;
            contents.durable_length = contents.seen.len();
        }
        if matches!(fate, Fate::Succeeds) { Ok(()) } else { Err(io::Error::other("input/output error")) }
    }
}
