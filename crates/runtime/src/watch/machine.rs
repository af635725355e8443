//! The list/watch protocol as a machine without I/O: it says what to request, is told what came back, and says what
//! that means for the cache. The shell in `drive` moves the bytes.
//!
//! It asks for a streaming list first (one request, no paging, consistent), and for pages when the server refuses.
//! An expired revision begins again with a list. Every failure of this watch is paid by this watch alone: its own
//! backoff, its own state.
//!
//! Lists ask for the newest state (no resourceVersion), which every server must answer consistently: a replica that
//! lags waits until it has caught up. So a list is the truth however old it is, and one that is older than what we know
//! means that the server itself went back in time (restored from a backup). A watch cannot tell: from a revision the
//! server has not reached yet it is silent. Therefore a watch that failed or went silent is resumed only after asking
//! for the newest revision.

use std::time::Duration;

use homeostat_core::{Entropy, Revision};

use super::wire::revision as number;
use crate::queue::Backoff;

/// Half a second up to half a minute: a restarted server is found again quickly, a missing kind costs two requests a
/// minute.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30));

/// Streaming lists that may break off before they are complete until pages are used instead: the first may be an
/// accident, the second is a server or proxy that does not do it.
const BROKEN_STREAMS_MAX: u32 = 2;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Wait, then ask again.
    Pause(Duration),
    /// One page of a list.
    List { continue_token: Option<String> },
    /// A watch that begins with the whole state.
    StreamList,
    /// The newest revision of the server, by the smallest list there is.
    Newest,
    /// A watch from here.
    Watch { revision: String },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The server accepted the watch.
    Opened,
    /// Nothing came for so long that the connection may be dead.
    Silent,
    /// A page, and whether more follow.
    Page { revision: String, continue_token: Option<String> },
    /// The server's newest revision.
    Newest { revision: String },
    /// An object event.
    Event { revision: String },
    /// A bookmark.
    Bookmark { revision: String, ends_initial: bool },
    /// The watch ended as watches do.
    Ended,
    /// The revision or continue token is too old.
    Expired,
    /// The server does not do streaming lists.
    StreamRefused,
    /// Anything else; `retry_after` when the server said so.
    Failed { error: String, retry_after: Option<Duration> },
}

/// What it means for the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// A list begins; what it will not mention is gone.
    ListBegins,
    /// The list is complete as of this revision.
    ListEnds { revision: String },
    /// The server is older than what we know of it: it was restored from a backup. A list follows.
    Rewound { known: String, newest: String },
    /// The watch goes on where it was cut off.
    Resumed,
    /// This watch is cut off and tries again after this time. `is_break`: an open connection was lost, for the first time
    /// since anything came; the next try tells whether that matters.
    Failing { error: String, retry: Duration, is_break: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nothing known.
    Start,
    Paging {
        continue_token: Option<String>,
    },
    Streaming,
    Watching {
        revision: String,
    },
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    pause: Option<Duration>,
    failures: u32,
    broken_streams: u32,
    /// Something came over the present watch, so its end is no failure.
    is_alive: bool,
    /// The server accepted the present watch.
    is_open: bool,
    /// The watch was cut off: before it is resumed, the server is asked whether it is still the one we know.
    is_in_doubt: bool,
    entropy: Entropy,
}

