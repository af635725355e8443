//! Assigns user and group IDs to Pods when the node is root.
//!
//! Each Pod gets its own block of IDs, and so does each volume claim, whose files outlive Pods. The last ID of a block
//! is the user of containers that name none. The others are stand-ins for IDs that a Pod names but that belong to a
//! user of the machine: inside a user namespace the container sees the ID it asked for, while outside it has the
//! stand-in.
//!
//! **Invariants:** two existing holders never share a block, not even across servers on this machine. A block is
//! recorded where it is used, as the owner of the holder's folder, so that a server finds it again after a restart. The
//! registry folder only decides who was first.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use homeostat_core::hash::fnv_32;
use rustix::fs::{Gid, Mode, Uid};

use super::supervisor::node_layout::NodeLayout;
use super::supervisor::protocol::IdRange;
use super::supervisor::safe_path;

/// The first ID of all blocks. From here to the largest ID that Kubernetes accepts, systemd's table of IDs says
/// "unused"; users, services and other programs' containers have lower IDs.
const FIRST: u32 = 0x7000_0000;
/// The number of IDs in a block: those that users and services usually have, and a few more.
const BLOCK_IDS: u32 = 1 << 15;
/// The number of blocks: as many as fit, which is more than a node's Pods and their claims need.
const BLOCKS: u32 = 1 << 13;
/// IDs below this one have a stand-in at the same offset in the block.
const STOOD_IN_MAX: u32 = BLOCK_IDS - 2;
/// The ID of `nobody` on every system. Its stand-in is the second-to-last ID of the block.
pub(crate) const NOBODY: u32 = 65_534;
/// The folder in which all servers on this machine see which blocks are taken. It is emptied at boot, when nothing
/// runs.
const REGISTRY: &str = "/run/homeostat-users";
/// The mode of a Pod's folder: only its group may traverse it.
const POD_MODE: Mode = Mode::from_raw_mode(0o710);

/// The IDs of one Pod or claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdBlock(u32);

impl IdBlock {
    /// Returns the block that contains an ID.
    pub(crate) fn containing(id: u32) -> Option<Self> {
        id.checked_sub(FIRST).map(|distance| Self(distance / BLOCK_IDS)).filter(|block| block.0 < BLOCKS)
    }

    fn first(self) -> u32 {
        FIRST + self.0 * BLOCK_IDS
    }

    /// Returns the user and group of containers that name none.
    pub(crate) fn user(self) -> u32 {
        self.first() + BLOCK_IDS - 1
    }

    /// Returns the ID that stands in for this one on the machine; `None` if it is too large to have a stand-in.
    pub(crate) fn stand_in(self, id: u32) -> Option<u32> {
        match id {
            NOBODY => Some(self.first() + STOOD_IN_MAX),
            id => (id < STOOD_IN_MAX).then(|| self.first() + id),
        }
    }

    /// Returns the ID in this block that corresponds to an ID in another block.
    pub(crate) fn counterpart(self, id: u32) -> u32 {
        self.first() + (id - FIRST) % BLOCK_IDS
    }

    /// Returns the mappings of a user namespace: stand-ins to the IDs they stand for, and some IDs to themselves.
    pub(crate) fn ranges(self, as_they_are: &[u32]) -> Vec<IdRange> {
        let mut plain: Vec<u32> = as_they_are.iter().copied().chain([self.user()]).collect();
        plain.sort_unstable();
        plain.dedup();
        let mut ranges: Vec<IdRange> =
            plain.iter().map(|id| IdRange { inside: *id, outside: *id, count: 1 }).collect();
        let mut from = 0;
        for stop in plain.iter().copied().filter(|id| *id < STOOD_IN_MAX).chain([STOOD_IN_MAX]) {
            let range = IdRange { inside: from, outside: self.first() + from, count: stop - from };
            ranges.extend((range.count > 0).then_some(range));
            from = stop + 1;
        }
        if !plain.contains(&NOBODY) {
            ranges.push(IdRange { inside: NOBODY, outside: self.first() + STOOD_IN_MAX, count: 1 });
        }
        ranges
    }
}

/// Returns whether this is one of the IDs that only this program assigns.
pub(crate) fn is_reserved(id: u32) -> bool {
    IdBlock::containing(id).is_some()
}

