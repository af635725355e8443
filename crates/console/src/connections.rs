//! The open connections of the console's listener, and the choice of which one to close to make room for another.
//!
//! A connection belongs to a stranger until a request on it carries a token that the API server accepts.
//!
//! **Invariant:** strangers never lock anyone out: their number is limited, and their connections are closed first,
//! idle before busy and old before new. Viewers leave room for administrators.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

/// Concurrent connections: a browser opens six per tab.
const CONNECTIONS_MAX: usize = 128;

/// Connections of strangers: a page that is about to send its token needs one, and briefly six to load its files.
const STRANGERS_MAX: usize = 32;

/// Connections of one viewer, and of all viewers who are not administrators.
const VIEWER_MAX: usize = 32;
const VIEWERS_MAX: usize = 64;

/// All open connections. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<OpenConnections>>);

#[derive(Default)]
struct OpenConnections {
    next: u64,
    /// Oldest first, without connections that were asked to close.
    all: BTreeMap<u64, Arc<ConnectionState>>,
}

#[derive(Default)]
struct ConnectionState {
    must_close: CancellationToken,
    viewer: OnceLock<ConnectionViewer>,
    requests: AtomicUsize,
}

/// Whose connection it is.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionViewer {
    pub(crate) user: String,
    pub(crate) is_administrator: bool,
}

/// One connection, until it is dropped.
pub(crate) struct Connection {
    connections: Connections,
    number: u64,
    state: Arc<ConnectionState>,
}

impl Connections {
    /// Accepts one more connection, closing another one if necessary; returns `None` if there is no room.
    pub(crate) fn accept(&self) -> Option<Connection> {
        let mut open = self.open();
        if open.count(|one| one.viewer.get().is_none()) >= STRANGERS_MAX {
            open.close_stranger()?;
        } else if open.all.len() >= CONNECTIONS_MAX {
            open.close_stranger().or_else(|| open.close_idle(|_| true))?;
        }
        let (number, state) = (open.next, Arc::new(ConnectionState::default()));
        open.next += 1;
        open.all.insert(number, Arc::clone(&state));
        drop(open);
        Some(Connection { connections: self.clone(), number, state })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    fn count(&self, is_meant: impl Fn(&ConnectionState) -> bool) -> usize {
        self.all.values().filter(|one| is_meant(one)).count()
    }

    fn close_stranger(&mut self) -> Option<()> {
        let is_stranger = |one: &ConnectionState| one.viewer.get().is_none();
        self.close_idle(is_stranger).or_else(|| self.close_first(is_stranger))
    }

    fn close_idle(&mut self, is_meant: impl Fn(&ConnectionState) -> bool) -> Option<()> {
        self.close_first(|one| one.requests.load(Ordering::Relaxed) == 0 && is_meant(one))
    }

    /// Closes the oldest connection that matches.
    fn close_first(&mut self, is_meant: impl Fn(&ConnectionState) -> bool) -> Option<()> {
        let number = *self.all.iter().find(|(_, one)| is_meant(one))?.0;
        self.all.remove(&number)?.must_close.cancel();
        Some(())
    }

    /// Makes room for one more connection of a viewer; returns `None` if the viewer has too many already.
    fn make_room_for(&mut self, viewer: &ConnectionViewer) -> Option<()> {
        let is_theirs =
            |one: &ConnectionState| one.viewer.get().is_some_and(|owner| owner.user == viewer.user);
        let is_viewer = |one: &ConnectionState| one.viewer.get().is_some_and(|owner| !owner.is_administrator);
        if viewer.is_administrator {
            Some(())
        } else if self.count(is_theirs) >= VIEWER_MAX {
            self.close_idle(is_theirs)
        } else if self.count(is_viewer) >= VIEWERS_MAX {
            self.close_idle(is_viewer)
        } else {
            Some(())
        }
    }
}

impl Connection {
    /// Waits until this connection must make room for another.
    pub(crate) async fn close_requested(&self) {
        self.state.must_close.cancelled().await;
    }

    /// Returns whether any request on it carried a valid token.
    pub(crate) fn has_viewer(&self) -> bool {
        self.state.viewer.get().is_some()
    }

    /// Records whose connection it is. Returns whether that viewer may have one more.
    pub(crate) fn identify(&self, viewer: ConnectionViewer) -> bool {
        let mut open = self.connections.open();
        if self.has_viewer() {
            return true;
        }
        let has_room = open.make_room_for(&viewer).is_some();
        if has_room {
            // Is only ever set under the lock.
            let _ = self.state.viewer.set(viewer);
        }
        has_room
    }

    /// Counts a request until the returned value is dropped.
    pub(crate) fn begin_request(&self) -> OpenRequest {
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        OpenRequest(Arc::clone(&self.state))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open().all.remove(&self.number);
    }
}

/// A request in progress, until its response is sent.
pub(crate) struct OpenRequest(Arc<ConnectionState>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(user: &str, is_administrator: bool) -> ConnectionViewer {
        ConnectionViewer { user: user.to_owned(), is_administrator }
    }

    fn is_closing(connection: &Connection) -> bool {
        connection.state.must_close.is_cancelled()
    }

    /// Opens as many connections of this viewer as possible, each with a request in progress.
    fn fill(connections: &Connections, user: &str) -> Vec<(Connection, OpenRequest)> {
        let open = || {
            let connection = connections.accept().expect("everyone may send a token");
            let has_room = connection.identify(viewer(user, false));
            let request = connection.begin_request();
            has_room.then_some((connection, request))
        };
        std::iter::from_fn(open).take(1000).collect()
    }

    #[test]
    fn strangers_make_room_for_each_other_idle_ones_first() {
        let connections = Connections::default();
        let mut strangers: Vec<_> = (0..STRANGERS_MAX).map(|_| connections.accept().unwrap()).collect();
        let request = strangers[0].begin_request();
        strangers.push(connections.accept().unwrap());
        assert!(is_closing(&strangers[1]) && !is_closing(&strangers[0]));
        drop((request, strangers));
        assert!(connections.open().all.is_empty());
    }

    #[test]
    fn an_administrator_can_always_connect() {
        let connections = Connections::default();
        let users: Vec<_> = (0..4).map(|number| fill(&connections, &format!("u{number}"))).collect();
        assert_eq!(users.iter().map(Vec::len).sum::<usize>(), VIEWERS_MAX);
        let strangers: Vec<_> = (0..2 * CONNECTIONS_MAX).map(|_| connections.accept().unwrap()).collect();
        for _ in 0..20 {
            let connection = connections.accept().expect("an idle stranger is closed instead");
            assert!(connection.identify(viewer("root", true)) && !is_closing(&connection));
        }
        assert!(users.iter().flatten().all(|(one, _)| !is_closing(one)), "busy connections stay open");
        drop(strangers);
    }

    #[test]
    fn a_viewer_s_idle_connections_are_replaced() {
        let connections = Connections::default();
        let mut open = fill(&connections, "jane");
        assert_eq!(open.len(), VIEWER_MAX);
        let (idle, request) = open.swap_remove(3);
        drop(request);
        let next = connections.accept().unwrap();
        assert!(next.identify(viewer("jane", false)) && is_closing(&idle));
    }
}
