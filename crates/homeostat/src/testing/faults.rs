//! Faults between operators and the API server: requests that fail on demand, watches that break off, go silent or lag.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_runtime::{CancellationToken, Kind};
use http::Request;
use kube::Client;
use kube::client::Body;

use super::request_info::{RequestInfo, RequestVerb};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// Not served: refused with this status code and message. The reason is the one Kubernetes gives with the code.
    Refuse(u16, &'static str),
    /// Not served: the connection fails.
    Unreachable,
    /// Not served: this text is the whole answer, with status code 200.
    Answer(&'static str),
    /// Served, and answered a little later than the watches show what was done.
    Late,
    /// Not served: answered with this status code, and the body of the answer never comes.
    Stall(u16),
    /// Never served and never answered: the client waits until it gives up.
    Hang,
    /// Served, and never answered: what was asked for is done, and the client cannot know.
    Lost,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Option<InjectedFault> + Send>;
type IsMeant = fn(&RequestInfo<'_>) -> bool;

/// Faults between operators and the API server. Clones share them, so they may change while operators run.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<FaultState>>);

#[derive(Default)]
struct FaultState {
    rule: Option<Rule>,
    counted: Vec<CountedFault>,
    cut: CancellationToken,
    is_mute: bool,
    elsewhere: Option<Client>,
    watch_delay: Option<Duration>,
}

/// A fault for the next requests of a sort.
struct CountedFault {
    verb: RequestVerb,
    is_meant: IsMeant,
    left: u32,
    fault: InjectedFault,
}

impl Faults {
    /// Makes the next `count` requests fail that do this to objects of this kind, or to their status. Requests before
    /// them and after them are served.
    pub fn fail_next<K: Kind>(&self, verb: RequestVerb, count: u32, fault: InjectedFault) {
        let is_meant: IsMeant = |request| request.is_of::<K>();
        self.state().counted.push(CountedFault { verb, is_meant, left: count, fault });
    }

    /// Returns how many of the requests that [`fail_next`](Self::fail_next) announced have not come yet. A test that
    /// ends with more than zero did not test what it meant to.
    pub fn pending(&self) -> u32 {
        self.state().counted.iter().map(|counted| counted.left).sum()
    }

    /// Asks `rule` about every request from now on. It replaces the rule before.
    pub fn set(&self, rule: impl Fn(&Request<Body>) -> Option<InjectedFault> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    /// Serves every request again: no rule, nothing announced.
    pub fn clear(&self) {
        let mut state = self.state();
        state.rule = None;
        state.counted.clear();
    }

    /// Ends every answer that is still open: the watches break off.
    pub fn cut(&self) {
        std::mem::take(&mut self.state().cut).cancel();
    }

    /// Keeps watches open and silent: what happens from now on is lost to them without a trace.
    pub fn mute(&self) {
        self.state().is_mute = true;
    }

    /// Lets watches deliver again. Changes in the meantime stay lost to them.
    pub fn unmute(&self) {
        self.state().is_mute = false;
    }

    /// Lets watches lag: from the next watch on that is opened, each shows what happens so much later. Everything else
    /// is as fast as ever, so writes and their answers overtake the watches. May be changed at any time.
    pub fn delay_watches(&self, delay: Duration) {
        self.state().watch_delay = Some(delay);
    }

    /// Sends every request to another server, as if it had taken the place of the first: restored from a backup, say.
    pub fn redirect_to(&self, server: Client) {
        self.state().elsewhere = Some(server);
    }

    /// Decides about a request, and returns what ends its answer early.
    pub(super) fn decide(&self, request: &Request<Body>) -> (Option<InjectedFault>, CancellationToken) {
        let mut state = self.state();
        let by_rule = state.rule.as_ref().and_then(|rule| rule(request));
        let fault = by_rule.or_else(|| state.take_counted(request));
        (fault, state.cut.clone())
    }

    pub(super) fn are_watches_heard(&self) -> bool {
        !self.state().is_mute
    }

    pub(super) fn watch_delay(&self) -> Option<Duration> {
        self.state().watch_delay
    }

    pub(super) fn elsewhere(&self) -> Option<Client> {
        self.state().elsewhere.clone()
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultState {
    fn take_counted(&mut self, request: &Request<Body>) -> Option<InjectedFault> {
        let request = RequestInfo::parse(request)?;
        let is_next =
            |one: &&mut CountedFault| one.left > 0 && one.verb == request.verb && (one.is_meant)(&request);
        let counted = self.counted.iter_mut().find(is_next)?;
        counted.left -= 1;
        Some(counted.fault)
    }
}
