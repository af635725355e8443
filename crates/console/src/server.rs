//! The console's own listener: plain HTTP on the machine itself.
//!
//! **Invariant:** connections are bounded, each belongs to the task that serves, and all of them end when it is
//! stopped.

use std::convert::Infallible;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::console::Console;

/// Concurrent connections: a browser opens six per tab.
const CONNECTIONS_MAX: usize = 128;

/// How long a connection may take to send a request.
const REQUEST_MAX: Duration = Duration::from_secs(75);

/// The pause after a failed accept, which is usually due to a lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves until `stop` is cancelled. Open streams are cut off then: pages connect again by themselves.
pub async fn serve(listener: TcpListener, console: Console, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve_connection(stream, console.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

/// Serves one connection until it ends.
async fn serve_connection(stream: TcpStream, console: Console) {
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let console = console.clone();
        async move {
            Ok::<_, Infallible>(console.answer(request.method(), request.uri(), request.headers()).await)
        }
    });
    let _ = stream.set_nodelay(true);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_MAX);
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