impl Machine {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self {
            state: State::Start,
            pause: None,
            failures: 0,
            broken_streams: 0,
            is_alive: false,
            is_open: false,
            is_in_doubt: false,
            entropy,
        }
    }

    /// What to do now, and whether a list begins with it.
    pub(crate) fn request(&mut self) -> (Request, Effect) {
        if let Some(pause) = self.pause.take() {
            return (Request::Pause(pause), Effect::None);
        }
        (self.is_alive, self.is_open) = (false, false);
        match &self.state {
            State::Start if self.broken_streams < BROKEN_STREAMS_MAX => {
                self.state = State::Streaming;
                (Request::StreamList, Effect::ListBegins)
            }
            State::Start => {
                self.state = State::Paging { continue_token: None };
                (Request::List { continue_token: None }, Effect::ListBegins)
            }
            State::Paging { continue_token } => {
                (Request::List { continue_token: continue_token.clone() }, Effect::None)
            }
            State::Streaming => unreachable!("a streaming list that ended left this state in `on`"),
            State::Watching { .. } if self.is_in_doubt => (Request::Newest, Effect::None),
            State::Watching { revision } => (Request::Watch { revision: revision.clone() }, Effect::None),
        }
    }

    /// Takes in what came back.
    pub(crate) fn on(&mut self, signal: Signal) -> Effect {
        match signal {
            Signal::Page { revision, continue_token: None } => self.complete(revision),
            Signal::Page { continue_token, .. } => {
                self.failures = 0;
                self.state = State::Paging { continue_token };
                Effect::None
            }
            Signal::Bookmark { revision, ends_initial: true } if self.state == State::Streaming => {
                self.complete(revision)
            }
            Signal::Newest { revision } => self.compare(revision),
            Signal::Event { revision } | Signal::Bookmark { revision, .. } => self.advance(revision),
            Signal::Opened => self.open(),
            Signal::Silent if self.state != State::Streaming => {
                self.is_in_doubt = true;
                Effect::None
            }
            Signal::Silent => self.fail("the streaming list stalled".to_owned(), None),
            Signal::Ended if self.is_alive && self.state != State::Streaming => Effect::None,
            Signal::Ended => self.fail("the server ended the watch without a word".to_owned(), None),
            Signal::Expired => self.begin_again(),
            Signal::StreamRefused => {
                self.broken_streams = BROKEN_STREAMS_MAX;
                self.state = State::Start;
                Effect::None
            }
            Signal::Failed { error, retry_after } => self.fail(error, retry_after),
        }
    }

    fn open(&mut self) -> Effect {
        self.is_open = true;
        let is_resumed = self.failures > 0 && matches!(self.state, State::Watching { .. });
        if is_resumed { Effect::Resumed } else { Effect::None }
    }

    /// Does this revision lie behind what this watch has shown already? No server sends that in one history.
    pub(crate) fn is_behind(&self, signal: &Signal) -> bool {
        match (&self.state, signal) {
            (
                State::Watching { revision: known },
                Signal::Event { revision } | Signal::Bookmark { revision, .. },
            ) => is_older(revision, known),
            _ => false,
        }
    }

    fn compare(&mut self, newest: String) -> Effect {
        self.is_in_doubt = false;
        let State::Watching { revision: known } = &self.state else { return Effect::None };
        if !is_older(&newest, known) {
            return Effect::None;
        }
        let known = known.clone();
        self.state = State::Start;
        Effect::Rewound { known, newest }
    }

    fn complete(&mut self, revision: String) -> Effect {
        self.failures = 0;
        self.is_alive = true;
        self.is_in_doubt = false;
        self.state = State::Watching { revision: revision.clone() };
        Effect::ListEnds { revision }
    }

    fn advance(&mut self, newer: String) -> Effect {
        self.is_alive = true;
        if let State::Watching { revision } = &mut self.state {
            self.failures = 0;
            *revision = newer;
        }
        Effect::None
    }

    /// A list that expires again and again must not become a loop, so the second time in a row waits.
    fn begin_again(&mut self) -> Effect {
        let was_watching = matches!(self.state, State::Watching { .. });
        self.state = State::Start;
        if was_watching {
            return Effect::None;
        }
        self.fail("the list expired before it was complete".to_owned(), None)
    }

    fn fail(&mut self, error: String, retry_after: Option<Duration>) -> Effect {
        if self.state == State::Streaming && self.is_alive {
            self.broken_streams += 1;
        }
        if !matches!(self.state, State::Watching { .. }) {
            self.state = State::Start;
        }
        self.is_in_doubt = true;
        self.failures = self.failures.saturating_add(1);
        let retry = BACKOFF.delay(self.failures, &self.entropy).max(retry_after.unwrap_or_default());
        self.pause = Some(retry);
        Effect::Failing { error, retry, is_break: self.is_open && self.failures == 1 }
    }
}

