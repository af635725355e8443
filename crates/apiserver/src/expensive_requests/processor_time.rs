//! Tracks which users have spent too much processor time on requests that look small but are not.
//!
//! The size of a request does not reveal the cost of its checks: validation rules of a definition, defaults that fan
//! out, parts that are all alike. The processor time of each write is therefore measured. A user who spends too much of
//! it on one resource continues in the queue of expensive requests until the debt is paid off. The first costly
//! requests are the price of detecting this: as many as there are threads.
//!
//! **Invariant:** time spent on other requests never counts: what is measured is the processor time of the thread's own
//! work, not elapsed time.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use homeostat_api::resource::Resource;
use tokio::time::Instant;

use crate::auth::{Identity, account_of};

/// The maximum time that a normal request takes; only the excess counts.
const USUAL: Duration = Duration::from_millis(2);

/// The debt from which requests leave the serving threads. The first request for a kind, which builds its schema,
/// costs less.
const DEBT_MAX: Duration = Duration::from_millis(50);

/// The maximum debt that is remembered, so that every user is served normally again after a minute.
const REMEMBERED_MAX: Duration = Duration::from_secs(1);

/// A debt shrinks by the elapsed time divided by this: two hundredths of a thread.
const FORGIVEN_SHARE: u32 = 50;

/// How many debts are remembered. Beyond that, the oldest are forgotten; an attacker would need this many accounts to
/// cause that.
const DEBTS_MAX: usize = 4096;

/// The processor time that each account has spent beyond the normal amount.
#[derive(Debug, Default)]
pub(super) struct ProcessorTimeDebts {
    debts: Mutex<HashMap<u64, ProcessorTimeDebt>>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct ProcessorTimeDebt {
    owed: Duration,
    at: Instant,
}

/// Identifies a user's writes to one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct DebtAccount(u64);

impl ProcessorTimeDebt {
    fn owed_now(&self, now: Instant) -> Duration {
        self.owed.saturating_sub(now.saturating_duration_since(self.at) / FORGIVEN_SHARE)
    }
}

impl ProcessorTimeDebts {
    /// Returns the account to which a write is charged. The service accounts of a namespace share one.
    pub(super) fn account(&self, who: &Identity, resource: &Resource) -> DebtAccount {
        DebtAccount(self.hasher.hash_one((account_of(who), &*resource.group, &*resource.plural)))
    }

    pub(super) fn exceeds_limit(&self, account: DebtAccount) -> bool {
        let debts = self.debts.lock().unwrap_or_else(PoisonError::into_inner);
        debts.get(&account.0).is_some_and(|debt| debt.owed_now(Instant::now()) > DEBT_MAX)
    }

    /// Charges the time that a request took.
    pub(super) fn charge(&self, account: DebtAccount, spent: Duration) {
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
        debts.insert(account.0, ProcessorTimeDebt { owed: (before + excess).min(REMEMBERED_MAX), at: now });
    }
}

/// Runs the work; returns its result and the processor time that it took.
pub(super) async fn measure_processor_time<F: Future>(work: F) -> (F::Output, Duration) {
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

/// Returns the processor time that this thread has used.
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
        homeostat_api::kinds::built_in_rows()
            .into_iter()
            .find(|resource| *resource.plural == *plural)
            .expect("it is built in")
    }

    #[tokio::test(start_paused = true)]
    async fn costly_requests_build_up_a_debt_that_shrinks_again() {
        let debts = ProcessorTimeDebts::default();
        let (pods, secrets) = (resource("pods"), resource("secrets"));
        let (jane, joe) = (user("jane"), user("joe"));
        let account = debts.account(&jane, &pods);
        for _ in 0..1_000 {
            debts.charge(account, USUAL);
        }
        assert!(!debts.exceeds_limit(account), "a thousand usual requests");
        debts.charge(account, USUAL + DEBT_MAX);
        assert!(!debts.exceeds_limit(account), "the first of a kind makes its schema");
        debts.charge(account, USUAL + USUAL);
        assert!(debts.exceeds_limit(account));
        assert!(!debts.exceeds_limit(debts.account(&jane, &secrets)));
        assert!(!debts.exceeds_limit(debts.account(&joe, &pods)));
        (0..1_000).for_each(|_| debts.charge(account, Duration::from_secs(9)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!debts.exceeds_limit(account), "a minute later");
    }

    #[tokio::test(start_paused = true)]
    async fn service_accounts_of_a_namespace_share_a_debt() {
        let (debts, pods) = (ProcessorTimeDebts::default(), resource("pods"));
        let account = |name: &str| debts.account(&user(name), &pods);
        debts.charge(account("system:serviceaccount:team:one"), REMEMBERED_MAX);
        assert!(debts.exceeds_limit(account("system:serviceaccount:team:two")));
        assert!(!debts.exceeds_limit(account("system:serviceaccount:other:one")));
        assert!(!debts.exceeds_limit(account("team")), "a user may have the name of a namespace");
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_debts_are_bounded() {
        let (debts, pods) = (ProcessorTimeDebts::default(), resource("pods"));
        for at in 0..2 * DEBTS_MAX {
            debts.charge(debts.account(&user(&format!("user-{at}")), &pods), REMEMBERED_MAX);
        }
        assert_eq!(debts.debts.lock().expect("nobody panics").len(), DEBTS_MAX);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "waiting on the thread is what must not be counted")]
    async fn waiting_does_not_count() {
        let ((), waiting) =
            measure_processor_time(async { std::thread::sleep(Duration::from_millis(100)) }).await;
        assert!(waiting < Duration::from_millis(50), "{waiting:?} of work in a pause");
        let until = processor_time() + Duration::from_millis(5);
        let ((), working) = measure_processor_time(async { while processor_time() < until {} }).await;
        assert!(working >= Duration::from_millis(4), "{working:?}");
    }
}
