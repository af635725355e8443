//! Tracks all open connections: who uses them, and which one is closed to make room for another. Their limits are in
//! [`crate::limits`]: `CONNECTIONS_MAX` and the constants after it, up to `DESCRIPTORS_RESERVED`.
//!
//! A connection is unauthenticated until a client proves its identity on it.
//!
//! **Invariant:** unauthenticated connections never lock anyone out: their number is limited, and they are the first to
//! be closed, even with requests in progress, starting with the address that has the most. Users together leave room
//! for unauthenticated connections and administrators, and neither one user nor the users of one address can take all
//! of the users' connections; an administrator can therefore always connect. Only idle ones of the authenticated
//! connections are closed, starting with the one that has been idle the longest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::{ANONYMOUS, Identity, MASTERS, account_of};
use crate::limits;

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTable(Arc<SharedTable>);

#[derive(Debug)]
struct SharedTable {
    most: usize,
    started: Instant,
    open: Mutex<OpenConnections>,
}

/// The open connections. Connections that were asked to close stay in `all` until they are gone, but are not counted
/// anywhere else.
#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Oldest first.
    all: BTreeMap<u64, Arc<ConnectionState>>,
    closing: usize,
    unauthenticated: usize,
    unauthenticated_by_peer: HashMap<IpAddr, usize>,
    /// Connections of users other than administrators.
    users: usize,
    users_by_peer: HashMap<IpAddr, usize>,
    by_account: HashMap<Arc<str>, usize>,
}

/// One connection, until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionRegistration {
    connections: ConnectionTable,
    number: u64,
    state: Arc<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    peer: IpAddr,
    must_close: CancellationToken,
    /// The owner, once authenticated: the account, or `None` for an administrator.
    user: OnceLock<Option<Arc<str>>>,
    /// Whether the connection was asked to close. It is changed only under the lock.
    is_closing: AtomicBool,
    in_progress: AtomicUsize,
    /// The number of refusals that the client has not read.
    refusals: AtomicUsize,
    /// The number of streams that were reset because the client left too many refusals unread.
    resets: AtomicUsize,
    /// When it last became idle, in milliseconds since the start.
    idle_since_ms: AtomicU64,
}

/// A request in progress on a connection, until its response is sent.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    table: Arc<SharedTable>,
    state: Arc<ConnectionState>,
}

/// A refusal on an unauthenticated connection, until it is sent.
#[derive(Debug)]
pub(crate) struct UnsentRefusal(Arc<ConnectionState>);

/// The user already has too many connections.
#[derive(Debug)]
pub(crate) struct TooManyConnections;

