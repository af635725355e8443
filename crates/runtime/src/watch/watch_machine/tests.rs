//! Tests the list/watch protocol step by step: what is requested after each response, and when.

use super::*;

/// A machine and its current time.
struct TimedMachine {
    machine: WatchMachine,
    now: Instant,
}

impl TimedMachine {
    fn new() -> Self {
        Self { machine: WatchMachine::new(Entropy::seeded(1)), now: Instant::now() }
    }

    /// Returns the current request.
    fn request(&mut self) -> WatchRequest {
        self.machine.request(self.now).0
    }

    fn on(&mut self, signal: WatchSignal) -> CacheEffect {
        self.machine.on(self.now, signal)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    #[track_caller]
    fn expect_pause(&mut self) {
        let request = self.request();
        let WatchRequest::Pause(pause) = request else { panic!("{request:?}") };
        self.pass(pause);
    }

    /// Reads a list of one page, whichever way was chosen.
    #[track_caller]
    fn list(&mut self, expected: &WatchRequest) {
        let (request, effect) = self.machine.request(self.now);
        assert_eq!((&request, effect), (expected, CacheEffect::ListBegins));
        let revision = "5".to_owned();
        let ends = match request {
            WatchRequest::StreamList => self.on(WatchSignal::Bookmark { revision, ends_initial: true }),
            _ => self.on(WatchSignal::Page { revision, continue_token: None }),
        };
        assert_eq!(ends, CacheEffect::ListEnds { revision: "5".into() });
    }
}

const PAGES: WatchRequest = WatchRequest::List { continue_token: None };

fn failed() -> WatchSignal {
    WatchSignal::Failed { error: "down".into() }
}

fn refused() -> WatchSignal {
    WatchSignal::Refused { error: "no".into(), retry_after: None }
}

fn watch(revision: &str) -> WatchRequest {
    WatchRequest::Watch { revision: revision.into() }
}

/// Returns a machine that watches from revision 5.
fn watching() -> TimedMachine {
    let mut timed = TimedMachine::new();
    assert_eq!(timed.machine.request(timed.now), (WatchRequest::StreamList, CacheEffect::ListBegins));
    timed.on(WatchSignal::Event { revision: "3".into() });
    let ends = timed.on(WatchSignal::Bookmark { revision: "5".into(), ends_initial: true });
    assert_eq!(ends, CacheEffect::ListEnds { revision: "5".into() });
    timed
}

#[test]
fn a_streamed_list_goes_on_as_a_watch() {
    let mut timed = watching();
    timed.on(WatchSignal::Event { revision: "7".into() });
    timed.on(WatchSignal::Bookmark { revision: "9".into(), ends_initial: false });
    timed.pass(WATCH_SPACING);
    assert_eq!(timed.on(WatchSignal::Ended), CacheEffect::None);
    assert_eq!(timed.request(), watch("9"));
}

#[test]
fn pages_follow_each_other() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(refused());
    assert_eq!(timed.machine.request(timed.now), (PAGES, CacheEffect::ListBegins));
    timed.on(WatchSignal::Page { revision: "4".into(), continue_token: Some("more".into()) });
    let next = WatchRequest::List { continue_token: Some("more".into()) };
    assert_eq!(timed.machine.request(timed.now), (next, CacheEffect::None));
    let ends = timed.on(WatchSignal::Page { revision: "4".into(), continue_token: None });
    assert_eq!(ends, CacheEffect::ListEnds { revision: "4".into() });
    assert_eq!(timed.request(), watch("4"));
}

#[test]
fn whatever_ends_a_stream_before_it_is_complete_leads_to_pages_at_once() {
    for end in
        [refused(), WatchSignal::Ended, WatchSignal::Silent, WatchSignal::Unanswered, WatchSignal::Expired]
    {
        for is_begun in [false, true] {
            let mut timed = TimedMachine::new();
            assert_eq!(timed.request(), WatchRequest::StreamList);
            if is_begun {
                timed.on(WatchSignal::Opened);
                timed.on(WatchSignal::Event { revision: "1".into() });
            }
            assert!(matches!(timed.on(end.clone()), CacheEffect::StreamFailed { .. }), "{end:?}");
            timed.list(&PAGES);
        }
    }
}

