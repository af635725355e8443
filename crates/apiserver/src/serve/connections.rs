//! All open connections: who is at the other end, and which of them has to go when there is no room for another.
//!
//! **Invariant:** a connection is refused only if none can be closed for it. One that nobody has proved anything on goes first,
//! then one that has nothing to do; whoever was idle longest goes first. No peer holds more than [`limits::PEER_SHARE`] of all
//! connections, no user more than half, and users together leave some to the administrators.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits;
use crate::auth::{ANONYMOUS, Identity, MASTERS};

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    started: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Oldest first.
    all: BTreeMap<u64, Arc<State>>,
    by_peer: HashMap<IpAddr, usize>,
    by_user: HashMap<Arc<str>, usize>,
    /// Connections of users who are no administrators.
    users: usize,
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
    /// Whose it is, once somebody proved who they are. Administrators are not counted.
    user: OnceLock<Option<Arc<str>>>,
    has_left: AtomicBool,
    under_way: AtomicUsize,
    /// When it last had nothing more to do, in milliseconds since the start.
    idle_since_ms: AtomicU64,
}

/// A request under way on a connection, until its answer is sent.
#[derive(Debug)]
pub(crate) struct InUse {
    shared: Arc<Shared>,
    state: Arc<State>,
}

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
        let of_peer = open.by_peer.get(&peer).copied().unwrap_or_default();
        if of_peer >= limits::PEER_SHARE.of(self.0.most) {
            open.send_away(|state| state.peer == peer)?;
        } else if open.all.len() >= self.0.most {
            open.send_away(|_| true)?;
        }
        // Whoever was told to leave is gone in a moment. If not, the descriptors run out next.
        if open.all.len() >= self.0.most + limits::LEAVING_MAX {
            return None;
        }
        let (number, state) = (open.next, Arc::new(State::new(peer, self.0.now_ms())));
        open.next += 1;
        open.all.insert(number, Arc::clone(&state));
        *open.by_peer.entry(peer).or_default() += 1;
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
            idle_since_ms: AtomicU64::new(now_ms),
        }
    }
}

impl Open {
    /// Tells one of those meant to leave: one nobody is known on, or else the one that was idle longest.
    fn send_away(&self, is_meant: impl Fn(&State) -> bool) -> Option<()> {
        let idle = self.all.values().filter(|state| {
            let is_idle = state.under_way.load(Ordering::Relaxed) == 0;
            is_idle && !state.has_left.load(Ordering::Relaxed) && is_meant(state)
        });
        let chosen = idle
            .min_by_key(|state| (state.user.get().is_some(), state.idle_since_ms.load(Ordering::Relaxed)))?;
        chosen.has_left.store(true, Ordering::Relaxed);
        chosen.leave.cancel();
        Some(())
    }
}

