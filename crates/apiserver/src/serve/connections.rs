//! All open connections: who is at the other end, and which of them has to go when there is no room for another.
//!
//! A connection begins as a stranger's and stays one until somebody proves on it who they are.
//!
//! **Invariant:** strangers never keep anybody out: there are only so many of them, they are the first to leave whatever they
//! are about, and those of the address with the most of them before others. Users together leave room to strangers and
//! administrators, and neither a user nor the users of one address can have all of theirs; so an administrator always gets
//! in. Of those who are known only the idle leave, whoever was idle longest first.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits;
use crate::auth::{ANONYMOUS, Identity, MASTERS, SERVICE_ACCOUNT_PREFIX};

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    started: Instant,
    open: Mutex<Open>,
}

/// What is open. Those that were told to leave are in `all` until they are gone, and counted nowhere else.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Oldest first.
    all: BTreeMap<u64, Arc<State>>,
    leaving: usize,
    strangers: usize,
    strangers_by_peer: HashMap<IpAddr, usize>,
    /// Connections of users who are no administrators.
    users: usize,
    users_by_peer: HashMap<IpAddr, usize>,
    by_account: HashMap<Arc<str>, usize>,
}

/// One connection, until dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Connections,
    number: u64,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    peer: IpAddr,
    leave: CancellationToken,
    /// Whose it is, once somebody proved who they are: the account, or none for an administrator.
    user: OnceLock<Option<Arc<str>>>,
    /// Told to leave. Only changed under the lock.
    has_left: AtomicBool,
    under_way: AtomicUsize,
    /// Refusals the client has not read.
    refusals: AtomicUsize,
    /// Streams that were reset because it left too many unread.
    resets: AtomicUsize,
    /// When it last had nothing more to do, in milliseconds since the start.
    idle_since_ms: AtomicU64,
}

/// A request under way on a connection, until its answer is sent.
#[derive(Debug)]
pub(crate) struct InUse {
    shared: Arc<Shared>,
    state: Arc<State>,
}

/// A refusal to a stranger, until it is sent.
#[derive(Debug)]
pub(crate) struct Refusal(Arc<State>);

