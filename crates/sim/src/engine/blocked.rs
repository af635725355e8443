//! Measures how long a schedule's thread was blocked in real time: by a sleep, a lock, a file, a connection. In virtual
//! time nothing ever blocks, so such a wait is a call of the operator that the simulator does not control.
//!
//! Linux reports how long each thread ran and how long it waited for a processor; the thread was blocked for the rest
//! of the real time. Other systems do not report this, so nothing is measured there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use homeostat_core::Clock;
use jiff::Timestamp;

/// Shorter times are noise, such as page faults or a lock of the allocator.
pub(crate) const BLOCKED_MIN: Duration = Duration::from_millis(10);

/// Noise grows with the time a thread runs: a blocked time below this fraction (one in `NOISE`) of it is ignored.
const NOISE: u32 = 10;

/// The maximum length of the text to read: more than its first two 64-bit numbers need.
const TEXT_BYTES_MAX: usize = 64;

thread_local! {
    /// The file with the times of this thread. Opening it for each schedule took a twentieth of the schedule's time.
    static TIMES: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// A point in time, and how long the thread had run, and been ready to run, until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTimes {
    at: Timestamp,
    ran: Duration,
    /// How long the thread could have run but had no processor.
    waited: Duration,
}

impl ThreadTimes {
    /// Reads the times of this thread; returns `None` if the system does not report them.
    pub(crate) fn read() -> Option<Self> {
        let mut text = [0; TEXT_BYTES_MAX];
        let read = TIMES.with(|times| times.as_ref()?.read_at(&mut text, 0).ok())?;
        let text = str::from_utf8(&text[..read]).ok()?;
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().unwrap_or_default());
        let (ran, waited) = (numbers.next()?, numbers.next()?);
        let [ran, waited] = [ran, waited].map(Duration::from_nanos);
        Some(Self { at: Clock::system().now(), ran, waited })
    }

    /// Returns how long the thread has been blocked since then; zero if that is noise.
    pub(crate) fn blocked_since(&self) -> Duration {
        // The thread cannot have been blocked for longer than the real time that has passed.
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