impl Connection {
    /// Waits until it has to leave: another needs its place, or nobody proved who they are in time.
    pub(crate) async fn told_to_leave(&self) {
        let unknown = async {
            loop {
                tokio::time::sleep(limits::STRANGER_TIME).await;
                if self.state.user.get().is_some() {
                    return std::future::pending().await;
                }
                if self.state.under_way.load(Ordering::Relaxed) == 0 {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.state.leave.cancelled() => {}
            () = unknown => {}
        }
    }

    /// Notes that a request has come.
    pub(crate) fn begin(&self) -> InUse {
        self.state.under_way.fetch_add(1, Ordering::Relaxed);
        InUse { shared: Arc::clone(&self.connections.0), state: Arc::clone(&self.state) }
    }

    /// Notes who asks. Refuses somebody who has too many connections already.
    pub(crate) fn known_as(&self, identity: &Identity) -> Result<(), TooMany> {
        if self.state.user.get().is_some() || identity.name == ANONYMOUS {
            return Ok(());
        }
        if identity.is_in(MASTERS) {
            let _ = self.state.user.set(None);
            return Ok(());
        }
        let most = self.connections.0.most;
        let mut open = self.connections.open();
        let of_user = open.by_user.get(&*identity.name).copied().unwrap_or_default();
        let is_full = of_user >= limits::USER_SHARE.of(most) || open.users >= limits::USERS_SHARE.of(most);
        if is_full {
            return Err(TooMany);
        }
        let user: Arc<str> = (*identity.name).into();
        if self.state.user.set(Some(Arc::clone(&user))).is_ok() {
            *open.by_user.entry(user).or_default() += 1;
            open.users += 1;
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.all.remove(&self.number);
        release(&mut open.by_peer, &self.state.peer);
        if let Some(Some(user)) = self.state.user.get() {
            release(&mut open.by_user, user);
            open.users -= 1;
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

    #[tokio::test]
    async fn the_unknown_and_the_idle_make_room_and_the_busy_stay() {
        let connections = Connections::new(8);
        let admit = |last| connections.admit(peer(last));
        let all: Vec<_> = (0..8).map(|at| admit(at).expect("there is room")).collect();
        all[0].known_as(&user("jane")).expect("there is room");
        let busy = all[1].begin();
        let newest = admit(9).expect("somebody is unknown");
        let has_left = |at: usize| all[at].state.leave.is_cancelled();
        assert!(has_left(2) && !has_left(0) && !has_left(1), "the oldest unknown one that is idle leaves");
        all[3..].iter().for_each(|one| one.known_as(&Identity::admin()).expect("always"));
        newest.known_as(&Identity::admin()).expect("always");
        let more = admit(10).expect("somebody is idle");
        assert!(has_left(0), "the one that was idle longest leaves");
        more.known_as(&Identity::admin()).expect("always");
        let uses: Vec<_> = all[3..].iter().chain([&newest, &more]).map(Connection::begin).collect();
        assert!(admit(11).is_none(), "nobody busy is driven out");
        drop((busy, uses, all, newest, more));
        let open = connections.open();
        assert!(open.all.is_empty() && open.by_peer.is_empty() && open.by_user.is_empty() && open.users == 0);
    }

    #[tokio::test]
    async fn neither_a_peer_nor_users_take_all() {
        let connections = Connections::new(16);
        let own: Vec<_> = (0..12).map(|_| connections.admit(peer(1)).expect("there is room")).collect();
        let newest = connections.admit(peer(1)).expect("an older one of the peer leaves");
        assert!(own[0].state.leave.is_cancelled());
        drop((own, newest));
        let all: Vec<_> = (0..16).map(|at| connections.admit(peer(at)).expect("there is room")).collect();
        let known = |name: &str| all.iter().filter(|one| one.known_as(&user(name)).is_ok()).count();
        assert_eq!(known("jane"), 8, "one user has half");
        assert_eq!(known("joe"), 14, "those that are known are asked no more, and users leave an eighth");
    }

    #[tokio::test]
    async fn users_leave_connections_to_administrators() {
        let connections = Connections::new(16);
        let all: Vec<_> = (0..16).map(|at| connections.admit(peer(at)).expect("there is room")).collect();
        let names = ["jane"; 10].into_iter().chain(["joe"; 6]);
        let known = all.iter().zip(names).filter(|(one, name)| one.known_as(&user(name)).is_ok()).count();
        assert_eq!(known, 14, "jane has half, and all users together leave an eighth");
        assert!(all[15].known_as(&Identity::admin()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_proves_nothing_has_to_leave() {
        let connections = Connections::new(8);
        let (known, unknown) = (connections.admit(peer(1)), connections.admit(peer(2)));
        let (known, unknown) = (known.expect("room"), unknown.expect("room"));
        known.known_as(&user("jane")).expect("there is room");
        unknown.known_as(&Identity::anonymous()).expect("it says nothing");
        let patience = limits::STRANGER_TIME * 2;
        assert!(tokio::time::timeout(patience, unknown.told_to_leave()).await.is_ok());
        assert!(tokio::time::timeout(patience, known.told_to_leave()).await.is_err());
    }
}
