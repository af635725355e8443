//! Serves the journal of one object as JSON: `/journal?group=G&resource=R&namespace=N&name=X`.
//!
//! **Invariant:** the caller presents a token, and the API server says whose token it is and whether that user may get
//! the object. Others get the same response whether or not the object exists. Records that name other objects are left
//! out unless the caller may also get those.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record, WatchState};
use homeostat_core::write_history::OperatorJournal;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::AdminPage;
use crate::error::Error;
use crate::request::{RequestLabel, send_request};
use crate::shared::OperatorShared;

/// The path under which the journal is served.
pub(crate) const JOURNAL_PATH: &str = "/journal";

/// The request header for callers who do not want to reveal their own credentials: it holds a token for this operator
/// only.
pub(crate) const CALLER_TOKEN_HEADER: &str = "homeostat-caller-token";

/// The maximum number of other objects that the server is asked about for one response; records about further objects
/// are left out.
const REVIEWS_MAX: usize = 50;

/// Returns the journal of the object that the query names.
pub(super) async fn page(shared: &OperatorShared, headers: &HeaderMap, query: Option<&str>) -> AdminPage {
    let Some(object) = query.and_then(parse_query) else {
        let usage =
            format!("try {JOURNAL_PATH}?group=GROUP&resource=RESOURCE&namespace=NAMESPACE&name=NAME\n");
        return AdminPage::text(StatusCode::BAD_REQUEST, usage);
    };
    let Some(token) = caller_token(shared, headers) else {
        return AdminPage::text(
            StatusCode::UNAUTHORIZED,
            "send a token of the cluster: authorization: Bearer TOKEN\n",
        );
    };
    match answer(shared, &token, &object).await {
        Ok(page) => page,
        Err(error) => {
            let text = format!("the API server was not asked who you are and what you may read: {error}\n");
            AdminPage::text(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

async fn answer(shared: &OperatorShared, token: &CallerToken<'_>, object: &Key) -> Result<AdminPage, Error> {
    let Some(user) = review_token(shared, token).await? else {
        return Ok(AdminPage::text(StatusCode::UNAUTHORIZED, "the API server does not know this token\n"));
    };
    if !may_get(shared, &user, object).await? {
        return Ok(AdminPage::text(StatusCode::NOT_FOUND, "nothing is known about it\n"));
    }
    let reach = shared.journal.reach();
    let records = shared.journal.about(object);
    let mut verdicts = BTreeMap::from([(object.clone(), true)]);
    for other in records.iter().flat_map(|record| record.entry.mentioned()) {
        if !verdicts.contains_key(&other) && verdicts.len() <= REVIEWS_MAX {
            let verdict = is_outside(&other) || may_get(shared, &user, &other).await?;
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
    let text = serde_json::to_string(&journal).unwrap_or_default();
    Ok(AdminPage { code: StatusCode::OK, content_type: "application/json", text })
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

/// A token that identifies the caller.
enum CallerToken<'a> {
    /// The caller's own token, sent from this machine.
    Own(&'a str),
    /// A token for this operator only, under any of these names.
    ForAudiences(&'a str, Vec<String>),
}

/// Returns the token of a request; a token for this operator takes precedence.
fn caller_token<'a>(shared: &OperatorShared, headers: &'a HeaderMap) -> Option<CallerToken<'a>> {
    if let Some(token) = headers.get(CALLER_TOKEN_HEADER) {
        let audiences = shared.admin_address.as_ref()?.audiences();
        return token.to_str().ok().map(|token| CallerToken::ForAudiences(token, audiences));
    }
    bearer(headers).map(CallerToken::Own)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn parse_query(query: &str) -> Option<Key> {
    let fields: BTreeMap<&str, &str> = query.split('&').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    let key = Key::new(field("group"), field("resource"), field("namespace"), field("name"));
    (!key.resource().is_empty() && !key.name().is_empty() && key.is_well_formed()).then_some(key)
}

/// Asks the server which user the token belongs to; `None` if it is invalid.
async fn review_token(shared: &OperatorShared, token: &CallerToken<'_>) -> Result<Option<Value>, Error> {
    let spec = match token {
        CallerToken::Own(token) => json!({"token": token}),
        CallerToken::ForAudiences(token, audiences) => json!({"token": token, "audiences": audiences}),
    };
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    let answer = ask(shared, "/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
    // A server that does not know about audiences names none, and its answer is ignored.
    let is_meant = match token {
        CallerToken::Own(_) => true,
        CallerToken::ForAudiences(_, audiences) => {
            let meant = answer["status"]["audiences"].as_array();
            meant.is_some_and(|meant| {
                meant.iter().any(|one| audiences.iter().any(|audience| one == audience.as_str()))
            })
        }
    };
    let is_known = is_meant && answer["status"]["authenticated"] == true;
    Ok(is_known.then(|| answer["status"]["user"].clone()))
}

/// Asks the server whether a user may get an object.
async fn may_get(shared: &OperatorShared, user: &Value, key: &Key) -> Result<bool, Error> {
    let attributes = json!({
        "verb": "get",
        "group": key.group(),
        "resource": key.resource(),
        "namespace": key.namespace(),
        "name": key.name(),
    });
    let spec = json!({
        "user": user["username"], "groups": user["groups"], "uid": user["uid"], "extra": user["extra"],
        "resourceAttributes": attributes,
    });
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": without_nulls(spec),
    });
    let answer = ask(shared, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await?;
    Ok(answer["status"]["allowed"] == true)
}

fn without_nulls(spec: Value) -> Value {
    crate::json_diff::without_nulls(spec)
}

async fn ask(shared: &OperatorShared, path: &str, question: &Value) -> Result<Value, Error> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(question.to_string().into_bytes())
        .map_err(|error| Error::Invalid(error.to_string()))?;
    send_request(&shared.client, RequestLabel { verb: "ask", target: path }, Ok(request)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_one_object() {
        let check = |query: &str, expected: Option<&str>| {
            assert_eq!(parse_query(query).as_ref().map(Key::as_str), expected, "{query}");
        };
        check("group=apps&resource=deployments&namespace=a&name=web", Some("apps/deployments/a/web"));
        check("resource=nodes&name=n", Some("/nodes//n"));
        check("resource=pods", None);
        check("resource=pods&name=a/b", None);
        check("", None);
    }
}