impl ConnectionTable {
    /// Creates a table for this many connections.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(SharedTable { most, started: Instant::now(), open: Mutex::default() }))
    }

    /// Accepts another connection, for which another one may be closed; returns `None` if there is no room.
    pub(crate) fn accept(&self, peer: IpAddr) -> Option<ConnectionRegistration> {
        let peer = network_of(peer);
        let mut open = self.open();
        if open.unauthenticated >= limits::UNAUTHENTICATED_SHARE.of(self.0.most) {
            open.close_unauthenticated()?;
        } else if open.all.len() - open.closing >= self.0.most {
            open.close_unauthenticated().or_else(|| open.close_idle(|_| true))?;
        }
        // A connection that was asked to close is usually gone in a moment. If not, the file descriptors would run
        // out next.
        if open.all.len() >= self.0.most + limits::CLOSING_MAX {
            return None;
        }
        let (number, state) = (open.next, Arc::new(ConnectionState::new(peer, self.0.now_ms())));
        open.next += 1;
        open.all.insert(number, Arc::clone(&state));
        open.unauthenticated += 1;
        *open.unauthenticated_by_peer.entry(peer).or_default() += 1;
        drop(open);
        Some(ConnectionRegistration { connections: self.clone(), number, state })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedTable {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl ConnectionState {
    fn new(peer: IpAddr, now_ms: u64) -> Self {
        Self {
            peer,
            must_close: CancellationToken::new(),
            user: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            in_progress: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(now_ms),
        }
    }

    fn account(&self) -> Option<&Arc<str>> {
        self.user.get().and_then(Option::as_ref)
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }
}

impl OpenConnections {
    /// Closes an unauthenticated connection: the oldest one of the address that has the most.
    fn close_unauthenticated(&mut self) -> Option<()> {
        let (peer, _) = self.unauthenticated_by_peer.iter().max_by_key(|(_, count)| **count)?;
        let is_meant = |state: &&Arc<ConnectionState>| {
            state.user.get().is_none() && !state.is_closing() && state.peer == *peer
        };
        let chosen = Arc::clone(self.all.values().find(is_meant)?);
        self.close(&chosen);
        Some(())
    }

    /// Closes the authenticated connection that has been idle the longest, among those that match.
    fn close_idle(&mut self, is_meant: impl Fn(&ConnectionState) -> bool) -> Option<()> {
        let idle = self.all.values().filter(|state| {
            let is_idle = state.in_progress.load(Ordering::Relaxed) == 0;
            is_idle && state.user.get().is_some() && !state.is_closing() && is_meant(state)
        });
        let chosen = Arc::clone(idle.min_by_key(|state| state.idle_since_ms.load(Ordering::Relaxed))?);
        self.close(&chosen);
        Some(())
    }

    fn close(&mut self, chosen: &ConnectionState) {
        self.forget(chosen);
        self.closing += 1;
        chosen.is_closing.store(true, Ordering::Relaxed);
        chosen.must_close.cancel();
    }

    /// Removes the connection from the counts.
    fn forget(&mut self, state: &ConnectionState) {
        match state.user.get() {
            None => {
                self.unauthenticated -= 1;
                decrement_count(&mut self.unauthenticated_by_peer, &state.peer);
            }
            Some(Some(account)) => {
                self.users -= 1;
                decrement_count(&mut self.users_by_peer, &state.peer);
                decrement_count(&mut self.by_account, account);
            }
            Some(None) => {}
        }
    }

    /// Makes room for another connection of this account from this address, by closing an idle one if necessary.
    fn make_room_for(&mut self, account: &str, peer: IpAddr, most: usize) -> Result<(), TooManyConnections> {
        let is_theirs = |state: &ConnectionState| state.account().is_some_and(|one| **one == *account);
        if self.by_account.get(account).is_some_and(|count| *count >= limits::USER_SHARE.of(most)) {
            self.close_idle(is_theirs).ok_or(TooManyConnections)
        } else if self.users_by_peer.get(&peer).is_some_and(|count| *count >= limits::PEER_SHARE.of(most)) {
            self.close_idle(|state| state.account().is_some() && state.peer == peer).ok_or(TooManyConnections)
        } else if self.users >= limits::USERS_SHARE.of(most) {
            self.close_idle(|state| state.account().is_some()).ok_or(TooManyConnections)
        } else {
            Ok(())
        }
    }
}

impl ConnectionRegistration {
    /// Waits until the connection must close: another one needs its slot, or its client did not authenticate in time.
    pub(crate) async fn close_requested(&self) {
        let unknown = async {
            tokio::time::sleep(limits::UNAUTHENTICATED_TIME).await;
            if self.is_authenticated() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.slot_requested() => {}
            () = unknown => {}
        }
    }

    /// Waits until another connection needs the slot of this one.
    pub(super) async fn slot_requested(&self) {
        self.state.must_close.cancelled().await;
    }

    /// Counts a request that has arrived.
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.state.in_progress.fetch_add(1, Ordering::Relaxed);
        ActiveRequest { table: Arc::clone(&self.connections.0), state: Arc::clone(&self.state) }
    }

    /// Returns whether a client has proved its identity.
    pub(super) fn is_authenticated(&self) -> bool {
        self.state.user.get().is_some()
    }

    /// Counts a refusal on an unauthenticated connection; returns `None` if the client has left too many unread. A
    /// client that continues anyway is disconnected.
    pub(super) fn refuse(&self) -> Option<UnsentRefusal> {
        let unread = self.state.refusals.fetch_add(1, Ordering::Relaxed);
        let refusal = UnsentRefusal(Arc::clone(&self.state));
        if unread < limits::UNAUTHENTICATED_REFUSALS_MAX {
            return Some(refusal);
        }
        if self.state.resets.fetch_add(1, Ordering::Relaxed) == limits::UNAUTHENTICATED_RESETS_MAX {
            let mut open = self.connections.open();
            if !self.is_authenticated() && !self.state.is_closing() {
                open.close(&self.state);
            }
        }
        None
    }

    /// Records who uses the connection. Refuses a user who already has too many connections.
    pub(crate) fn authenticate_as(&self, identity: &Identity) -> Result<(), TooManyConnections> {
        if self.is_authenticated() || identity.name == ANONYMOUS {
            return Ok(());
        }
        let mut open = self.connections.open();
        if self.is_authenticated() || self.state.is_closing() {
            return Ok(());
        }
        let is_administrator = identity.is_in(MASTERS);
        let account = account_of(identity);
        if !is_administrator {
            open.make_room_for(account, self.state.peer, self.connections.0.most)?;
        }
        open.forget(&self.state);
        let account = (!is_administrator).then(|| Arc::<str>::from(account));
        if let Some(account) = &account {
            open.users += 1;
            *open.users_by_peer.entry(self.state.peer).or_default() += 1;
            *open.by_account.entry(Arc::clone(account)).or_default() += 1;
        }
        // This is only ever set under the lock.
        let _ = self.state.user.set(account);
        Ok(())
    }
}

impl Drop for ConnectionRegistration {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.all.remove(&self.number);
        if self.state.is_closing() {
            open.closing -= 1;
        } else {
            open.forget(&self.state);
        }
    }
}

