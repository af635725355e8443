//! Implements the list/watch protocol as a state machine without I/O: it returns the next request, takes the response,
//! and returns its effect on the cache. `cache::watch_loop` moves the bytes.
//!
//! It first requests a streaming list (one request, no paging, consistent). If anything ends that stream before the
//! bookmark that completes it, a list in pages follows: servers refuse streams in many ways, proxies break them in
//! others, and none of this may keep a watch from starting. If the revision has expired, the protocol starts again with
//! a list. A failure of this watch affects only this watch: it has its own backoff and its own state.
//!
//! Lists request the newest state (no resourceVersion), which every server must answer consistently: a replica that
//! lags waits until it has caught up. A list is therefore authoritative however old it is, and a list that is older
//! than our known state means that the server itself went back in time (restored from a backup). A watch cannot detect
//! this: if it starts from a revision that the server has not reached yet, it is silent. Therefore a watch that failed
//! or went silent is resumed only after requesting the newest revision.
//!
//! **Invariant:** no server can make it loop without pauses. A list follows another immediately only when a stream
//! gives way to pages, or when the watch between them was served for some time.

use std::time::Duration;

use homeostat_core::{Entropy, Revision};
use tokio::time::Instant;

use crate::kind::parse_revision;
use crate::queue::Backoff;

/// From half a second up to half a minute: a restarted server is found again quickly, and a missing kind costs two
/// requests a minute.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30));

/// How long lists are read in pages after they succeeded where a stream had failed. Trying again costs one refused
/// request, or twenty seconds of waiting if a proxy holds streams back; only a server upgrade would resolve this.
const PAGES_FOR: Duration = Duration::from_secs(30 * 60);

/// A watch that expires this soon after its list was complete will do so again: servers keep minutes of history.
const EXPIRES_SOON: Duration = Duration::from_secs(30);

