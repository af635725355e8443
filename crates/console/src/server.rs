//! The console's own listener: plain HTTP on the local machine.
//!
//! **Invariant:** connections are bounded as `crate::connections` says. Each belongs to the serving task and ends when
//! that task stops. A connection without a valid token is closed after a while, even in the middle of a request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connections::{Connection, ConnectionViewer, Connections};
use crate::routes::{Console, ConsoleBody};

/// How long a connection may take to send a request.
const REQUEST_MAX: Duration = Duration::from_secs(75);

/// How long a connection may stay open without a valid token. The files of the page load in a fraction of a second, and
/// a browser opens another connection when it needs one.
const STRANGER_MAX: Duration = Duration::from_secs(20);

/// The pause after a failed accept, usually caused by a lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves until `stop` is cancelled, which also cuts off open streams: pages reconnect by themselves.
pub async fn serve(listener: TcpListener, console: Console, stop: CancellationToken) {
    let (connections, mut tasks) = (Connections::default(), JoinSet::new());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                // If there is no room, dropping the stream closes the connection.
                Ok((stream, _)) => if let Some(connection) = connections.accept() {
                    drop(tasks.spawn(serve_connection(stream, connection, console.clone())));
                },
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

/// Serves one connection until it ends or must close.
async fn serve_connection(stream: TcpStream, connection: Connection, console: Console) {
    let connection = Arc::new(connection);
    let answering = Arc::clone(&connection);
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (console, connection) = (console.clone(), Arc::clone(&answering));
        async move { Ok::<_, Infallible>(answer(&console, &connection, &request).await) }
    });
    let _ = stream.set_nodelay(true);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_MAX);
    let stranger = async {
        tokio::time::sleep(STRANGER_MAX).await;
        if connection.has_viewer() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = server.serve_connection(TokioIo::new(stream), service) => {}
        () = connection.close_requested() => {}
        () = stranger => {}
    }
}

/// Answers a request and, if it has a valid token, records whose connection it is.
async fn answer(
    console: &Console,
    connection: &Connection,
    request: &http::Request<hyper::body::Incoming>,
) -> http::Response<ConsoleBody> {
    let in_progress = connection.begin_request();
    let mut response = console.answer(request.method(), request.uri(), request.headers()).await;
    if let Some(viewer) = response.extensions_mut().remove::<ConnectionViewer>()
        && !connection.identify(viewer)
    {
        return Console::refuse_connection();
    }
    response.map(|body| {
        body.map_frame(move |frame| {
            let _held = &in_progress;
            frame
        })
        .boxed_unsync()
    })
}
