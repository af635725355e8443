//! Implements the accept loop and the orderly shutdown.
//!
//! **Invariant:** every connection and every request is a task that this loop waits for; nothing outlives [`run`].

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use super::Error;
use super::connection::ConnectionServer;
use crate::limits;

/// The minimum number of connections: a server that can open hardly any files still serves a few clients.
const CONNECTIONS_MIN: usize = 16;

/// Starts to listen. Port 0 selects any free port.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the previous run's connections to expire; a port in use is still refused.
        socket.set_reuseaddr(true)?;
        // Accepted sockets inherit this: a client that vanished is detected even if nothing is sent to it.
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        socket.listen(limits::BACKLOG)
    };
    listen().map_err(|source| Error::Bind { address, source })
}

/// Serves until the stop token is cancelled, then ends watches, finishes responses in progress and returns, after
/// [`limits::DRAIN_TIME`] at the latest. Dropping the future closes all connections.
pub(crate) async fn run(listener: TcpListener, context: Arc<ConnectionServer>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = context.stop.cancelled() => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match context.connections.accept(peer.ip()) {
                    Some(connection) => drop(connections.spawn(context.clone().serve(stream, connection))),
                    None => {
                        tracing::warn!("{} connections are open and busy; refusing a new one", connections.len());
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    context.tasks.close();
    let drained = tokio::time::timeout(limits::DRAIN_TIME, async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
        context.tasks.wait().await;
    });
    if drained.await.is_err() {
        tracing::warn!("{} connections did not end in time; cutting them", connections.len());
        connections.shutdown().await;
        // Their requests end with them, because the streams for their responses are gone.
        context.tasks.wait().await;
    }
}

/// Returns how many connections the process has file descriptors for, leaving some to spare. Raises the soft limit for
/// them as far as the hard limit allows.
pub(super) fn connections_max() -> usize {
    let wanted = (limits::CONNECTIONS_MAX + limits::DESCRIPTORS_RESERVED) as u64;
    let limit = getrlimit(Resource::Nofile);
    let mut allowed = limit.current.unwrap_or(wanted);
    if allowed < wanted {
        let raised = wanted.min(limit.maximum.unwrap_or(wanted));
        let fresh = Rlimit { current: Some(raised), maximum: limit.maximum };
        if raised > allowed && setrlimit(Resource::Nofile, fresh).is_ok() {
            allowed = raised;
        }
    }
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    allowed.saturating_sub(limits::DESCRIPTORS_RESERVED).clamp(CONNECTIONS_MIN, limits::CONNECTIONS_MAX)
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection made the server panic");
    }
}