/// The shortest time between the beginnings of two watches. A server that ends every watch after one event must not be
/// queried as fast as it responds.
const WATCH_SPACING: Duration = Duration::from_secs(1);

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchRequest {
    /// Wait, then call again.
    Pause(Duration),
    /// One page of a list.
    List { continue_token: Option<String> },
    /// A watch that begins with the whole state.
    StreamList,
    /// The newest revision of the server, read with the smallest possible list.
    Newest,
    /// A watch from this revision.
    Watch { revision: String },
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchSignal {
    /// The server accepted the watch.
    Opened,
    /// Nothing arrived for so long that the connection may be dead.
    Silent,
    /// A page, and whether more follow.
    Page { revision: String, continue_token: Option<String> },
    /// The server's newest revision.
    Newest { revision: String },
    /// An object event.
    Event { revision: String },
    /// A bookmark.
    Bookmark { revision: String, ends_initial: bool },
    /// The watch ended in the usual way.
    Ended,
    /// The revision or continue token is too old.
    Expired,
    /// The server responded with another error, and possibly with a time to retry.
    Refused { error: String, retry_after: Option<Duration> },
    /// No response began in time.
    Unanswered,
    /// The server was unreachable, or its response was interrupted or malformed.
    Failed { error: String },
}

/// The effect on the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheEffect {
    /// Nothing.
    None,
    /// A list begins; objects that it does not contain are gone.
    ListBegins,
    /// The list is complete as of this revision.
    ListEnds { revision: String },
    /// The streaming list ended before it was complete; pages follow at once.
    StreamFailed { error: String },
    /// The server's state is older than our known state: it was restored from a backup. A list follows.
    Rewound { known: String, newest: String },
    /// The watch continues where it was cut off.
    Resumed,
    /// This watch is disconnected and retries after this time. `is_break` is set if an open connection was lost, for
    /// the first time since any data arrived; the next attempt shows whether that matters.
    Failing { error: String, retry: Duration, is_break: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MachineState {
    /// Nothing is known yet.
    Start,
    Paging {
        continue_token: Option<String>,
    },
    Streaming,
    Watching {
        revision: String,
    },
}

/// How the next list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMode {
    /// As a stream.
    Stream,
    /// In pages, because the stream has just failed. If the pages succeed, the stream is to blame.
    PagesInstead,
    /// In pages, because both have failed, which says nothing about streams.
    PagesOnce,
    /// In pages until this time, because they succeeded where the stream failed.
    PagesUntil(Instant),
    /// In pages, because the reader may take a long time to process the objects: the server would cut off a stream, but
    /// a page is read at once.
    Pages,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct WatchMachine {
    state: MachineState,
    list_mode: ListMode,
    pause: Option<Duration>,
    failures: u32,
    /// The number of consecutive watches that expired soon after their list.
    expiries: u32,
    /// When the last list was complete.
    listed_at: Option<Instant>,
    /// When the last watch was requested.
    asked_at: Option<Instant>,
    /// Whether any data arrived over the current watch, so that its end is not a failure.
    is_alive: bool,
    /// Whether the server accepted the current watch.
    is_open: bool,
    /// Whether the watch was disconnected: before it is resumed, the server is asked for its revision, to make sure
    /// that it did not go back in time.
    is_in_doubt: bool,
    entropy: Entropy,
}

impl WatchMachine {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self {
            state: MachineState::Start,
            list_mode: ListMode::Stream,
            pause: None,
            failures: 0,
            expiries: 0,
            listed_at: None,
            asked_at: None,
            is_alive: false,
            is_open: false,
            is_in_doubt: false,
            entropy,
        }
    }

    /// Returns a machine that never requests streaming lists.
    pub(crate) fn in_pages(entropy: Entropy) -> Self {
        Self { list_mode: ListMode::Pages, ..Self::new(entropy) }
    }

    /// Returns the next request, and whether a list begins with it.
    pub(crate) fn request(&mut self, now: Instant) -> (WatchRequest, CacheEffect) {
        if let Some(pause) = self.pause.take() {
            return (WatchRequest::Pause(pause), CacheEffect::None);
        }
        (self.is_alive, self.is_open) = (false, false);
        if matches!(self.list_mode, ListMode::PagesUntil(end) if end <= now) {
            self.list_mode = ListMode::Stream;
        }
        match &self.state {
            MachineState::Start if self.list_mode == ListMode::Stream => {
                self.state = MachineState::Streaming;
                self.asked_at = Some(now);
                (WatchRequest::StreamList, CacheEffect::ListBegins)
            }
            MachineState::Start => {
                self.state = MachineState::Paging { continue_token: None };
                (WatchRequest::List { continue_token: None }, CacheEffect::ListBegins)
            }
            MachineState::Paging { continue_token } => {
                (WatchRequest::List { continue_token: continue_token.clone() }, CacheEffect::None)
            }
            MachineState::Streaming => unreachable!("a streaming list that ended left this state in `on`"),
            MachineState::Watching { .. } if self.is_in_doubt => (WatchRequest::Newest, CacheEffect::None),
            MachineState::Watching { revision } => {
                self.asked_at = Some(now);
                (WatchRequest::Watch { revision: revision.clone() }, CacheEffect::None)
            }
        }
    }

    /// Processes the response to a request.
    pub(crate) fn on(&mut self, now: Instant, signal: WatchSignal) -> CacheEffect {
        match signal {
            WatchSignal::Page { revision, continue_token: None } => self.complete(now, revision),
            WatchSignal::Page { continue_token, .. } => self.turn_page(continue_token),
            WatchSignal::Bookmark { revision, ends_initial: true }
                if self.state == MachineState::Streaming =>
            {
                self.complete(now, revision)
            }
            WatchSignal::Newest { revision } => self.compare(revision),
            WatchSignal::Event { revision } | WatchSignal::Bookmark { revision, .. } => {
                self.advance(revision)
            }
            WatchSignal::Opened => self.open(),
            // A stream on which the server failed, or that took a long time to fail, is replaced at once.
            WatchSignal::Silent | WatchSignal::Unanswered if self.state == MachineState::Streaming => {
                self.give_up_stream("it stalled".to_owned())
            }
            WatchSignal::Ended if self.state == MachineState::Streaming => {
                self.give_up_stream("the server ended it before it was complete".to_owned())
            }
            WatchSignal::Expired if self.state == MachineState::Streaming => {
                self.give_up_stream("it expired before it was complete".to_owned())
            }
            WatchSignal::Refused { error, retry_after: None } if self.state == MachineState::Streaming => {
                self.give_up_stream(error)
            }
            WatchSignal::Silent => {
                self.is_in_doubt = true;
                CacheEffect::None
            }
            WatchSignal::Ended if self.is_alive => self.reopen(now),
            WatchSignal::Ended => {
                self.fail("the server ended the watch without giving a reason".to_owned(), None)
            }
            WatchSignal::Expired => self.begin_again(now),
            WatchSignal::Refused { error, retry_after } => self.fail(error, retry_after),
            WatchSignal::Unanswered => self.fail("the server does not answer".to_owned(), None),
            WatchSignal::Failed { error } => self.fail(error, None),
        }
    }

    fn open(&mut self) -> CacheEffect {
        self.is_open = true;
        let is_resumed = self.failures > 0 && matches!(self.state, MachineState::Watching { .. });
        if is_resumed { CacheEffect::Resumed } else { CacheEffect::None }
    }

    /// Returns whether this revision is older than one that this watch has already shown. No server sends that within
    /// one history.
    pub(crate) fn is_behind(&self, signal: &WatchSignal) -> bool {
        match (&self.state, signal) {
            (
                MachineState::Watching { revision: known },
                WatchSignal::Event { revision } | WatchSignal::Bookmark { revision, .. },
            ) => is_older(revision, known),
            _ => false,
        }
    }

    fn compare(&mut self, newest: String) -> CacheEffect {
        self.is_in_doubt = false;
        let MachineState::Watching { revision: known } = &self.state else { return CacheEffect::None };
        if !is_older(&newest, known) {
            return CacheEffect::None;
        }
        let known = known.clone();
        self.state = MachineState::Start;
        CacheEffect::Rewound { known, newest }
    }

    fn turn_page(&mut self, next: Option<String>) -> CacheEffect {
        if matches!(&self.state, MachineState::Paging { continue_token } if *continue_token == next) {
            let error = "the list never ends: a page returned the continue token it was asked for with";
            return self.fail(error.to_owned(), None);
        }
        self.failures = 0;
        self.state = MachineState::Paging { continue_token: next };
        CacheEffect::None
    }

    fn complete(&mut self, now: Instant, revision: String) -> CacheEffect {
        self.list_mode = match self.list_mode {
            ListMode::PagesInstead => ListMode::PagesUntil(now + PAGES_FOR),
            ListMode::PagesOnce => ListMode::Stream,
            mode => mode,
        };
        self.failures = 0;
        self.listed_at = Some(now);
        self.is_alive = true;
        self.is_in_doubt = false;
        self.state = MachineState::Watching { revision: revision.clone() };
        CacheEffect::ListEnds { revision }
    }

    fn advance(&mut self, newer: String) -> CacheEffect {
        self.is_alive = true;
        if let MachineState::Watching { revision } = &mut self.state {
            self.failures = 0;
            *revision = newer;
        }
        CacheEffect::None
    }

    fn give_up_stream(&mut self, error: String) -> CacheEffect {
        self.state = MachineState::Start;
        self.list_mode = ListMode::PagesInstead;
        CacheEffect::StreamFailed { error }
    }

    /// Reopens a watch that ended in the usual way, after something arrived over it.
    fn reopen(&mut self, now: Instant) -> CacheEffect {
        let earliest = self.asked_at.map_or(now, |asked| asked + WATCH_SPACING);
        self.pause = Some(earliest.saturating_duration_since(now)).filter(|pause| !pause.is_zero());
        CacheEffect::None
    }

    /// Lists again: at once after a watch that was served for some time, and with a pause after lists and watches that
    /// keep expiring, which must not become a loop.
    fn begin_again(&mut self, now: Instant) -> CacheEffect {
        let is_soon = self.listed_at.is_some_and(|listed| now < listed + EXPIRES_SOON);
        let was_watching = matches!(self.state, MachineState::Watching { .. });
        self.state = MachineState::Start;
        match (was_watching, is_soon) {
            (true, false) => {
                self.expiries = 0;
                CacheEffect::None
            }
            (true, true) => {
                self.expiries = self.expiries.saturating_add(1);
                self.fail("the watch expired right after its list".to_owned(), None)
            }
            (false, _) => self.fail("the list expired before it was complete".to_owned(), None),
        }
    }

    fn fail(&mut self, error: String, retry_after: Option<Duration>) -> CacheEffect {
        self.list_mode = match (&self.state, self.list_mode) {
            (MachineState::Streaming, _) if self.is_open => ListMode::PagesInstead,
            // An unreachable server, or one that fails either way, says nothing about streams.
            (MachineState::Streaming, _) | (MachineState::Paging { .. }, ListMode::PagesInstead) => {
                ListMode::PagesOnce
            }
            (_, mode) => mode,
        };
        if !matches!(self.state, MachineState::Watching { .. }) {
            self.state = MachineState::Start;
        }
        self.is_in_doubt = true;
        self.failures = self.failures.saturating_add(1);
        let times = self.failures.max(self.expiries);
        let retry = BACKOFF.delay(times, &self.entropy).max(retry_after.unwrap_or_default());
        self.pause = Some(retry);
        CacheEffect::Failing { error, retry, is_break: self.is_open && self.failures == 1 }
    }
}

/// Returns whether a revision is older than a known one; always false if one of them is not a number.
fn is_older(revision: &str, known: &str) -> bool {
    let revision = parse_revision(Some(revision));
    revision != Revision::ZERO && revision < parse_revision(Some(known))
}

#[cfg(test)]
mod tests;
