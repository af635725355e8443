//! Serves one connection, from the handshake until it is closed.
//!
//! **Invariant:** every wait has a limit: the handshake, each request's headers, its body, its response. When asked to
//! stop, a connection finishes the responses in progress, accepts no new request and closes.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer_progress::AnswerProgress;
use super::connection_table::{ConnectionRegistration, ConnectionTable};
use super::credential_reload::{ReloadableTls, TlsState};
use super::request_filter::RequestFilter;
use super::sliced_writes::SlicedWrites;
use super::tls::HTTP2;
use crate::auth::ClientCertificateProof;
use crate::limits;

/// The first five bytes of plain HTTP, which are the ones that Go checks.
const PLAIN_STARTS: [&[u8]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// The maximum size of a plain HTTP request: more than any client's headers. The rest of a larger request is not read.
const PLAIN_REQUEST_BYTES_MAX: usize = 8 * 1024;

/// The client of a connection, and the known facts about it.
pub(crate) struct ConnectedClient {
    pub(super) peer: ClientCertificateProof,
    pub(super) address: Option<IpAddr>,
    pub(super) progress: Arc<AnswerProgress>,
    pub(super) connection: Arc<ConnectionRegistration>,
}

/// The parts that all connections share.
pub(crate) struct ConnectionServer {
    pub(crate) tls: Arc<ReloadableTls>,
    pub(crate) filter: Arc<RequestFilter>,
    /// The requests of HTTP/2 connections, which run concurrently, and the tasks that discard refused bodies.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(super) connections: ConnectionTable,
}

impl ConnectionServer {
    /// Serves the connection until either side closes it.
    pub(crate) async fn serve(self: Arc<Self>, stream: TcpStream, connection: ConnectionRegistration) {
        // Responses are written as a whole, so waiting to fill packets would only delay them.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let tls = self.tls.current();
        let Some(stream) = self.handshake_in_time(&tls, stream, &connection).await else { return };
        let (_, session) = stream.get_ref();
        let progress = Arc::new(AnswerProgress::default());
        let connection = Arc::new(connection);
        let client = Arc::new(ConnectedClient {
            peer: tls.client_trust.peer(session.peer_certificates()),
            address,
            progress: Arc::clone(&progress),
            connection: Arc::clone(&connection),
        });
        let is_http2 = session.alpn_protocol() == Some(HTTP2);
        let served = async {
            if is_http2 {
                self.serve_http2(stream, client).await
            } else {
                self.serve_http1(stream, client).await
            }
        };
        tokio::select! {
            result = served => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a connection broke");
                }
            }
            () = connection.close_requested() => tracing::debug!("closing an unauthenticated or idle connection to make room"),
            () = progress.stalled() => tracing::debug!("the client does not read its answer; closing the connection"),
        }
    }

    /// Runs the TLS handshake; returns `None` if it fails or takes too long.
    async fn handshake_in_time(
        &self,
        tls: &TlsState,
        stream: TcpStream,
        connection: &ConnectionRegistration,
    ) -> Option<TlsStream<TcpStream>> {
        tokio::select! {
            greeted = tokio::time::timeout(limits::HANDSHAKE_TIME, handshake(tls, stream)) => greeted.ok()?.ok(),
            () = connection.slot_requested() => None,
        }
    }

    async fn serve_http1(
        &self,
        stream: TlsStream<TcpStream>,
        client: Arc<ConnectedClient>,
    ) -> hyper::Result<()> {
        let service = service_fn(|request: Request<Incoming>| {
            let (filter, client) = (self.filter.clone(), Arc::clone(&client));
            async move { filter.answer(request, &client).await }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEADER_TIME)
            .max_header_size(limits::HEADER_BYTES_MAX)
            .max_buf_size(limits::BUFFER_BYTES)
            .serve_connection(TokioIo::new(SlicedWrites(stream)), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return result,
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn serve_http2(
        &self,
        stream: TlsStream<TcpStream>,
        client: Arc<ConnectedClient>,
    ) -> hyper::Result<()> {
        let filter = self.filter.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (filter, client) = (filter.clone(), Arc::clone(&client));
            async move { filter.answer(request, &client).await }
        });
        let connection = http2::Builder::new(TrackedExecutor(self.tasks.clone()))
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::STREAMS_MAX)
            .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
            .max_frame_size(limits::FRAME_BYTES)
            .max_send_buf_size(limits::SEND_BUFFER_BYTES)
            .max_header_list_size(u32::try_from(limits::HEADER_BYTES_MAX).expect("64 KiB fits"))
            .max_pending_accept_reset_streams(limits::RESET_STREAMS_MAX)
            .keep_alive_interval(limits::PING_INTERVAL)
            .keep_alive_timeout(limits::PING_TIME)
            .serve_connection(TokioIo::new(SlicedWrites(stream)), service);
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return result,
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

async fn handshake(tls: &TlsState, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first[0].is_ascii_uppercase() {
        return Err(refuse_plain(&mut stream).await);
    }
    tls.acceptor.accept(stream).await
}

/// Responds to a client that forgot the `s` in `https`, with the wording of Go's server. No TLS record begins with a
/// letter.
async fn refuse_plain(stream: &mut TcpStream) -> io::Error {
    // If data is left unread, the client loses the response when the connection closes.
    let mut request = [0; PLAIN_REQUEST_BYTES_MAX];
    let answered = async {
        let length = stream.read(&mut request).await?;
        if PLAIN_STARTS.iter().any(|start| request[..length].starts_with(start)) {
            stream.write_all(PLAIN_ANSWER).await?;
        }
        stream.shutdown().await
    };
    answered.await.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Runs the requests of an HTTP/2 connection as tasks that the server waits for.
#[derive(Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> Executor<F> for TrackedExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