/// There are too many connections of this user already.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Connections {
    /// So many at once.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, started: Instant::now(), open: Mutex::default() }))
    }

    /// Takes in one more, for which another may have to leave; `None`: there is no room.
    pub(crate) fn admit(&self, peer: IpAddr) -> Option<Connection> {
        let peer = network_of(peer);
        let mut open = self.open();
        if open.strangers >= limits::STRANGERS_SHARE.of(self.0.most) {
            open.send_stranger_away()?;
        } else if open.all.len() - open.leaving >= self.0.most {
            open.send_stranger_away().or_else(|| open.send_idle_away(|_| true))?;
        }
        // Whoever was told to leave is gone in a moment. If not, the descriptors run out next.
        if open.all.len() >= self.0.most + limits::LEAVING_MAX {
            return None;
        }
        let (number, state) = (open.next, Arc::new(State::new(peer, self.0.now_ms())));
        open.next += 1;
        open.all.insert(number, Arc::clone(&state));
        open.strangers += 1;
        *open.strangers_by_peer.entry(peer).or_default() += 1;
        drop(open);
        Some(Connection { connections: self.clone(), number, state })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl State {
    fn new(peer: IpAddr, now_ms: u64) -> Self {
        Self {
            peer,
            leave: CancellationToken::new(),
            user: OnceLock::new(),
            has_left: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            idle_since_ms: AtomicU64::new(now_ms),
        }
    }

    fn account(&self) -> Option<&Arc<str>> {
        self.user.get().and_then(Option::as_ref)
    }

    fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

impl Open {
    /// Tells a stranger to leave: the oldest of the address that has the most of them.
    fn send_stranger_away(&mut self) -> Option<()> {
        let (peer, _) = self.strangers_by_peer.iter().max_by_key(|(_, count)| **count)?;
        let is_meant =
            |state: &&Arc<State>| state.user.get().is_none() && !state.has_left() && state.peer == *peer;
        let chosen = Arc::clone(self.all.values().find(is_meant)?);
        self.send_away(&chosen);
        Some(())
    }

    /// Tells one of those meant to leave that is known and has nothing to do: whoever was idle longest.
    fn send_idle_away(&mut self, is_meant: impl Fn(&State) -> bool) -> Option<()> {
        let idle = self.all.values().filter(|state| {
            let is_idle = state.under_way.load(Ordering::Relaxed) == 0;
            is_idle && state.user.get().is_some() && !state.has_left() && is_meant(state)
        });
        let chosen = Arc::clone(idle.min_by_key(|state| state.idle_since_ms.load(Ordering::Relaxed))?);
        self.send_away(&chosen);
        Some(())
    }

    fn send_away(&mut self, chosen: &State) {
        self.forget(chosen);
        self.leaving += 1;
        chosen.has_left.store(true, Ordering::Relaxed);
        chosen.leave.cancel();
    }

    /// Counts it no more.
    fn forget(&mut self, state: &State) {
        match state.user.get() {
            None => {
                self.strangers -= 1;
                release(&mut self.strangers_by_peer, &state.peer);
            }
            Some(Some(account)) => {
                self.users -= 1;
                release(&mut self.users_by_peer, &state.peer);
                release(&mut self.by_account, account);
            }
            Some(None) => {}
        }
    }

    /// Makes room for one more connection of this account from there, if there is none: an idle one leaves.
    fn make_room(&mut self, account: &str, peer: IpAddr, most: usize) -> Result<(), TooMany> {
        let is_theirs = |state: &State| state.account().is_some_and(|one| **one == *account);
        if self.by_account.get(account).is_some_and(|count| *count >= limits::USER_SHARE.of(most)) {
            self.send_idle_away(is_theirs).ok_or(TooMany)
        } else if self.users_by_peer.get(&peer).is_some_and(|count| *count >= limits::PEER_SHARE.of(most)) {
            self.send_idle_away(|state| state.account().is_some() && state.peer == peer).ok_or(TooMany)
        } else if self.users >= limits::USERS_SHARE.of(most) {
            self.send_idle_away(|state| state.account().is_some()).ok_or(TooMany)
        } else {
            Ok(())
        }
    }
}

impl Connection {
    /// Waits until it has to leave: another needs its place, or nobody proved who they are in time.
    pub(crate) async fn told_to_leave(&self) {
        let unknown = async {
            tokio::time::sleep(limits::STRANGER_TIME).await;
            if self.is_known() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.needed_by_another() => {}
            () = unknown => {}
        }
    }

    /// Waits until another needs its place.
    pub(super) async fn needed_by_another(&self) {
        self.state.leave.cancelled().await;
    }

    /// Notes that a request has come.
    pub(crate) fn begin(&self) -> InUse {
        self.state.under_way.fetch_add(1, Ordering::Relaxed);
        InUse { shared: Arc::clone(&self.connections.0), state: Arc::clone(&self.state) }
    }

    /// Has somebody proved who they are?
    pub(super) fn is_known(&self) -> bool {
        self.state.user.get().is_some()
    }

    /// Notes a refusal to a stranger; none if the client has left too many unread. Whoever goes on asking then has to leave.
    pub(super) fn refuse(&self) -> Option<Refusal> {
        let unread = self.state.refusals.fetch_add(1, Ordering::Relaxed);
        let refusal = Refusal(Arc::clone(&self.state));
        if unread < limits::STRANGER_REFUSALS_MAX {
            return Some(refusal);
        }
        if self.state.resets.fetch_add(1, Ordering::Relaxed) == limits::STRANGER_RESETS_MAX {
            let mut open = self.connections.open();
            if !self.is_known() && !self.state.has_left() {
                open.send_away(&self.state);
            }
        }
        None
    }

    /// Notes who asks. Refuses somebody who has too many connections already.
    pub(crate) fn known_as(&self, identity: &Identity) -> Result<(), TooMany> {
        if self.is_known() || identity.name == ANONYMOUS {
            return Ok(());
        }
        let mut open = self.connections.open();
        if self.is_known() || self.state.has_left() {
            return Ok(());
        }
        let is_administrator = identity.is_in(MASTERS);
        let account = account_of(identity);
        if !is_administrator {
            open.make_room(account, self.state.peer, self.connections.0.most)?;
        }
        open.forget(&self.state);
        let account = (!is_administrator).then(|| Arc::<str>::from(account));
        if let Some(account) = &account {
            open.users += 1;
            *open.users_by_peer.entry(self.state.peer).or_default() += 1;
            *open.by_account.entry(Arc::clone(account)).or_default() += 1;
        }
        // Only ever set under the lock.
        let _ = self.state.user.set(account);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.all.remove(&self.number);
        if self.state.has_left() {
            open.leaving -= 1;
        } else {
            open.forget(&self.state);
        }
    }
}

fn release<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.state.idle_since_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        self.state.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        self.0.refusals.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who takes room: a user, or all service accounts of a namespace, since whoever may make one there may make many.
pub(super) fn account_of(identity: &Identity) -> &str {
    let is_service_account = identity.name.starts_with(SERVICE_ACCOUNT_PREFIX);
    let end = identity.name.rfind(':').filter(|_| is_service_account);
    &identity.name[..end.unwrap_or(identity.name.len())]
}

/// Whom an address belongs to: of version 6, a whole network is one customer's.
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

    fn has_left(connection: &Connection) -> bool {
        connection.state.leave.is_cancelled()
    }

    /// As many connections of this user from there as there may be, and something to do on each.
    fn fill(connections: &Connections, last: u8, name: &str) -> Vec<(Connection, InUse)> {
        let known = || {
            let connection = connections.admit(peer(last)).expect("there is always room to say who one is");
            let is_taken = connection.known_as(&user(name)).is_ok();
            is_taken.then(|| connection.begin()).map(|in_use| (connection, in_use))
        };
        std::iter::from_fn(known).take(100).collect()
    }

    #[tokio::test]
    async fn strangers_leave_whatever_they_are_about_and_the_crowd_first() {
        let connections = Connections::new(16);
        let other = connections.admit(peer(2)).expect("there is room");
        let strangers: Vec<_> = (0..3).map(|_| connections.admit(peer(1)).expect("there is room")).collect();
        let uses: Vec<_> = strangers.iter().map(Connection::begin).collect();
        let newest = connections.admit(peer(3)).expect("a stranger leaves");
        assert!(has_left(&strangers[0]) && !has_left(&strangers[1]) && !has_left(&other));
        drop((uses, strangers, other, newest));
        let open = connections.open();
        assert!(open.all.is_empty() && open.strangers_by_peer.is_empty());
        assert_eq!((open.strangers, open.leaving), (0, 0));
    }

    #[tokio::test]
    async fn the_idle_make_room_and_the_busy_stay() {
        let connections = Connections::new(16);
        let admit = || connections.admit(peer(1)).expect("there is room");
        let idle = admit();
        idle.known_as(&user("jane")).expect("there is room");
        let janes = fill(&connections, 1, "jane");
        assert_eq!(janes.len(), 8, "half of all, one of them in place of the idle one");
        assert!(has_left(&idle) && !janes.iter().any(|(one, _)| has_left(one)));
        drop((idle, janes));
        let open = connections.open();
        assert!(open.by_account.is_empty() && open.users_by_peer.is_empty() && open.users == 0);
    }

    #[tokio::test]
    async fn an_administrator_gets_in_beside_users_who_fill_all_they_may() {
        let connections = Connections::new(64);
        let here: Vec<_> = ["jane", "joe"].map(|name| fill(&connections, 1, name)).into();
        assert_eq!(here.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16], "an address has three quarters");
        let admit_administrator = |last| {
            let connection = connections.admit(peer(last)).expect("there is room to say who one is");
            connection.known_as(&Identity::admin()).expect("always");
            let in_use = connection.begin();
            (connection, in_use)
        };
        let from_here = admit_administrator(1);
        let elsewhere = fill(&connections, 2, "jim");
        assert_eq!(elsewhere.len(), 8, "users leave an eighth");
        let strangers: Vec<_> = (0..50).filter_map(|_| connections.admit(peer(3))).collect();
        let more: Vec<_> = (0..3).map(|_| admit_administrator(3)).collect();
        assert!(here.iter().flatten().chain(&elsewhere).all(|(one, _)| !has_left(one)), "the busy stay");
        assert!(more.iter().chain([&from_here]).all(|(one, _)| !has_left(one)));
        drop(strangers);
    }

    #[tokio::test]
    async fn the_service_accounts_of_a_namespace_share_what_a_user_may_have() {
        let connections = Connections::new(64);
        let accounts = ["a", "b", "c"].map(|name| format!("system:serviceaccount:team:{name}"));
        let taken = accounts.each_ref().map(|name| fill(&connections, 1, name));
        assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), 32);
        assert_eq!(fill(&connections, 1, "system:serviceaccount:other:a").len(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn who_proves_nothing_has_to_leave_whatever_is_under_way() {
        let connections = Connections::new(16);
        let [known, unknown, busy] = [1, 2, 3].map(|last| connections.admit(peer(last)).expect("room"));
        known.known_as(&user("jane")).expect("there is room");
        unknown.known_as(&Identity::anonymous()).expect("it says nothing");
        let _in_use = busy.begin();
        let patience = limits::STRANGER_TIME * 2;
        assert!(tokio::time::timeout(patience, unknown.told_to_leave()).await.is_ok());
        assert!(tokio::time::timeout(patience, busy.told_to_leave()).await.is_ok());
        assert!(tokio::time::timeout(patience, known.told_to_leave()).await.is_err());
    }
}