/// Returns some ranges, to test whether a user namespace can map them.
pub(crate) fn sample_ranges() -> Vec<IdRange> {
    IdBlock(0).ranges(&[])
}

/// Assigns blocks.
pub(crate) struct IdBlocks {
    registry: PathBuf,
    /// Held while choosing and taking a block.
    choosing: Mutex<()>,
}

/// The folder of the Pod or claim that has a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockHolder<'a> {
    /// A Pod's folder: closed except to the Pod's group, which records the block.
    Pod(&'a Path),
    /// A claim's folder: it belongs to the claim's user, which records the block.
    Claim(&'a Path),
}

impl BlockHolder<'_> {
    fn folder(&self) -> &Path {
        match self {
            Self::Pod(folder) | Self::Claim(folder) => folder,
        }
    }

    /// Returns the block that is recorded for it.
    pub(crate) fn recorded(&self) -> Option<IdBlock> {
        let meta = fs::symlink_metadata(self.folder()).ok()?;
        IdBlock::containing(match self {
            Self::Pod(_) => meta.gid(),
            Self::Claim(_) => meta.uid(),
        })
    }

    /// Records its block.
    pub(crate) fn record(&self, block: IdBlock) -> io::Result<()> {
        let folder = safe_path::open_or_make_folder(self.folder())?;
        let (user, group) = (Uid::from_raw(block.user()), Gid::from_raw(block.user()));
        match self {
            Self::Pod(_) => {
                rustix::fs::fchown(&folder, None, Some(group))?;
                rustix::fs::fchmod(&folder, POD_MODE)?;
            }
            Self::Claim(_) => rustix::fs::fchown(&folder, Some(user), Some(group))?,
        }
        Ok(())
    }
}

impl IdBlocks {
    /// Opens the registry of the whole machine, or one in this node's folder if the machine has no place for it.
    pub(crate) fn open(layout: &NodeLayout) -> Self {
        Self::registered_in(Path::new(REGISTRY)).unwrap_or_else(|error| {
            tracing::info!(%error, "cannot share the registry of Pod users with other servers of this machine");
            Self { registry: layout.root().join("users"), choosing: Mutex::default() }
        })
    }

    fn registered_in(registry: &Path) -> io::Result<Self> {
        /// Everyone may see which blocks are taken.
        const MODE: u32 = 0o755;
        match fs::DirBuilder::new().mode(MODE).create(registry) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // If it belonged to a different user, they could make two servers assign the same block.
        let meta = fs::symlink_metadata(registry)?;
        let is_ours = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || meta.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!(
                "{} does not belong to this user alone",
                registry.display()
            )));
        }
        Ok(Self { registry: registry.to_owned(), choosing: Mutex::default() })
    }

    /// Returns a holder's block (the recorded one or a free one) and whether it is new.
    pub(crate) fn block_for(&self, holder: BlockHolder<'_>) -> io::Result<(IdBlock, bool)> {
        let _choosing = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(&self.registry)?;
        // The folder is created first, because a holder without a folder counts as gone.
        drop(safe_path::open_or_make_folder(holder.folder())?);
        if let Some(block) = holder.recorded()
            && self.take(block, holder.folder())?
        {
            return Ok((block, false));
        }
        let start = search_start(holder.folder());
        for step in 0..BLOCKS {
            let block = IdBlock((start + step) % BLOCKS);
            if self.take(block, holder.folder())? {
                holder.record(block)?;
                return Ok((block, true));
            }
        }
        Err(io::Error::other(format!("all {BLOCKS} blocks of user IDs are taken: delete Pods or claims")))
    }

    /// Takes a block for a folder, unless another existing folder has it.
    fn take(&self, block: IdBlock, folder: &Path) -> io::Result<bool> {
        let entry = self.registry.join(block.0.to_string());
        loop {
            match fs::read_link(&entry) {
                Ok(holder) if holder == folder => return Ok(true),
                Ok(holder) if folder_has_block(&holder, block) => return Ok(false),
                Ok(_) => fs::remove_file(&entry).or_else(not_found)?,
                Err(error) => not_found(error)?,
            }
            match symlink(folder, &entry) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| true),
            }
        }
    }
}

fn not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Returns whether a folder has this block. A folder that exists but has no block is about to get one.
fn folder_has_block(folder: &Path, block: IdBlock) -> bool {
    let Ok(meta) = fs::symlink_metadata(folder) else { return false };
    let blocks = [meta.uid(), meta.gid()].map(IdBlock::containing);
    blocks.contains(&Some(block)) || blocks == [None, None]
}

