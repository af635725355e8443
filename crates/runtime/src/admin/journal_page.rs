//! The journal of one object: `/journal?group=G&resource=R&namespace=N&name=X`, as JSON; with `&last=COUNT` only its
//! last records.
//!
//! **Invariant:** the caller presents a token, and the API server says whose token it is and whether that user may get
//! the object. Others get the same response whether or not the object exists. Records that name other objects are left
//! out unless the caller may also get those.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record, WatchState};
use homeostat_core::write_history::OperatorJournal;
use http::{HeaderMap, StatusCode};

use super::AdminPage;
use super::caller::{Caller, unchecked_page};
use crate::error::Error;
use crate::shared::OperatorShared;

/// The path under which the journal is served.
pub(crate) const JOURNAL_PATH: &str = "/journal";

/// Other objects for which the server is asked in one answer; records about more are left out.
const REVIEWS_MAX: usize = 50;

/// Returns the journal of the object that the query names.
pub(super) async fn page(shared: &OperatorShared, headers: &HeaderMap, query: Option<&str>) -> AdminPage {
    let Some(question) = query.and_then(parse_query) else {
        let usage =
            format!("try {JOURNAL_PATH}?group=GROUP&resource=RESOURCE&namespace=NAMESPACE&name=NAME\n");
        return AdminPage::text(StatusCode::BAD_REQUEST, usage);
    };
    answer(shared, headers, &question).await.unwrap_or_else(|error| unchecked_page(&error))
}

async fn answer(
    shared: &OperatorShared,
    headers: &HeaderMap,
    question: &JournalQuestion,
) -> Result<AdminPage, Error> {
    let caller = match Caller::load(shared, headers).await? {
        Ok(caller) => caller,
        Err(page) => return Ok(page),
    };
    let object = &question.object;
    if !caller.may_get(object).await? {
        return Ok(AdminPage::text(StatusCode::NOT_FOUND, "nothing is known about it\n"));
    }
    let reach = shared.journal.reach();
    let mut records = shared.journal.about(object);
    records.drain(..records.len().saturating_sub(question.records_max));
    let mut verdicts = BTreeMap::from([(object.clone(), true)]);
    for other in records.iter().flat_map(|record| record.entry.mentioned()) {
        if !verdicts.contains_key(&other) && verdicts.len() <= REVIEWS_MAX {
            let verdict = is_outside(&other) || caller.may_get(&other).await?;
            verdicts.insert(other, verdict);
        }
    }
    let may_see =
        |record: &Record| record.entry.mentioned().iter().all(|key| verdicts.get(key) == Some(&true));
    let journal = OperatorJournal {
        operator: shared.name.to_string(),
        records: records.into_iter().filter(may_see).chain(watch_state(shared, object)).collect(),
        since: reach.since.filter(|_| reach.dropped > 0),
        dropped: reach.dropped,
        started: Some(reach.started),
    };
    Ok(AdminPage::json(&journal))
}

/// Returns whether the object's kind is watched and whether that watch fails, in which case nothing is known about the
/// object.
fn watch_state(shared: &OperatorShared, object: &Key) -> Option<Record> {
    let caches = shared.caches.all().into_iter();
    let caches = caches.filter(|(_, cache)| {
        let info = cache.info();
        info.group == object.group() && info.plural == object.resource()
    });
    let states: Vec<(String, WatchState)> =
        caches.map(|(_, cache)| (cache.info().resource.clone(), cache.freshness().state)).collect();
    let failing = states.iter().find(|(_, state)| matches!(state, WatchState::Failing { .. }));
    let (resource, state) = failing.or(states.first())?.clone();
    let entry = Entry::Watched { resource, state };
    Some(Record { at: shared.clock.now(), source: shared.name.clone(), entry })
}

/// Returns whether a key names an external resource, which belongs to the object itself.
fn is_outside(key: &Key) -> bool {
    key.group() == "outside"
}

/// A question for the journal.
#[derive(Debug, PartialEq, Eq)]
struct JournalQuestion {
    object: Key,
    /// How many of the last records are wanted.
    records_max: usize,
}

fn parse_query(query: &str) -> Option<JournalQuestion> {
    let fields: BTreeMap<&str, &str> = query.split('&').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    let key = Key::new(field("group"), field("resource"), field("namespace"), field("name"));
    let records_max = fields.get("last").map_or(Some(usize::MAX), |text| text.parse().ok())?;
    let is_object = !key.resource().is_empty() && !key.name().is_empty() && key.is_well_formed();
    is_object.then_some(JournalQuestion { object: key, records_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_one_object() {
        let check = |query: &str, expected: Option<&str>| {
            let found = parse_query(query).map(|found| found.object);
            assert_eq!(found.as_ref().map(Key::as_str), expected, "{query}");
        };
        check("group=apps&resource=deployments&namespace=a&name=web", Some("apps/deployments/a/web"));
        check("resource=nodes&name=n", Some("/nodes//n"));
        check("resource=nodes&name=n&last=3", Some("/nodes//n"));
        check("resource=nodes&name=n&last=-3", None);
        check("resource=pods", None);
        check("resource=pods&name=a/b", None);
        check("", None);
    }
}