/// What is no number is compared with nothing.
fn is_older(revision: &str, known: &str) -> bool {
    let revision = number(revision);
    revision != Revision::ZERO && revision < number(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine::new(Entropy::seeded(1))
    }

    fn failed() -> Signal {
        Signal::Failed { error: "down".into(), retry_after: None }
    }

    fn watch(revision: &str) -> Request {
        Request::Watch { revision: revision.into() }
    }

    /// A machine that watches from revision 5.
    fn watching() -> Machine {
        let mut machine = machine();
        assert_eq!(machine.request(), (Request::StreamList, Effect::ListBegins));
        machine.on(Signal::Event { revision: "3".into() });
        let ends = machine.on(Signal::Bookmark { revision: "5".into(), ends_initial: true });
        assert_eq!(ends, Effect::ListEnds { revision: "5".into() });
        machine
    }

    #[test]
    fn a_streamed_list_goes_on_as_a_watch() {
        let mut machine = watching();
        machine.on(Signal::Event { revision: "7".into() });
        machine.on(Signal::Bookmark { revision: "9".into(), ends_initial: false });
        assert_eq!(machine.on(Signal::Ended), Effect::None);
        assert_eq!(machine.request().0, watch("9"));
    }

    #[test]
    fn pages_replace_a_refused_stream() {
        let mut machine = machine();
        machine.request();
        machine.on(Signal::StreamRefused);
        assert_eq!(machine.request(), (Request::List { continue_token: None }, Effect::ListBegins));
        machine.on(Signal::Page { revision: "4".into(), continue_token: Some("more".into()) });
        assert_eq!(machine.request(), (Request::List { continue_token: Some("more".into()) }, Effect::None));
        let ends = machine.on(Signal::Page { revision: "4".into(), continue_token: None });
        assert_eq!(ends, Effect::ListEnds { revision: "4".into() });
        assert_eq!(machine.request().0, watch("4"));
    }

    #[test]
    fn streams_that_break_off_lead_to_pages() {
        let mut machine = machine();
        for _ in 0..2 {
            assert_eq!(machine.request().0, Request::StreamList);
            machine.on(Signal::Event { revision: "1".into() });
            assert!(matches!(machine.on(Signal::Ended), Effect::Failing { .. }));
            assert!(matches!(machine.request().0, Request::Pause(_)));
        }
        assert_eq!(machine.request().0, Request::List { continue_token: None });
    }

    #[test]
    fn an_expired_watch_lists_again_at_once() {
        let mut machine = watching();
        machine.request();
        assert_eq!(machine.on(Signal::Expired), Effect::None);
        assert_eq!(machine.request(), (Request::StreamList, Effect::ListBegins));
    }

    #[test]
    fn an_expired_list_begins_again_after_a_pause() {
        let mut machine = machine();
        machine.on(Signal::StreamRefused);
        machine.request();
        machine.on(Signal::Page { revision: "4".into(), continue_token: Some("more".into()) });
        machine.request();
        assert!(matches!(machine.on(Signal::Expired), Effect::Failing { .. }));
        assert!(matches!(machine.request().0, Request::Pause(_)));
        assert_eq!(machine.request(), (Request::List { continue_token: None }, Effect::ListBegins));
    }

    #[test]
    fn failures_back_off_and_keep_the_place() {
        let mut machine = watching();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            machine.request();
            let Effect::Failing { retry, .. } = machine.on(failed()) else { panic!("it failed") };
            assert_eq!(machine.request().0, Request::Pause(retry));
            pauses.push(retry.as_secs_f64().round());
        }
        assert!(pauses[..7].is_sorted() && (30.0..=33.0).contains(&pauses[7]), "{pauses:?}");
        reassure(&mut machine);
        assert_eq!(machine.request().0, watch("5"));
        machine.on(Signal::Event { revision: "6".into() });
        machine.request();
        let Effect::Failing { retry, .. } = machine.on(failed()) else { panic!("it failed") };
        assert!(retry < Duration::from_secs(1), "an event resets the backoff");
    }

    #[test]
    fn a_watch_that_ends_in_silence_is_not_reopened_in_a_loop() {
        let mut machine = watching();
        machine.on(Signal::Ended);
        machine.request();
        assert!(matches!(machine.on(Signal::Ended), Effect::Failing { .. }));
    }

    #[test]
    fn a_reopened_watch_is_fresh_before_anything_comes() {
        let mut machine = watching();
        machine.on(failed());
        machine.request();
        reassure(&mut machine);
        machine.request();
        assert_eq!(machine.on(Signal::Opened), Effect::Resumed);
    }

    /// The server is asked for its newest revision, and it is one we know.
    fn reassure(machine: &mut Machine) {
        assert_eq!(machine.request().0, Request::Newest);
        assert_eq!(machine.on(Signal::Newest { revision: "5".into() }), Effect::None);
    }

    #[test]
    fn a_server_that_went_back_is_listed_again() {
        let mut machine = watching();
        machine.on(failed());
        machine.request();
        assert_eq!(machine.request().0, Request::Newest);
        let rewound = Effect::Rewound { known: "5".into(), newest: "4".into() };
        assert_eq!(machine.on(Signal::Newest { revision: "4".into() }), rewound);
        assert_eq!(machine.request(), (Request::StreamList, Effect::ListBegins));
    }

    #[test]
    fn only_a_watch_knows_what_lies_behind() {
        let bookmark = |revision: &str| Signal::Bookmark { revision: revision.into(), ends_initial: false };
        assert!(watching().is_behind(&bookmark("4")));
        assert!(!watching().is_behind(&bookmark("5")) && !watching().is_behind(&bookmark("odd")));
        assert!(!machine().is_behind(&bookmark("1")));
    }

    #[test]
    fn silence_reopens_a_watch_and_breaks_a_list() {
        let mut machine = watching();
        assert_eq!(machine.on(Signal::Silent), Effect::None);
        reassure(&mut machine);
        assert_eq!(machine.request().0, watch("5"));
        let mut machine = self::machine();
        machine.request();
        assert!(matches!(machine.on(Signal::Silent), Effect::Failing { .. }));
    }

    #[test]
    fn the_server_may_ask_for_more_patience() {
        let mut machine = watching();
        let patience = Duration::from_secs(45);
        let effect = machine.on(Signal::Failed { error: "busy".into(), retry_after: Some(patience) });
        assert_eq!(effect, Effect::Failing { error: "busy".into(), retry: patience, is_break: false });
    }

    #[test]
    fn a_lost_connection_is_told_from_a_refusal() {
        let is_break = |machine: &mut Machine, is_opened: bool| {
            machine.request();
            if is_opened {
                machine.on(Signal::Opened);
            }
            let Effect::Failing { is_break, .. } = machine.on(failed()) else { panic!("it failed") };
            machine.request();
            machine.on(Signal::Newest { revision: "5".into() });
            is_break
        };
        assert!(!is_break(&mut watching(), false), "refused");
        let mut machine = watching();
        assert!(is_break(&mut machine, true), "lost");
        assert!(!is_break(&mut machine, true), "and lost again before anything came");
    }
}
