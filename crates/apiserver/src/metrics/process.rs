//! Reports the resource use of the process, as provided by Linux. On other systems the figures are left out.

/// The unit in which Linux reports processor time to programs; the same on every machine.
const TICKS_PER_S: f64 = 100.0;

/// Returns the figures with name, type and help text.
pub(super) fn process_figures() -> Vec<(&'static str, &'static str, &'static str, f64)> {
    let rows = [
        ("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes()),
        ("process_cpu_seconds_total", "counter", "Processor time spent.", cpu_seconds()),
        ("process_open_fds", "gauge", "Open files and sockets.", open_files()),
    ];
    rows.into_iter().filter_map(|(name, kind, help, value)| Some((name, kind, help, value?))).collect()
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(kilobytes * 1024.0)
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name is in parentheses and may contain anything; numbers follow it, after the state.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS_PER_S)
}

fn open_files() -> Option<f64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}
