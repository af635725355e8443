//! Implements list: returns the stored bytes of many objects between a head and a tail, from one consistent snapshot.

use std::sync::Arc;

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::negotiate::AnswerEncoding;
use homeostat_api::response_forms::ListMeta;
use homeostat_api::status::Status;
use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Error as StoreError, Snapshot};
use serde_json::{Value, json};

use super::get::revision_too_large;
use super::list_items::{ListItems, check_whole_list};
use super::request_selectors::RequestSelectors;
use super::{Answer, AuthorizedRequest};
use crate::continue_token::{ContinueToken, TokenSnapshot};
use crate::stored::convert;

/// How many entries are passed to a converter at a time. If they are large, each call contains fewer.
const CONVERTED_CHUNK: usize = 500;

/// Lists the objects that match the path and the selectors.
pub(super) async fn list(call: &AuthorizedRequest) -> Result<Answer, Status> {
    SelectedEntries::select(call, &ListRequest::parse(call)?).await?.answer(call)
}

/// The entries that a request selects at one point in time, and the metadata of their list.
pub(super) struct SelectedEntries {
    pub(super) entries: Vec<Arc<Entry>>,
    head: Value,
}

impl SelectedEntries {
    /// Selects the objects for deleting the collection. This reads the list in its own pages, and a version given for a
    /// page must match exactly unless a different match is requested.
    pub(super) async fn to_delete(call: &AuthorizedRequest) -> Result<Self, Status> {
        let mut request = ListRequest::parse(call)?;
        request.is_exact |= call.query.get("resourceVersionMatch").is_empty();
        Self::select(call, &request).await
    }

    async fn select(call: &AuthorizedRequest, request: &ListRequest) -> Result<Self, Status> {
        let selection = RequestSelectors::parse(call)?;
        let (snapshot, after) = request.snapshot(call)?;
        let left = request.token.as_ref().and_then(|token| token.left);
        let from = (after.as_deref().unwrap_or_default(), left);
        let page = if call.has_converter() {
            Box::pin(ListPage::read_converted(call, &selection, &snapshot, from, request.limit)).await?
        } else {
            ListPage::read(call, &selection, &snapshot, from, request.limit)
        };
        if page.next.is_some() {
            call.backend.store.pin(&snapshot);
        }
        let head = list_metadata(call, &selection, &snapshot, &page);
        Ok(Self { entries: page.entries, head })
    }

    /// Responds with the list, in the requested form.
    pub(super) fn answer(self, call: &AuthorizedRequest) -> Result<Answer, Status> {
        let Self { entries, head } = self;
        if call.wants_bytes() {
            let body = ListItems::stored(call, &head, entries).into_body();
            return Ok(Answer::body(200, "application/json", body));
        }
        let meta = ListMeta {
            resource_version: head["resourceVersion"].as_str().unwrap_or_default(),
            next: head["continue"].as_str().unwrap_or_default(),
            remaining_item_count: head["remainingItemCount"].as_i64(),
        };
        if let Some(view) = call.view() {
            return Answer::items(call, ListItems::viewed(call, view, &meta, entries)?);
        }
        if call.accepted.media == AnswerEncoding::Protobuf
            && let Some(answer) = Answer::protobuf_list(call, &entries, &meta)
        {
            return Ok(answer);
        }
        check_whole_list(entries.iter().map(|entry| entry.bytes.len()).sum())?;
        let items = entries.iter().map(|entry| convert::decode_in_version(&call.resource, entry)).collect();
        Ok(Answer::list(call, items, &meta))
    }
}

/// The checked options of the query.
struct ListRequest {
    limit: Option<usize>,
    revision: Option<Revision>,
    is_exact: bool,
    token: Option<ContinueToken>,
}

