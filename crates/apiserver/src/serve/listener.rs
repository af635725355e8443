//! The accept loop, and the orderly end.
//!
//! **Invariant:** every connection and every request is a task this loop waits for; nothing outlives [`run`].

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use super::connection::Shared;
use super::{Error, limits};

/// A server that may open hardly any files still answers a few clients.
const CONNECTIONS_MIN: usize = 16;

/// Starts to listen. Port 0 takes any free one.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections of the last run to be forgotten; a port in use stays refused.
        socket.set_reuseaddr(true)?;
        // Accepted sockets inherit it: a client that vanished is noticed even if nothing is sent to it.
        socket.set_keepalive(true)?;
        socket.bind(address)?;
        socket.listen(limits::BACKLOG)
    };
    listen().map_err(|source| Error::Bind { address, source })
}

/// Serves until the shared stop is cancelled, then ends watches, finishes answers under way and returns, at the
/// latest after [`limits::DRAIN_TIME`]. Dropping the future cuts all connections.
pub(crate) async fn run(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match shared.connections.admit(peer.ip()) {
                    Some(place) => drop(connections.spawn(shared.clone().serve(stream, place))),
                    None => {
                        tracing::warn!("{} connections are open and busy, the newest is refused", connections.len());
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
    shared.tasks.close();
    let drained = tokio::time::timeout(limits::DRAIN_TIME, async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
        shared.tasks.wait().await;
    });
    if drained.await.is_err() {
        tracing::warn!("{} connections did not end in time and are cut", connections.len());
        connections.shutdown().await;
        // Their requests end with them: the streams they answer are gone.
        shared.tasks.wait().await;
    }
}

/// As many connections as the process may have descriptors for, and some left. Raises the soft limit for them, as far as
/// the hard one allows.
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

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection made the server panic");
    }
}
