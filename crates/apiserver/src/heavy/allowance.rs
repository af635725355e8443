//! Who has used up what the threads that serve connections give to requests that look small and are not.
//!
//! The size of a request does not tell what its checks cost: rules of a definition, defaults that fan out, parts that are
//! all alike. So the processor time of each write is measured. Whoever takes too much of it for one resource goes on in the
//! lanes for heavy requests, until the debt is forgiven. The first costly requests are the price of finding out: as many as
//! there are threads.
//!
//! **Invariant:** time spent by others never counts: it is the time of the thread's own work, not of the clock.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::Identity;
use crate::resource::Resource;

/// What a usual request takes at most; only what is beyond it counts.
const USUAL: Duration = Duration::from_millis(2);

/// What may be owed before requests leave the serving threads: the first request of a kind, which makes its schema, is less.
const DEBT_MAX: Duration = Duration::from_millis(50);

/// What is remembered of a debt, so that a minute later everybody is served like everybody else.
const REMEMBERED_MAX: Duration = Duration::from_secs(1);

/// The share of the time that passes by which a debt shrinks: two hundredths of a thread.
const FORGIVEN_SHARE: u32 = 50;

/// How many debts are remembered; of more the oldest are forgotten. An attacker needs as many accounts for the next one.
const DEBTS_MAX: usize = 4096;

/// Who owes how much.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    debts: Mutex<HashMap<u64, Debt>>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Debt {
    owed: Duration,
    at: Instant,
}

/// A user's writes of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account(u64);

impl Debt {
    fn owed_now(&self, now: Instant) -> Duration {
        self.owed.saturating_sub(now.saturating_duration_since(self.at) / FORGIVEN_SHARE)
    }
}

impl Allowances {
    /// The account that a write is charged to. The service accounts of a namespace share one: whoever can make one can make
    /// many.
    pub(super) fn account(&self, who: &Identity, resource: &Resource) -> Account {
        let user = match who.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            Some((namespace, _)) => namespace,
            None => &who.name,
        };
        Account(self.hasher.hash_one((user, &*resource.group, &*resource.plural)))
    }

    pub(super) fn is_used_up(&self, account: Account) -> bool {
        let debts = self.debts.lock().unwrap_or_else(PoisonError::into_inner);
        debts.get(&account.0).is_some_and(|debt| debt.owed_now(Instant::now()) > DEBT_MAX)
    }

    /// Charges what a request took.
    pub(super) fn charge(&self, account: Account, spent: Duration) {
        let excess = spent.saturating_sub(USUAL);
        if excess.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut debts = self.debts.lock().unwrap_or_else(PoisonError::into_inner);
        if debts.len() >= DEBTS_MAX && !debts.contains_key(&account.0) {
            debts.retain(|_, debt| !debt.owed_now(now).is_zero());
            let oldest = debts.iter().min_by_key(|(_, debt)| debt.at).map(|(account, _)| *account);
            if let Some(oldest) = oldest.filter(|_| debts.len() >= DEBTS_MAX) {
                debts.remove(&oldest);
            }
        }
        let before = debts.get(&account.0).map_or(Duration::ZERO, |debt| debt.owed_now(now));
        debts.insert(account.0, Debt { owed: (before + excess).min(REMEMBERED_MAX), at: now });
    }
}

/// Runs the work; returns the processor time it took beside what it gives.
pub(super) async fn measured<F: Future>(work: F) -> (F::Output, Duration) {
    let mut work = pin!(work);
    let mut spent = Duration::ZERO;
    let output = std::future::poll_fn(|context| {
        let before = processor_time();
        let polled: Poll<F::Output> = work.as_mut().poll(context);
        spent += processor_time().saturating_sub(before);
        polled
    })
    .await;
    (output, spent)
}

/// The processor time that this thread has had.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    fn resource(plural: &str) -> Resource {
        Resource::built_in().into_iter().find(|resource| *resource.plural == *plural).expect("it is built in")
    }

    #[tokio::test(start_paused = true)]
    async fn costly_requests_use_up_an_allowance_which_comes_back() {
        let allowances = Allowances::default();
        let (pods, secrets) = (resource("pods"), resource("secrets"));
        let (jane, joe) = (user("jane"), user("joe"));
        let account = allowances.account(&jane, &pods);
        for _ in 0..1_000 {
            allowances.charge(account, USUAL);
        }
        assert!(!allowances.is_used_up(account), "a thousand usual requests");
        allowances.charge(account, USUAL + DEBT_MAX);
        assert!(!allowances.is_used_up(account), "the first of a kind makes its schema");
        allowances.charge(account, USUAL + USUAL);
        assert!(allowances.is_used_up(account));
        assert!(!allowances.is_used_up(allowances.account(&jane, &secrets)));
        assert!(!allowances.is_used_up(allowances.account(&joe, &pods)));
        (0..1_000).for_each(|_| allowances.charge(account, Duration::from_secs(9)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!allowances.is_used_up(account), "a minute later");
    }

    #[tokio::test(start_paused = true)]
    async fn service_accounts_of_a_namespace_share_an_allowance() {
        let (allowances, pods) = (Allowances::default(), resource("pods"));
        let account = |name: &str| allowances.account(&user(name), &pods);
        allowances.charge(account("system:serviceaccount:team:one"), REMEMBERED_MAX);
        assert!(allowances.is_used_up(account("system:serviceaccount:team:two")));
        assert!(!allowances.is_used_up(account("system:serviceaccount:other:one")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let (allowances, pods) = (Allowances::default(), resource("pods"));
        for at in 0..2 * DEBTS_MAX {
            allowances.charge(allowances.account(&user(&format!("user-{at}")), &pods), REMEMBERED_MAX);
        }
        assert_eq!(allowances.debts.lock().expect("nobody panics").len(), DEBTS_MAX);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "waiting on the thread is what must not be counted")]
    async fn only_work_counts() {
        let ((), waiting) = measured(async { std::thread::sleep(Duration::from_millis(100)) }).await;
        assert!(waiting < Duration::from_millis(50), "{waiting:?} of work in a pause");
        let until = processor_time() + Duration::from_millis(5);
        let ((), working) = measured(async { while processor_time() < until {} }).await;
        assert!(working >= Duration::from_millis(4), "{working:?}");
    }
}