/// Returns where the search for a free block begins. It depends on the folder, so that an ID is not reused soon.
fn search_start(folder: &Path) -> u32 {
    let hash = fnv_32(folder.as_os_str().as_encoded_bytes());
    (hash ^ (hash >> 16)) % BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_are_of_one_block_and_taken_by_kubernetes() {
        let last = IdBlock(BLOCKS - 1);
        assert_eq!(last.user(), i32::MAX.unsigned_abs(), "the largest number there is");
        assert_eq!([FIRST - 1, last.user() + 1, 0, NOBODY].map(IdBlock::containing), [None; 4]);
        for block in [IdBlock(0), IdBlock(7), last] {
            let own = [block.user(), block.stand_in(0).unwrap(), block.stand_in(NOBODY).unwrap()];
            assert_eq!(own.map(IdBlock::containing), [Some(block); 3]);
            assert_eq!(block.stand_in(STOOD_IN_MAX), None);
            assert_eq!(
                IdBlock(3).counterpart(block.stand_in(1000).unwrap()),
                IdBlock(3).stand_in(1000).unwrap()
            );
        }
    }

    /// The kernel does not accept overlapping ranges, inside or outside.
    #[test]
    fn ranges_show_every_number_once() {
        for plain in [&[][..], &[0], &[1000, 2000, 1000], &[STOOD_IN_MAX - 1, NOBODY], &[40_000, 5]] {
            let ranges = IdBlock(2).ranges(plain);
            let at = |id: u32| {
                let found =
                    ranges.iter().filter(|range| (range.inside..range.inside + range.count).contains(&id));
                found.map(|range| range.outside + (id - range.inside)).collect::<Vec<_>>()
            };
            for id in plain {
                assert_eq!(at(*id), [*id], "{plain:?}");
            }
            for id in [0, 999, 1000, STOOD_IN_MAX - 1, NOBODY].iter().filter(|id| !plain.contains(id)) {
                assert_eq!(at(*id), [IdBlock(2).stand_in(*id).unwrap()], "{plain:?}");
            }
            assert_eq!(at(IdBlock(2).user()), [IdBlock(2).user()]);
            let mut outside: Vec<u32> =
                ranges.iter().flat_map(|range| range.outside..range.outside + range.count).collect();
            let count = outside.len();
            outside.sort_unstable();
            outside.dedup();
            assert_eq!(outside.len(), count, "{plain:?}");
        }
    }

    /// Only root can change a folder's owner.
    #[test]
    fn a_block_is_found_again_and_never_shared() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root gives folders to other users");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let open = || IdBlocks::registered_in(&folder.path().join("registry")).unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let claim = folder.path().join("claim");
        let (first, is_new) = open().block_for(BlockHolder::Pod(&one)).unwrap();
        assert!(is_new);
        assert_eq!(
            open().block_for(BlockHolder::Pod(&one)).unwrap(),
            (first, false),
            "also by another server"
        );
        // The search for this holder begins at the same block.
        fs::create_dir(&two).unwrap();
        assert!(!open().take(first, &two).unwrap());
        let (second, _) = open().block_for(BlockHolder::Pod(&two)).unwrap();
        let (third, _) = open().block_for(BlockHolder::Claim(&claim)).unwrap();
        assert!(first != second && second != third && first != third);
        assert_eq!(fs::metadata(&claim).unwrap().uid(), third.user());
        // After a boot the registry is empty; the folders' owners decide.
        fs::remove_dir_all(folder.path().join("registry")).unwrap();
        assert_eq!(open().block_for(BlockHolder::Claim(&claim)).unwrap(), (third, false));
        // The first keeps it, and the other gets a new one.
        fs::remove_dir(&one).unwrap();
        assert!(open().take(first, &two).unwrap(), "what is gone has none");
        assert_ne!(open().block_for(BlockHolder::Pod(&one)).unwrap().0, third);
    }

    #[test]
    fn a_registry_of_somebody_else_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let registry = folder.path().join("registry");
        fs::create_dir(&registry).unwrap();
        fs::set_permissions(&registry, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(IdBlocks::registered_in(&registry).is_err());
    }
}