#[test]
fn a_stream_that_breaks_or_may_be_asked_for_later_leads_to_pages_after_a_pause() {
    let busy = WatchSignal::Refused { error: "busy".into(), retry_after: Some(Duration::from_secs(45)) };
    for end in [failed(), busy] {
        let mut timed = TimedMachine::new();
        timed.request();
        assert!(matches!(timed.on(end), CacheEffect::Failing { .. }));
        timed.expect_pause();
        timed.list(&PAGES);
    }
}

/// Lists again, after a watch that was served for some time.
fn expire(timed: &mut TimedMachine, after: Duration) {
    timed.request();
    timed.pass(after);
    assert_eq!(timed.on(WatchSignal::Expired), CacheEffect::None);
}

#[test]
fn pages_that_succeed_where_a_stream_failed_are_remembered_for_a_while() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(refused());
    timed.list(&PAGES);
    expire(&mut timed, PAGES_FOR / 2);
    timed.list(&PAGES);
    expire(&mut timed, PAGES_FOR / 2);
    timed.list(&WatchRequest::StreamList);
}

#[test]
fn a_server_out_of_reach_says_nothing_about_streams() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(failed());
    timed.expect_pause();
    assert_eq!(timed.request(), PAGES);
    timed.on(failed());
    timed.expect_pause();
    timed.list(&PAGES);
    expire(&mut timed, EXPIRES_SOON);
    timed.list(&WatchRequest::StreamList);
}

#[test]
fn pages_that_fail_as_the_stream_did_are_tried_alone_and_not_remembered() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(refused());
    for _ in 0..3 {
        assert_eq!(timed.request(), PAGES);
        assert!(matches!(timed.on(refused()), CacheEffect::Failing { .. }));
        timed.expect_pause();
    }
    timed.list(&PAGES);
    expire(&mut timed, EXPIRES_SOON);
    timed.list(&WatchRequest::StreamList);
}

#[test]
fn a_watch_that_expires_after_a_while_lists_again_at_once() {
    let mut timed = watching();
    expire(&mut timed, EXPIRES_SOON);
    assert_eq!(timed.machine.request(timed.now), (WatchRequest::StreamList, CacheEffect::ListBegins));
}

#[test]
fn watches_that_expire_right_after_their_lists_are_asked_for_ever_more_rarely() {
    let mut timed = watching();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        // Neither a bookmark nor a new watch makes it healthy.
        timed.on(WatchSignal::Bookmark { revision: "6".into(), ends_initial: false });
        timed.request();
        let CacheEffect::Failing { retry, .. } = timed.on(WatchSignal::Expired) else { panic!("it fails") };
        pauses.push(retry.as_secs_f64().round());
        timed.expect_pause();
        timed.list(&WatchRequest::StreamList);
    }
    assert!(pauses[..7].is_sorted() && pauses[7] >= 30.0, "{pauses:?}");
    expire(&mut timed, EXPIRES_SOON);
    timed.list(&WatchRequest::StreamList);
    let CacheEffect::Failing { retry, .. } = timed.on(WatchSignal::Expired) else { panic!("it fails") };
    assert!(retry < Duration::from_secs(1), "a watch that was served for a while resets the backoff");
}

#[test]
fn watches_that_end_after_one_event_are_spaced() {
    let mut timed = watching();
    for _ in 0..3 {
        timed.pass(Duration::from_millis(10));
        timed.on(WatchSignal::Event { revision: "6".into() });
        assert_eq!(timed.on(WatchSignal::Ended), CacheEffect::None);
        assert_eq!(timed.request(), WatchRequest::Pause(Duration::from_millis(990)));
        timed.pass(WATCH_SPACING);
        assert_eq!(timed.request(), watch("6"));
    }
}

#[test]
fn a_list_that_returns_the_same_continue_token_fails() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(refused());
    let page = WatchSignal::Page { revision: "4".into(), continue_token: Some("more".into()) };
    timed.request();
    assert_eq!(timed.on(page.clone()), CacheEffect::None);
    timed.request();
    assert!(matches!(timed.on(page), CacheEffect::Failing { error, .. } if error.contains("never ends")));
}

