//! What the operator is doing now: `/activity`, as JSON, for consoles of other processes.
//!
//! **Invariant:** failures and hot loops name only objects that the caller may get; controllers, watches and worlds are
//! told to those who may read the server's metrics, as on the console itself.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::activity::{Activity, ActivityReport};
use http::HeaderMap;

use super::AdminPage;
use super::caller::{Caller, unchecked_page};
use crate::error::Error;
use crate::shared::OperatorShared;

/// Where it is served.
pub(crate) const ACTIVITY_PATH: &str = "/activity";

/// How often the server is asked what the caller may get, in one answer. Most callers may get all objects of a kind or
/// of a namespace, and one question answers for all of them; objects beyond this are left out.
const REVIEWS_MAX: usize = 50;

/// Failing objects in one answer: more than anyone reads, and some 100 KB at most.
const FAILURES_MAX: usize = 200;

/// Returns what the operator is doing, as far as the caller may know it.
pub(super) async fn page(shared: &OperatorShared, activity: &Activity, headers: &HeaderMap) -> AdminPage {
    answer(shared, activity, headers).await.unwrap_or_else(|error| unchecked_page(&error))
}

async fn answer(
    shared: &OperatorShared,
    activity: &Activity,
    headers: &HeaderMap,
) -> Result<AdminPage, Error> {
    let caller = match Caller::load(shared, headers).await? {
        Ok(caller) => caller,
        Err(page) => return Ok(page),
    };
    let may_see_operators = caller.may_read_metrics().await?;
    let now = shared.clock.now().as_millisecond();
    let mut activity = activity.view(now, may_see_operators, |_| true);
    let named = activity.failures.iter().map(|one| &one.key).chain(activity.hot.iter().map(|one| &one.key));
    let mut rights = ObjectRights { caller, verdicts: BTreeMap::new() };
    for key in named {
        rights.learn(key).await?;
    }
    activity.failures.retain(|one| rights.is_visible(&one.key));
    activity.hot.retain(|one| rights.is_visible(&one.key));
    let omitted = activity.failures.len().saturating_sub(FAILURES_MAX);
    activity.failures.truncate(FAILURES_MAX);
    Ok(AdminPage::json(&ActivityReport {
        operator: shared.name.to_string(),
        started: shared.journal.reach().started,
        activity,
        omitted: u64::try_from(omitted).unwrap_or(u64::MAX),
    }))
}

/// What the caller may get, as far as the server was asked.
struct ObjectRights<'a> {
    caller: Caller<'a>,
    verdicts: BTreeMap<Key, bool>,
}

impl ObjectRights<'_> {
    /// Asks about an object: first whether the caller may get all of its kind, then all of its namespace, then this one.
    async fn learn(&mut self, key: &Key) -> Result<(), Error> {
        for wider in widening(key) {
            if !self.verdicts.contains_key(&wider) && self.verdicts.len() < REVIEWS_MAX {
                let verdict = self.caller.may_get(&wider).await?;
                self.verdicts.insert(wider.clone(), verdict);
            }
            if self.verdicts.get(&wider) == Some(&true) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_visible(&self, key: &Key) -> bool {
        widening(key).iter().any(|wider| self.verdicts.get(wider) == Some(&true))
    }
}

/// Returns what includes an object, from its whole kind down to the object itself.
fn widening(key: &Key) -> [Key; 3] {
    let of = |namespace: &str, name: &str| Key::new(key.group(), key.resource(), namespace, name);
    [of("", ""), of(key.namespace(), ""), key.clone()]
}
