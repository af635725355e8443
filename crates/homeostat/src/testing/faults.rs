//! Injects faults between operators and the API server: requests that fail on demand, and watches that disconnect, go
//! silent or lag.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::{RequestTarget, RequestVerb};
use homeostat_runtime::{CancellationToken, Kind};
use http::Request;
use kube::Client;
use kube::client::Body;

use super::request_info::{is_of_kind, request_target};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// The request is not served: it is refused with this status code and message. The reason is the one Kubernetes
    /// uses for the code.
    Refuse(u16, &'static str),
    /// The request is not served: the connection fails.
    Unreachable,
    /// The request is not served: this string is the whole response, with status code 200.
    Answer(&'static str),
    /// The request is served, but the response arrives shortly after the watches show the effect.
    Late,
    /// The request is not served: the response has this status code, but the body of the response never arrives.
    Stall(u16),
    /// The request is never served and gets no response: the client waits until it gives up.
    Hang,
    /// The request is served but gets no response: it takes effect, but the client cannot know.
    Lost,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Option<InjectedFault> + Send>;
type IsMeant = fn(&RequestTarget) -> bool;

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

/// A fault for the next requests of one kind.
struct CountedFault {
    verb: RequestVerb,
    is_meant: IsMeant,
    left: u32,
    fault: InjectedFault,
}

impl Faults {
    /// Makes the next `count` requests with this verb on objects of this kind, or on their status, fail. All other
    /// requests are served.
    pub fn fail_next<K: Kind>(&self, verb: RequestVerb, count: u32, fault: InjectedFault) {
        let is_meant: IsMeant = is_of_kind::<K>;
        self.state().counted.push(CountedFault { verb, is_meant, left: count, fault });
    }

    /// Returns how many of the failures announced with [`fail_next`](Self::fail_next) have not been used yet. A test
    /// that ends with more than zero did not test what it was meant to.
    pub fn pending(&self) -> u32 {
        self.state().counted.iter().map(|counted| counted.left).sum()
    }

    /// Consults `rule` for every request from now on. Replaces any previous rule.
    pub fn set(&self, rule: impl Fn(&Request<Body>) -> Option<InjectedFault> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    /// Serves every request again: removes the rule and all announced failures.
    pub fn clear(&self) {
        let mut state = self.state();
        state.rule = None;
        state.counted.clear();
    }

    /// Ends every response that is still open, which disconnects the watches.
    pub fn cut(&self) {
        std::mem::take(&mut self.state().cut).cancel();
    }

    /// Keeps watches open but silent: they lose everything that happens from now on, without noticing.
    pub fn mute(&self) {
        self.state().is_mute = true;
    }

    /// Lets watches deliver again. Changes made in the meantime stay lost.
    pub fn unmute(&self) {
        self.state().is_mute = false;
    }

    /// Makes watches that are opened from now on lag by `delay`. Everything else is as fast as before, so writes and
    /// their responses overtake the watches. This may be changed at any time.
    pub fn delay_watches(&self, delay: Duration) {
        self.state().watch_delay = Some(delay);
    }

    /// Sends every request to a different server, as if it had replaced the first one, for example after a restore from
    /// a backup.
    pub fn redirect_to(&self, server: Client) {
        self.state().elsewhere = Some(server);
    }

    /// Decides what happens to a request, and returns a future that ends its response early.
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
        let request = request_target(request)?;
        let is_next =
            |one: &&mut CountedFault| one.left > 0 && one.verb == request.verb && (one.is_meant)(&request);
        let counted = self.counted.iter_mut().find(is_next)?;
        counted.left -= 1;
        Some(counted.fault)
    }
}
