//! Holds the operator's calls until the simulator performs them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::oneshot;

use super::wire::AnswerBody;

/// One start of an operator. Numbers are never reused, so nothing from a crashed process has any effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessNumber(pub(crate) u32);

/// The answer to a call, or a connection error.
pub(crate) type CallAnswer = std::io::Result<Response<AnswerBody>>;

/// A call of the API.
pub(crate) struct ApiCall {
    pub(crate) request: Request<Bytes>,
    pub(crate) answer: oneshot::Sender<CallAnswer>,
}

/// What happens to a call to the outside API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutsideFate {
    /// Done and answered.
    Done,
    /// Done twice; the caller gets the second answer.
    DoneTwice,
    /// Done, and the answer is an error.
    DoneAndFailed,
    /// Done, and the answer never reaches the caller.
    DoneAndLost,
    /// Not done; the answer is an error.
    Failed,
    /// Answered from the state before this many changes (reads only).
    Stale(usize),
}

/// A call to the API outside the cluster.
pub(crate) struct OutsideCall {
    pub(crate) what: String,
    pub(crate) is_write: bool,
    pub(crate) perform: Box<dyn FnOnce(OutsideFate) + Send>,
}

/// The work that is parked.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are calls of the API, and a box for each costs more"
)]
pub(crate) enum ParkedWork {
    Api(ApiCall),
    Outside(OutsideCall),
}

/// A parked call and its process.
pub(crate) struct ParkedCall {
    pub(crate) process: ProcessNumber,
    pub(crate) work: ParkedWork,
}

/// The calls that have arrived and have not been taken yet.
#[derive(Default)]
pub(crate) struct Parking {
    state: Mutex<ParkingState>,
}

#[derive(Default)]
struct ParkingState {
    calls: Vec<ParkedCall>,
    waiting: Option<Waker>,
}

impl Parking {
    fn state(&self) -> MutexGuard<'_, ParkingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call.
    pub(crate) fn park(&self, call: ParkedCall) {
        let mut state = self.state();
        state.calls.push(call);
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
    }

    /// Takes all calls that have arrived.
    pub(crate) fn take(&self) -> Vec<ParkedCall> {
        std::mem::take(&mut self.state().calls)
    }

    /// Returns ready if a call has arrived; otherwise wakes the task of `cx` when one does.
    pub(crate) fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if !state.calls.is_empty() {
            return Poll::Ready(());
        }
        state.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}
