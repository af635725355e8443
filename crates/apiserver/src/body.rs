//! Represents the body of a response: ready bytes, a list of shared pieces, or a stream of pieces.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http_body::{Frame, SizeHint};

/// How many bytes are gathered before a piece is handed to the connection: enough to keep the number of writes low,
/// small enough that the client reads the first piece while the next is produced, and that a list of any size costs one
/// such buffer.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// The body of a response.
pub enum Body {
    /// Nothing more to send.
    Empty,
    /// One piece.
    Full(Bytes),
    /// Several pieces, sent as they are: a list consists of the stored bytes of its items.
    Pieces(VecDeque<Bytes>),
    /// Pieces that are produced while they are sent, from objects that are retained for them: a list.
    List(BoxStream<'static, Bytes>, Arc<dyn RetainedObjects>),
    /// Pieces that arrive over time: a watch, a log.
    Stream(BoxStream<'static, Bytes>),
    /// Pieces of someone else's response, which may be interrupted.
    Proxied(BoxStream<'static, Result<Bytes, BrokenAnswer>>),
}

/// A response that is being forwarded was interrupted, which also ends the connection to the client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer that is passed on broke off: {0}")]
pub struct BrokenAnswer(String);

impl BrokenAnswer {
    pub(crate) fn new(error: &dyn std::error::Error) -> Self {
        Self(error.to_string())
    }
}

/// The objects that an unfinished response keeps alive.
pub trait RetainedObjects: Send + Sync {
    /// Returns the number of bytes that only responses still need: objects that have since been changed or deleted.
    /// This takes some time.
    fn outdated_bytes(&self) -> usize;
}

impl Body {
    /// Creates a body of pieces that arrive over time.
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(pieces))
    }
}

impl Body {
    /// Returns its pieces.
    pub(crate) fn into_pieces(self) -> BoxStream<'static, Bytes> {
        match self {
            Self::Empty => Box::pin(futures::stream::empty()),
            Self::Full(bytes) => Box::pin(futures::stream::iter([bytes])),
            Self::Pieces(pieces) => Box::pin(futures::stream::iter(pieces)),
            Self::List(pieces, _) | Self::Stream(pieces) => pieces,
            Self::Proxied(pieces) => pieces.scan((), |(), piece| std::future::ready(piece.ok())).boxed(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::Empty } else { Self::Full(bytes) }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Full(bytes.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Full(text.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenAnswer;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenAnswer>>> {
        let body = self.get_mut();
        let piece = match body {
            Self::Empty => None,
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *body = Self::Empty;
                (!bytes.is_empty()).then_some(bytes)
            }
            Self::Pieces(pieces) => pieces.pop_front(),
            Self::List(stream, _) | Self::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Ready(piece) => piece,
                Poll::Pending => return Poll::Pending,
            },
            Self::Proxied(stream) => {
                let piece = std::task::ready!(stream.as_mut().poll_next(cx));
                return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
            }
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::List(..) | Self::Stream(_) | Self::Proxied(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let bytes = match self {
            Self::Empty => 0,
            Self::Full(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
            Self::List(..) | Self::Stream(_) | Self::Proxied(_) => return SizeHint::default(),
        };
        SizeHint::with_exact(bytes as u64)
    }
}