fn decrement_count<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.state.idle_since_ms.store(self.table.now_ms(), Ordering::Relaxed);
        self.state.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for UnsentRefusal {
    fn drop(&mut self) {
        self.0.refusals.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the network that an address belongs to. In IPv6, a single customer has a whole network.
fn network_of(address: IpAddr) -> IpAddr {
    const NETWORK_BITS: u32 = 64;
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> NETWORK_BITS << NETWORK_BITS).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    fn is_closing(connection: &ConnectionRegistration) -> bool {
        connection.state.must_close.is_cancelled()
    }

    /// Opens as many connections of this user from this address as possible, each with a request in progress.
    fn fill(
        connections: &ConnectionTable,
        last: u8,
        name: &str,
    ) -> Vec<(ConnectionRegistration, ActiveRequest)> {
        let known = || {
            let connection =
                connections.accept(peer(last)).expect("a client can always connect to authenticate");
            let is_taken = connection.authenticate_as(&user(name)).is_ok();
            is_taken.then(|| connection.begin()).map(|active_request| (connection, active_request))
        };
        std::iter::from_fn(known).take(100).collect()
    }

    #[tokio::test]
    async fn unauthenticated_connections_close_first_starting_with_the_most_crowded_address() {
        let connections = ConnectionTable::new(16);
        let other = connections.accept(peer(2)).expect("there is room");
        let unauthenticated: Vec<_> =
            (0..3).map(|_| connections.accept(peer(1)).expect("there is room")).collect();
        let uses: Vec<_> = unauthenticated.iter().map(ConnectionRegistration::begin).collect();
        let newest = connections.accept(peer(3)).expect("an unauthenticated connection is closed");
        assert!(is_closing(&unauthenticated[0]) && !is_closing(&unauthenticated[1]) && !is_closing(&other));
        drop((uses, unauthenticated, other, newest));
        let open = connections.open();
        assert!(open.all.is_empty() && open.unauthenticated_by_peer.is_empty());
        assert_eq!((open.unauthenticated, open.closing), (0, 0));
    }

    #[tokio::test]
    async fn idle_connections_make_room_and_busy_ones_stay() {
        let connections = ConnectionTable::new(16);
        let accept = || connections.accept(peer(1)).expect("there is room");
        let idle = accept();
        idle.authenticate_as(&user("jane")).expect("there is room");
        let janes = fill(&connections, 1, "jane");
        assert_eq!(janes.len(), 8, "half of all, one of them in place of the idle one");
        assert!(is_closing(&idle) && !janes.iter().any(|(one, _)| is_closing(one)));
        drop((idle, janes));
        let open = connections.open();
        assert!(open.by_account.is_empty() && open.users_by_peer.is_empty() && open.users == 0);
    }

    #[tokio::test]
    async fn an_administrator_connects_while_users_have_all_their_connections() {
        let connections = ConnectionTable::new(64);
        let here: Vec<_> = ["jane", "joe"].map(|name| fill(&connections, 1, name)).into();
        assert_eq!(here.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16], "an address has three quarters");
        let connect_administrator = |last| {
            let connection = connections.accept(peer(last)).expect("a client can connect to authenticate");
            connection.authenticate_as(&Identity::admin()).expect("always");
            let active_request = connection.begin();
            (connection, active_request)
        };
        let from_here = connect_administrator(1);
        let elsewhere = fill(&connections, 2, "jim");
        assert_eq!(elsewhere.len(), 8, "users leave an eighth");
        let unauthenticated: Vec<_> = (0..50).filter_map(|_| connections.accept(peer(3))).collect();
        let more: Vec<_> = (0..3).map(|_| connect_administrator(3)).collect();
        assert!(here.iter().flatten().chain(&elsewhere).all(|(one, _)| !is_closing(one)), "the busy stay");
        assert!(more.iter().chain([&from_here]).all(|(one, _)| !is_closing(one)));
        drop(unauthenticated);
    }

    #[tokio::test]
    async fn service_accounts_of_a_namespace_share_the_limit_of_one_user() {
        let connections = ConnectionTable::new(64);
        let accounts = ["a", "b", "c"].map(|name| format!("system:serviceaccount:team:{name}"));
        let taken = accounts.each_ref().map(|name| fill(&connections, 1, name));
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 32);
        assert_eq!(fill(&connections, 1, "system:serviceaccount:other:a").len(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unauthenticated_connection_closes_in_time_even_with_a_request_in_progress() {
        let connections = ConnectionTable::new(16);
        let [known, unknown, busy] = [1, 2, 3].map(|last| connections.accept(peer(last)).expect("room"));
        known.authenticate_as(&user("jane")).expect("there is room");
        unknown.authenticate_as(&Identity::anonymous()).expect("the anonymous user proves nothing");
        let _active_request = busy.begin();
        let patience = limits::UNAUTHENTICATED_TIME * 2;
        assert!(tokio::time::timeout(patience, unknown.close_requested()).await.is_ok());
        assert!(tokio::time::timeout(patience, busy.close_requested()).await.is_ok());
        assert!(tokio::time::timeout(patience, known.close_requested()).await.is_err());
    }
}
