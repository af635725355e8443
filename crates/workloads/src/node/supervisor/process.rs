//! Reads what the kernel reports about processes (start times, children, sessions), and sends signals to process
//! groups.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// Returns when the process started, in kernel ticks since boot: together with the pid, this identifies a process
/// forever.
pub(crate) fn started_ticks(pid: i32) -> Option<u64> {
    /// The position of `starttime` in `/proc/PID/stat`, counted from the field after the command.
    const STARTED: usize = 19;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may contain anything, even parentheses: the fields start after the last one.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(STARTED)?.parse().ok()
}

/// Sends a signal to a whole process group. A group that is gone is ignored.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// Sends a signal to one process.
pub(super) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns every process on this machine.
pub(super) fn all_processes() -> Vec<i32> {
    numbered(Path::new("/proc"))
}

/// Returns the children of a process, including those of its threads.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let threads = Path::new("/proc").join(pid.to_string()).join("task");
    let mut found = Vec::new();
    for thread in numbered(&threads) {
        let text = fs::read_to_string(threads.join(thread.to_string()).join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// Returns the entries of a folder that are numbers.
fn numbered(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the session of a process: the pid of its leader.
pub(super) fn session(pid: i32) -> Option<i32> {
    rustix::process::getsid(Pid::from_raw(pid)).ok().map(Pid::as_raw_pid)
}

/// Returns whether the environment of the process contains this entry.
pub(super) fn has_variable(pid: i32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_pid_and_start() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(started_ticks(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started_ticks(own), started_ticks(own));
        assert_eq!(started_ticks(i32::MAX), None);
    }
}