#[test]
fn an_expired_list_begins_again_after_a_pause() {
    let mut timed = TimedMachine::new();
    timed.request();
    timed.on(refused());
    timed.request();
    timed.on(WatchSignal::Page { revision: "4".into(), continue_token: Some("more".into()) });
    timed.request();
    assert!(matches!(timed.on(WatchSignal::Expired), CacheEffect::Failing { .. }));
    timed.expect_pause();
    assert_eq!(timed.machine.request(timed.now), (PAGES, CacheEffect::ListBegins));
}

#[test]
fn failures_back_off_and_keep_the_place() {
    let mut timed = watching();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        timed.request();
        let CacheEffect::Failing { retry, .. } = timed.on(failed()) else { panic!("it failed") };
        assert_eq!(timed.request(), WatchRequest::Pause(retry));
        pauses.push(retry.as_secs_f64().round());
    }
    assert!(pauses[..7].is_sorted() && (30.0..=33.0).contains(&pauses[7]), "{pauses:?}");
    reassure(&mut timed);
    assert_eq!(timed.request(), watch("5"));
    timed.on(WatchSignal::Event { revision: "6".into() });
    timed.request();
    let CacheEffect::Failing { retry, .. } = timed.on(failed()) else { panic!("it failed") };
    assert!(retry < Duration::from_secs(1), "an event resets the backoff");
}

#[test]
fn a_watch_that_ends_in_silence_is_not_reopened_in_a_loop() {
    let mut timed = watching();
    timed.pass(WATCH_SPACING);
    timed.on(WatchSignal::Ended);
    timed.request();
    assert!(matches!(timed.on(WatchSignal::Ended), CacheEffect::Failing { .. }));
}

#[test]
fn a_reopened_watch_is_fresh_before_anything_comes() {
    let mut timed = watching();
    timed.on(failed());
    timed.request();
    reassure(&mut timed);
    timed.request();
    assert_eq!(timed.on(WatchSignal::Opened), CacheEffect::Resumed);
}

/// The server is asked for its newest revision, which turns out to be a known one.
fn reassure(timed: &mut TimedMachine) {
    assert_eq!(timed.request(), WatchRequest::Newest);
    assert_eq!(timed.on(WatchSignal::Newest { revision: "5".into() }), CacheEffect::None);
}

#[test]
fn a_server_that_went_back_is_listed_again() {
    let mut timed = watching();
    timed.on(failed());
    timed.request();
    assert_eq!(timed.request(), WatchRequest::Newest);
    let rewound = CacheEffect::Rewound { known: "5".into(), newest: "4".into() };
    assert_eq!(timed.on(WatchSignal::Newest { revision: "4".into() }), rewound);
    assert_eq!(timed.machine.request(timed.now), (WatchRequest::StreamList, CacheEffect::ListBegins));
}

#[test]
fn only_a_watch_knows_what_lies_behind() {
    let bookmark = |revision: &str| WatchSignal::Bookmark { revision: revision.into(), ends_initial: false };
    assert!(watching().machine.is_behind(&bookmark("4")));
    assert!(!watching().machine.is_behind(&bookmark("5")) && !watching().machine.is_behind(&bookmark("odd")));
    assert!(!TimedMachine::new().machine.is_behind(&bookmark("1")));
}

#[test]
fn silence_reopens_a_watch() {
    let mut timed = watching();
    assert_eq!(timed.on(WatchSignal::Silent), CacheEffect::None);
    reassure(&mut timed);
    assert_eq!(timed.request(), watch("5"));
}

#[test]
fn the_server_may_ask_for_more_patience() {
    let mut timed = watching();
    let patience = Duration::from_secs(45);
    let effect = timed.on(WatchSignal::Refused { error: "busy".into(), retry_after: Some(patience) });
    assert_eq!(effect, CacheEffect::Failing { error: "busy".into(), retry: patience, is_break: false });
}

#[test]
fn a_lost_connection_is_told_from_a_refusal() {
    let is_break = |timed: &mut TimedMachine, is_opened: bool| {
        timed.request();
        if is_opened {
            timed.on(WatchSignal::Opened);
        }
        let CacheEffect::Failing { is_break, .. } = timed.on(failed()) else { panic!("it failed") };
        timed.request();
        timed.on(WatchSignal::Newest { revision: "5".into() });
        is_break
    };
    assert!(!is_break(&mut watching(), false), "refused");
    let mut timed = watching();
    assert!(is_break(&mut timed, true), "lost");
    assert!(!is_break(&mut timed, true), "and lost again before anything came");
}
