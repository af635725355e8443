//! The process tag is a number that every process of a container carries throughout its life.
//!
//! It is stored in a resource limit that has had no effect since Linux 2.4 (`RLIMIT_LOCKS`). Children inherit it, an
//! exec keeps it, a new session or an empty environment does not change it, and only root can raise it again. The upper
//! bits name the node's folder and the lower bits the container, each by a hash, so that every supervisor computes the
//! same tag.

use std::path::Path;

use homeostat_core::hash::fnv_64;

/// The number of bits for the run: among ten thousand containers, the odds of a collision are one in ten thousand, and
/// only the daemons of one of them are at stake. The remaining bits distinguish the few nodes on a machine.
const RUN_BITS: u32 = 39;
/// The number of bits used: the sign bit stays clear, and no tag is `RLIM_INFINITY`.
const BITS: u32 = 63;

/// Returns the tag of a container's processes.
pub(super) fn of_run(folder: &Path, run: &str) -> u64 {
    (folder_part(folder) << RUN_BITS) | (hash(run.as_bytes()) >> (u64::BITS - RUN_BITS))
}

/// Returns a name for the folder's node, for the environment of its processes. It does not reveal the path.
pub(super) fn name_of_node(folder: &Path) -> String {
    format!("{:016x}", fnv_64(folder.as_os_str().as_encoded_bytes()))
}

/// Returns whether this is the tag of a process of this folder's node.
pub(super) fn is_of_folder(tag: u64, folder: &Path) -> bool {
    tag >> RUN_BITS == folder_part(folder)
}

fn folder_part(folder: &Path) -> u64 {
    hash(folder.as_os_str().as_encoded_bytes()) >> (u64::BITS - (BITS - RUN_BITS))
}

/// Hashes with FNV-1a and a final mix for the upper bits: the same in every release of this program.
fn hash(bytes: &[u8]) -> u64 {
    const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = fnv_64(bytes);
    (hash ^ (hash >> 32)).wrapping_mul(MIXER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_identifies_folder_and_container() {
        let (here, there) = (Path::new("/a"), Path::new("/b"));
        let tag = of_run(here, "uid/main");
        assert_eq!(tag, of_run(here, "uid/main"));
        assert!(is_of_folder(tag, here) && !is_of_folder(tag, there));
        assert_ne!(tag, of_run(here, "uid/side"));
        assert_ne!(tag, of_run(there, "uid/main"));
        assert!(tag < 1 << BITS);
    }
}
