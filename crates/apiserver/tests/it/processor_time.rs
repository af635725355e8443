//! Measures how much work a request is for the server, regardless of how busy the machine is.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread since some point in time. A single-threaded test runs the server on its thread, so
/// this is the server's own time, and other work on the machine does not count.
pub(crate) struct ProcessorTime(Duration);

impl ProcessorTime {
    /// Starts to measure now.
    pub(crate) fn start() -> Self {
        Self(thread_time())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        thread_time().saturating_sub(self.0)
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

#[test]
fn waiting_is_not_counted() {
    let started = ProcessorTime::start();
    let child = std::process::Command::new("sleep").arg("0.3").status();
    assert!(child.unwrap().success());
    assert!(started.elapsed() < Duration::from_millis(250), "{:?}", started.elapsed());
    assert!(started.elapsed() > Duration::ZERO, "work is");
}
