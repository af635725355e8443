//! How long a schedule's thread was blocked by something real: a sleep, a lock, a file, a connection. In virtual time nothing
//! ever has to wait, so whatever does is a call of the operator that the simulator does not own.
//!
//! Linux tells per thread how long it ran and how long it waited for a processor; what is left of the real time it was blocked.
//! Elsewhere nothing is known, and nothing is reported.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use homeostat_core::Clock;
use jiff::Timestamp;

/// Less than this is noise: page faults, a lock of the allocator.
pub(crate) const BLOCKED_MIN: Duration = Duration::from_millis(10);

/// The noise grows with the time a thread runs: less than this part of it counts for nothing.
const NOISE: u32 = 10;

/// More than two numbers of 64 bits and what stands between them.
const TEXT_BYTES_MAX: usize = 64;

thread_local! {
    /// The times of this thread. To open the file for each schedule took a twentieth of its time.
    static TIMES: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// A moment, and how long the thread had run, or been ready to, until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTimes {
    at: Timestamp,
    ran: Duration,
    /// It could have run, but another thread did.
    waited: Duration,
}

impl ThreadTimes {
    /// Reads the times of this thread; none where the system does not tell.
    pub(crate) fn read() -> Option<Self> {
        let mut text = [0; TEXT_BYTES_MAX];
        let read = TIMES.with(|times| times.as_ref()?.read_at(&mut text, 0).ok())?;
        let text = str::from_utf8(&text[..read]).ok()?;
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().unwrap_or_default());
        let (ran, waited) = (numbers.next()?, numbers.next()?);
        let [ran, waited] = [ran, waited].map(Duration::from_nanos);
        Some(Self { at: Clock::system().now(), ran, waited })
    }

    /// Returns how long the thread was blocked since; nothing where that is noise, or little beside the time it ran.
    pub(crate) fn blocked_since(&self) -> Duration {
        // Nobody was blocked for longer than the whole took.
        let real = Clock::system().now().duration_since(self.at);
        if Duration::try_from(real).is_ok_and(|real| real < BLOCKED_MIN) {
            return Duration::ZERO;
        }
        let Some(now) = Self::read() else { return Duration::ZERO };
        let real = Duration::try_from(now.at.duration_since(self.at)).unwrap_or_default();
        let ran = now.ran.saturating_sub(self.ran);
        let blocked = real.saturating_sub(ran + now.waited.saturating_sub(self.waited));
        if blocked * NOISE < ran { Duration::ZERO } else { blocked }
    }
}