impl ListRequest {
    fn parse(call: &AuthorizedRequest) -> Result<Self, Status> {
        let query = &call.query;
        let (revision, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
        check_match(query.has("sendInitialEvents"), revision, matching, query.get("continue"))?;
        let limit = query.number("limit")?.unwrap_or_default();
        // A list has no time limit, but a value that is not a number is still a mistake.
        query.number("timeoutSeconds")?;
        let token = query.get("continue");
        let token = (!token.is_empty()).then(|| ContinueToken::parse(token)).transpose()?;
        if token.is_some() && !matches!(revision, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let revision = match revision {
            "" => None,
            text => Some(
                super::get::parse_revision(text)
                    .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?,
            ),
        };
        // Requests for "any version" are served from the newest state, where Kubernetes ignores the limit.
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let limit = limit.filter(|_| revision != Some(Revision::ZERO) || matching == "Exact");
        let is_exact = matching == "Exact" || (matching.is_empty() && limit.is_some());
        Ok(Self { limit, revision, is_exact, token })
    }

    /// Returns the snapshot to list, and the key to start after.
    fn snapshot(&self, call: &AuthorizedRequest) -> Result<(Snapshot, Option<String>), Status> {
        let store = &call.backend.store;
        if let Some(token) = &self.token {
            return token_snapshot(call, token);
        }
        let newest = store.snapshot();
        match self.revision {
            None | Some(Revision::ZERO) => Ok((newest, None)),
            Some(asked) if asked > newest.revision() => Err(revision_too_large(asked, newest.revision())),
            Some(asked) if self.is_exact => Ok((snapshot_at(call, asked)?, None)),
            Some(_) => Ok((newest, None)),
        }
    }
}

fn snapshot_at(call: &AuthorizedRequest, revision: Revision) -> Result<Snapshot, Status> {
    call.backend.store.snapshot_at(revision).map_err(|error| match error {
        StoreError::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        StoreError::Future { asked, current } => revision_too_large(asked, current),
        other => Status::internal(&other.to_string()),
    })
}

/// Returns the separator between the prefix and a name if there are no namespaces. Tokens omit it.
fn no_namespace(call: &AuthorizedRequest) -> &'static str {
    if call.resource.namespaced { "" } else { "/" }
}

fn token_snapshot(
    call: &AuthorizedRequest,
    token: &ContinueToken,
) -> Result<(Snapshot, Option<String>), Status> {
    let after = format!("{}{}{}", call.prefix(), no_namespace(call), token.start);
    let TokenSnapshot::At(revision) = token.position else {
        return Ok((call.backend.store.snapshot(), Some(after)));
    };
    let newest = call.backend.store.snapshot().revision();
    if revision > newest {
        // The server never issued such a token, so retrying with it is useless.
        return Err(revision_too_large(revision, newest).retry_after(0));
    }
    if token.is_over(call.backend.clock.now()) {
        return Err(token.expired());
    }
    match call.backend.store.snapshot_at(revision) {
        Ok(snapshot) => Ok((snapshot, Some(after))),
        Err(StoreError::Compacted { .. }) => Err(token.expired()),
        Err(StoreError::Future { asked, current }) => Err(revision_too_large(asked, current)),
        Err(other) => Err(Status::internal(&other.to_string())),
    }
}

fn check_match(sends_initial: bool, revision: &str, matching: &str, token: &str) -> Result<(), Status> {
    let root = FieldPath::Root;
    let path = root.field("resourceVersionMatch");
    let mut errors = Errors::new();
    if !matching.is_empty() {
        if revision.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(Error::forbidden(&path, detail));
        }
        if !token.is_empty() {
            errors
                .push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(Error::not_supported(&path, &json!(matching), &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && revision == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(Error::forbidden(&path, detail));
        }
    }
    if sends_initial {
        let path = root.field("sendInitialEvents");
        errors.push(Error::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

/// The entries in one response, and where the next page begins.
struct ListPage {
    entries: Vec<Arc<Entry>>,
    next: Option<Key>,
    remaining: usize,
}

impl ListPage {
    fn read(
        call: &AuthorizedRequest,
        selection: &RequestSelectors,
        snapshot: &Snapshot,
        (after, left): (&str, Option<usize>),
        limit: Option<usize>,
    ) -> Self {
        let prefix = call.prefix();
        let everything = selection.is_everything();
        let mut matching =
            snapshot.range(&prefix, after).filter(|entry| everything || selection.matches(entry));
        let Some(limit) = limit else {
            return Self { entries: matching.cloned().collect(), next: None, remaining: 0 };
        };
        let entries = matching.by_ref().take(limit).cloned().collect::<Vec<_>>();
        let remaining = match left {
            _ if selection.has_selectors() => usize::from(matching.next().is_some()),
            Some(left) if matching.next().is_some() => left.saturating_sub(entries.len()).max(1),
            Some(_) => 0,
            None => matching.count(),
        };
        let next = (remaining > 0).then(|| entries.last().map(|entry| entry.key.clone())).flatten();
        Self { entries, next, remaining }
    }
}

impl ListPage {
    /// Reads a page of objects that a webhook converts. Selectors apply to its results, so entries are converted
    /// until enough of them match.
    async fn read_converted(
        call: &AuthorizedRequest,
        selection: &RequestSelectors,
        snapshot: &Snapshot,
        (after, left): (&str, Option<usize>),
        limit: Option<usize>,
    ) -> Result<Self, Status> {
        let prefix = call.prefix();
        let wanted = limit.map_or(usize::MAX, |limit| limit + 1);
        let (mut entries, mut after) = (Vec::new(), after.to_owned());
        while entries.len() < wanted {
            let chunk: Vec<_> =
                snapshot.range(&prefix, &after).take(CONVERTED_CHUNK.min(wanted)).cloned().collect();
            let Some(last) = chunk.last() else { break };
            last.key.as_str().clone_into(&mut after);
            let converted = call.converted_all(chunk).await?;
            entries.extend(converted.into_iter().filter(|entry| selection.matches(entry)));
        }
        let Some(limit) = limit.filter(|limit| entries.len() > *limit) else {
            return Ok(Self { entries, next: None, remaining: 0 });
        };
        entries.truncate(limit);
        let next = entries.last().map(|entry| entry.key.clone());
        let remaining = match (left, &next) {
            _ if selection.has_selectors() => 1,
            (Some(left), _) => left.saturating_sub(entries.len()).max(1),
            (None, Some(next)) => snapshot.range(&prefix, next.as_str()).count(),
            (None, None) => 0,
        };
        Ok(Self { entries, next, remaining })
    }
}

/// Returns the metadata of the list.
fn list_metadata(
    call: &AuthorizedRequest,
    selection: &RequestSelectors,
    snapshot: &Snapshot,
    page: &ListPage,
) -> Value {
    let mut metadata = json!({ "resourceVersion": snapshot.revision().to_string() });
    if let Some(next) = &page.next {
        let start = next.as_str()[call.prefix().as_str().len() + no_namespace(call).len()..].to_owned();
        let left = (!selection.has_selectors()).then_some(page.remaining);
        let issued = call.backend.clock.now();
        let token = ContinueToken { position: TokenSnapshot::At(snapshot.revision()), start, left, issued };
        metadata["continue"] = token.to_text().into();
        if !selection.has_selectors() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    } else if call.resource.is_custom() {
        metadata["continue"] = "".into();
    }
    metadata
}
