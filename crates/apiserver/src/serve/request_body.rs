//! Receives the body of a request. It has a deadline, so that a trickle of bytes cannot hold resources for long.
//!
//! An unread body (the request was refused first) is read completely and discarded, within limits: an HTTP/1.1 client
//! that is still sending when the connection closes never sees the refusal.
//!
//! The size is not limited here: the code that collects the body does that, and responds with 413 and the API's
//! wording.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::body_memory::BodyMemoryReservation;
use super::request_slots::{RequestSlot, SlotHandle};
use crate::limits::{BODY_LATE_TIME, BODY_TIME, UNREAD_BODY_BYTES_MAX, UNREAD_BODY_TIME};
use crate::request::BodyError;

/// The body of a request.
pub struct RequestBody {
    /// Taken if the body is dropped before it is complete.
    incoming: Option<Incoming>,
    /// The slot of its request.
    handle: Option<SlotHandle>,
    /// The memory that the body's bytes count against.
    memory: Option<Arc<BodyMemoryReservation>>,
    /// The deadline, which starts when we first have to wait for the body.
    deadline: Option<BoxFuture<'static, BodyError>>,
    /// The owner of the task that discards an unread body; `None` if none needs to be discarded.
    discard_tasks: Option<TaskTracker>,
}

impl RequestBody {
    /// Wraps the body of a request; `discard_tasks` owns the tasks that discard unread bodies.
    pub(crate) fn new(request: Request<Incoming>, discard_tasks: &TaskTracker) -> Request<Self> {
        // HTTP/2 can refuse single streams, and a client that waits for `100 Continue` has not sent the body.
        let is_at_risk = request.version() <= Version::HTTP_11
            && !request.body().is_end_stream()
            && !request.headers().contains_key(header::EXPECT);
        let discard_tasks = is_at_risk.then(|| discard_tasks.clone());
        request.map(|incoming| Self {
            incoming: Some(incoming),
            handle: None,
            memory: None,
            deadline: None,
            discard_tasks,
        })
    }

    /// Sets the reservation that the body's bytes count against.
    pub(crate) fn count_in(&mut self, memory: Option<Arc<BodyMemoryReservation>>) {
        self.memory = memory;
    }

    /// Discards a body that nobody will read, before its request waits for anything. In HTTP/2, a client could otherwise
    /// leave a whole window of bytes in each stream.
    pub(crate) fn discard(&mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        if let Some(discard_tasks) = self.discard_tasks.take() {
            discard_tasks.spawn(discard_unread(incoming));
        }
    }

    /// Sets the slot that the request loses when its body is late.
    pub(crate) fn occupy(&mut self, slot: Option<&RequestSlot>) {
        self.handle = slot.filter(|_| !self.is_end_stream()).map(RequestSlot::handle);
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// Waits until the body is overdue, and returns the error.
async fn wait_until_too_late(
    handle: Option<SlotHandle>,
    memory: Option<Arc<BodyMemoryReservation>>,
) -> BodyError {
    let end = Instant::now() + BODY_TIME;
    tokio::time::sleep(BODY_LATE_TIME).await;
    let late = handle.map(SlotHandle::mark_late);
    let late_memory = memory.map(|memory| memory.mark_late());
    let slot_evicted = async {
        match &late {
            Some(late) => late.evicted().await,
            None => std::future::pending().await,
        }
    };
    let memory_evicted = async {
        match &late_memory {
            Some(late) => late.evicted().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = slot_evicted => BodyError::Evicted,
        () = memory_evicted => BodyError::Evicted,
        () = tokio::time::sleep_until(end) => BodyError::TooSlow,
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(incoming), Some(discard_tasks)) = (self.incoming.take(), &self.discard_tasks)
            && tokio::runtime::Handle::try_current().is_ok()
        {
            discard_tasks.spawn(discard_unread(incoming));
        }
    }
}

async fn discard_unread(incoming: Incoming) {
    let limited = Limited::new(incoming, UNREAD_BODY_BYTES_MAX);
    let mut limited = std::pin::pin!(limited);
    let all = async { while let Some(Ok(_)) = limited.frame().await {} };
    // Whether or not it was read completely, the connection is done with it.
    let _ = tokio::time::timeout(UNREAD_BODY_TIME, all).await;
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let fits = self.memory.as_ref().is_none_or(|memory| memory.grow(bytes));
                Poll::Ready(Some(if fits { Ok(frame) } else { Err(BodyError::NoRoom) }))
            }
            Poll::Ready(Some(Err(error))) => {
                self.incoming = None;
                Poll::Ready(Some(Err(BodyError::Broken(error))))
            }
            Poll::Ready(None) => {
                self.incoming = None;
                // The body is complete and no longer late. If the request lost its slot or memory earlier, another
                // request owns it now.
                self.deadline = None;
                let was_evicted = self.handle.take().is_some_and(|handle| handle.was_evicted())
                    || self.memory.as_ref().is_some_and(|memory| memory.was_evicted());
                Poll::Ready(was_evicted.then_some(Err(BodyError::Evicted)))
            }
            Poll::Pending => {
                let body = &mut *self;
                let deadline = body.deadline.get_or_insert_with(|| {
                    wait_until_too_late(body.handle.clone(), body.memory.clone()).boxed()
                });
                deadline.poll_unpin(cx).map(|error| Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
