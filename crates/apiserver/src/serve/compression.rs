//! Compresses long responses for remote clients that accept gzip, as kube-apiserver does: lists, objects and documents
//! over 128 KiB, never a watch or a log.
//!
//! On a single machine, compressing takes longer than sending, so by default clients on loopback get uncompressed
//! responses.
//!
//! **Invariant:** at most [`STREAMS_MAX`] lists are compressed while they are sent, each with one buffer; further
//! ones are sent uncompressed. Long work runs in the queue of expensive requests, on behalf of the user.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::gzip::GzipEncoder;
use crate::body::{Body, PIECE_BYTES};
use crate::expensive_requests::{RequestCost, UserQueue};

/// The size from which on responses are compressed, as in Kubernetes.
const COMPRESSED_BYTES_MIN: usize = 128 * 1024;
/// How many lists are compressed concurrently. An encoder takes about 300 KiB until its client has read everything.
const STREAMS_MAX: usize = 64;

/// Which clients get compressed responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseCompression {
    /// None.
    Never,
    /// Clients that are not on this machine.
    #[default]
    Remote,
    /// All clients.
    Always,
}

/// Compresses responses.
#[derive(Debug)]
pub(crate) struct Compression {
    mode: ResponseCompression,
    streams: Arc<Semaphore>,
}

impl Compression {
    pub(crate) fn new(mode: ResponseCompression) -> Self {
        Self { mode, streams: Arc::new(Semaphore::new(STREAMS_MAX)) }
    }

    /// Returns whether a client may get a compressed response.
    pub(crate) fn is_wanted(&self, method: &Method, headers: &HeaderMap, address: Option<IpAddr>) -> bool {
        let is_remote = address.is_some_and(|address| !address.to_canonical().is_loopback());
        let is_meant = match self.mode {
            ResponseCompression::Never => false,
            ResponseCompression::Remote => is_remote,
            ResponseCompression::Always => true,
        };
        is_meant && *method == Method::GET && accepts_gzip(headers)
    }

    /// Compresses a response to a client that accepts it, if it is long enough.
    pub(crate) async fn compress(&self, response: Response<Body>, queue: UserQueue) -> Response<Body> {
        if response.status() != StatusCode::OK || response.headers().contains_key(header::CONTENT_ENCODING) {
            return response;
        }
        let (mut head, body) = response.into_parts();
        let (body, is_compressed) = match body {
            Body::Full(bytes) if bytes.len() > COMPRESSED_BYTES_MIN => {
                (compress_whole(bytes, &queue).await, true)
            }
            Body::Pieces(pieces) if total(&pieces) > COMPRESSED_BYTES_MIN => {
                let whole = pieces.into_iter().fold(Vec::new(), |mut whole, piece| {
                    whole.extend_from_slice(&piece);
                    whole
                });
                (compress_whole(whole.into(), &queue).await, true)
            }
            Body::List(pieces, kept) => {
                let (pieces, is_compressed) = self.compress_list(pieces, queue).await;
                (Body::List(pieces, kept), is_compressed)
            }
            body => (body, false),
        };
        if is_compressed {
            head.headers.remove(header::CONTENT_LENGTH);
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        Response::from_parts(head, body)
    }

    /// Compresses a list that is produced while it is sent, unless it ends before it is long enough.
    async fn compress_list(
        &self,
        mut pieces: BoxStream<'static, Bytes>,
        queue: UserQueue,
    ) -> (BoxStream<'static, Bytes>, bool) {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else { return (pieces, false) };
        let (mut first, mut bytes) = (Vec::new(), 0);
        while bytes <= COMPRESSED_BYTES_MIN {
            let Some(piece) = pieces.next().await else { return (stream::iter(first).boxed(), false) };
            bytes += piece.len();
            first.push(piece);
        }
        let pieces = stream::iter(first).chain(pieces).boxed();
        let list = CompressedList { encoder: GzipEncoder::new(), pieces, queue, _permit: permit };
        (stream::unfold(Some(list), |list| next_piece(list).boxed()).boxed(), true)
    }
}

/// A list that is compressed while it is sent.
struct CompressedList {
    encoder: GzipEncoder,
    pieces: BoxStream<'static, Bytes>,
    queue: UserQueue,
    _permit: OwnedSemaphorePermit,
}

async fn next_piece(list: Option<CompressedList>) -> Option<(Bytes, Option<CompressedList>)> {
    let mut list = list?;
    loop {
        let Some(piece) = list.pieces.next().await else {
            let mut rest = Vec::new();
            list.encoder.finish(&mut rest);
            return Some((rest.into(), None));
        };
        let encoder = &mut list.encoder;
        let mut made = Vec::new();
        list.queue.run_when_permitted(cost_of(piece.len()), || encoder.write(&piece, &mut made)).await;
        // The encoder buffers short pieces.
        if !made.is_empty() {
            return Some((made.into(), Some(list)));
        }
    }
}

async fn compress_whole(bytes: Bytes, queue: &UserQueue) -> Body {
    let compress = || {
        let (mut encoder, mut made) = (GzipEncoder::new(), Vec::new());
        bytes.chunks(PIECE_BYTES).for_each(|piece| encoder.write(piece, &mut made));
        encoder.finish(&mut made);
        made
    };
    queue.run_when_permitted(cost_of(bytes.len()), compress).await.into()
}

fn cost_of(bytes: usize) -> RequestCost {
    RequestCost { bytes, memory: bytes }
}

fn total<'a>(pieces: impl IntoIterator<Item = &'a Bytes>) -> usize {
    pieces.into_iter().map(Bytes::len).sum()
}

/// Returns whether a client accepts gzip. As in Kubernetes, weights are ignored.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| one.trim() == "gzip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_clients_that_accept_gzip_are_meant() {
        let check = |mode, address: Option<&str>, accepted: &str, expected: bool| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted.parse().unwrap())]);
            let address = address.map(|address| address.parse().unwrap());
            let found = Compression::new(mode).is_wanted(&Method::GET, &headers, address);
            assert_eq!(found, expected, "{mode:?} {address:?} {accepted}");
        };
        check(ResponseCompression::Remote, Some("192.0.2.7"), "gzip", true);
        check(ResponseCompression::Remote, Some("2001:db8::7"), "deflate, gzip", true);
        check(ResponseCompression::Remote, Some("192.0.2.7"), "identity", false);
        check(ResponseCompression::Remote, Some("127.0.0.1"), "gzip", false);
        check(ResponseCompression::Remote, Some("::1"), "gzip", false);
        check(ResponseCompression::Remote, Some("::ffff:127.0.0.1"), "gzip", false);
        check(ResponseCompression::Remote, None, "gzip", false);
        check(ResponseCompression::Always, Some("127.0.0.1"), "gzip", true);
        check(ResponseCompression::Never, Some("192.0.2.7"), "gzip", false);
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        assert!(!Compression::new(ResponseCompression::Always).is_wanted(&Method::POST, &headers, None));
    }
}
