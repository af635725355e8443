//! One connection, from the handshake to its end.
//!
//! **Invariant:** every wait has a limit: the handshake, each request's headers, its body, its answer. Told to stop,
//! a connection finishes the answers under way, takes no new request and closes.

use std::io;
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
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{Connection, Connections};
use super::gate::Gate;
use super::limits;
use super::progress::Progress;
use super::sliced::Sliced;
use super::tls::{HTTP2, Trust};
use crate::auth::Peer;

/// How plain HTTP begins: the first five bytes are what Go looks at.
const PLAIN_STARTS: [&[u8]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// More than the headers of any client; larger bodies are not waited for.
const PLAIN_BYTES: usize = 8 * 1024;

/// Who is at the other end of a connection, and what is known of it.
pub(crate) struct Client {
    pub(super) peer: Peer,
    pub(super) progress: Arc<Progress>,
    pub(super) place: Arc<Connection>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) trust: Trust,
    pub(crate) gate: Arc<Gate>,
    /// The requests of HTTP/2 connections, which run beside each other, and bodies nobody wants.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(super) connections: Connections,
}

impl Shared {
    /// Serves the connection until either side ends it.
    pub(crate) async fn serve(self: Arc<Self>, stream: TcpStream, place: Connection) {
        // Answers are written whole; waiting to fill packets would only delay them.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let Some(stream) = self.greet(stream, &place).await else { return };
        let (_, session) = stream.get_ref();
        let progress = Arc::new(Progress::default());
        let place = Arc::new(place);
        let client = Arc::new(Client {
            peer: self.trust.peer(session.peer_certificates()),
            progress: Arc::clone(&progress),
            place: Arc::clone(&place),
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
            () = place.told_to_leave() => tracing::debug!("a connection of nobody known, or an idle one, makes room"),
            () = progress.stalled() => tracing::debug!("a client takes nothing of its answer; the connection is cut"),
        }
    }

    /// The connection once it is known who is at the other end; none if that takes too long.
    async fn greet(&self, stream: TcpStream, place: &Connection) -> Option<TlsStream<TcpStream>> {
        tokio::select! {
            greeted = tokio::time::timeout(limits::HANDSHAKE_TIME, self.handshake(stream)) => greeted.ok()?.ok(),
            () = place.needed_by_another() => None,
        }
    }

    async fn handshake(&self, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0].is_ascii_uppercase() {
            return Err(refuse_plain(&mut stream).await);
        }
        self.acceptor.accept(stream).await
    }

    async fn serve_http1(&self, stream: TlsStream<TcpStream>, client: Arc<Client>) -> hyper::Result<()> {
        let service = service_fn(|request: Request<Incoming>| {
            let (gate, client) = (self.gate.clone(), Arc::clone(&client));
            async move { gate.answer(request, &client).await }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEADER_TIME)
            .max_header_size(limits::HEADER_BYTES_MAX)
            .max_buf_size(limits::BUFFER_BYTES)
            .serve_connection(TokioIo::new(Sliced(stream)), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return result,
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn serve_http2(&self, stream: TlsStream<TcpStream>, client: Arc<Client>) -> hyper::Result<()> {
        let gate = self.gate.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (gate, client) = (gate.clone(), Arc::clone(&client));
            async move { gate.answer(request, &client).await }
        });
        let connection = http2::Builder::new(Tracked(self.tasks.clone()))
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
            .serve_connection(TokioIo::new(Sliced(stream)), service);
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return result,
            () = self.stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

/// Tells a client that forgot the `s` of `https` so, in the words of Go's server. No record of TLS begins with a letter.
async fn refuse_plain(stream: &mut TcpStream) -> io::Error {
    // What is not read when the connection closes would make the client lose the answer.
    let mut request = [0; PLAIN_BYTES];
    let told = async {
        let length = stream.read(&mut request).await?;
        if PLAIN_STARTS.iter().any(|start| request[..length].starts_with(start)) {
            stream.write_all(PLAIN_ANSWER).await?;
        }
        stream.shutdown().await
    };
    told.await.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Runs the requests of an HTTP/2 connection as tasks the server waits for.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}
