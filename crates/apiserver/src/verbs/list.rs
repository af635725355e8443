//! List: the stored bytes of many objects between a head and a tail, from one consistent snapshot.

use std::sync::Arc;

use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Error as StoreError, Snapshot};
use serde_json::{Value, json};

use super::get::too_large;
use super::items::Items;
use super::select::Selection;
use super::{Answer, Call};
use crate::convert;
use crate::field::{Error, Errors, Path};
use crate::page::{Position, Token};
use crate::status::Status;
use crate::table::ListMeta;

/// Lists what the path and the selectors mean.
pub(super) fn list(call: &Call) -> Result<Answer, Status> {
    Chosen::of(call, &Request::of(call)?)?.answer(call)
}

/// What a request means, at one moment: the entries, and the metadata of the list of them.
pub(super) struct Chosen {
    pub(super) entries: Vec<Arc<Entry>>,
    head: Value,
}

impl Chosen {
    /// What a deletion of the collection means. It lists in pages of its own, and a version named for a page is met
    /// exactly unless another match is asked for.
    pub(super) fn to_delete(call: &Call) -> Result<Self, Status> {
        let mut request = Request::of(call)?;
        request.is_exact |= call.query.get("resourceVersionMatch").is_empty();
        Self::of(call, &request)
    }

    fn of(call: &Call, request: &Request) -> Result<Self, Status> {
        let selection = Selection::of(call)?;
        let (snapshot, after) = request.snapshot(call)?;
        let left = request.token.as_ref().and_then(|token| token.left);
        let from = (after.as_deref().unwrap_or_default(), left);
        let page = Page::read(call, &selection, &snapshot, from, request.limit);
        if page.next.is_some() {
            call.backend.store.pin(&snapshot);
        }
        let head = head(call, &selection, &snapshot, &page);
        Ok(Self { entries: page.entries, head })
    }

    /// The list of it, in the form the client asked for.
    pub(super) fn answer(self, call: &Call) -> Result<Answer, Status> {
        let Self { entries, head } = self;
        if call.wants_bytes() {
            let body = Items::stored(call, &head, entries).into_body();
            return Ok(Answer::body(200, "application/json", body));
        }
        let meta = ListMeta {
            resource_version: head["resourceVersion"].as_str().unwrap_or_default(),
            next: head["continue"].as_str().unwrap_or_default(),
            remaining_item_count: head["remainingItemCount"].as_i64(),
        };
        if let Some(view) = call.view() {
            return Ok(Answer::items(call, Items::viewed(call, view, &meta, entries)?));
        }
        let items = entries.iter().map(|entry| convert::decode(&call.resource, entry)).collect();
        Ok(Answer::list(call, items, &meta))
    }
}

/// What the query asks for, checked.
struct Request {
    limit: Option<usize>,
    revision: Option<Revision>,
    is_exact: bool,
    token: Option<Token>,
}

impl Request {
    fn of(call: &Call) -> Result<Self, Status> {
        let query = &call.query;
        let (revision, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
        check_match(query.has("sendInitialEvents"), revision, matching, query.get("continue"))?;
        let limit = query.number("limit")?.unwrap_or_default();
        // A list takes as long as it takes, but what is not a number is a mistake all the same.
        query.number("timeoutSeconds")?;
        let token = query.get("continue");
        let token = (!token.is_empty()).then(|| Token::parse(token)).transpose()?;
        if token.is_some() && !matches!(revision, "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let revision = match revision {
            "" => None,
            text => Some(text.parse::<Revision>().map_err(|_| {
                Status::bad_request(format!("invalid resource version: {}", super::get::not_a_revision(text)))
            })?),
        };
        // Any version serves from the newest state, where Kubernetes ignores the limit.
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let limit = limit.filter(|_| revision != Some(Revision::ZERO) || matching == "Exact");
        let is_exact = matching == "Exact" || (matching.is_empty() && limit.is_some());
        Ok(Self { limit, revision, is_exact, token })
    }

    /// The state to list, and the key text to start after.
    fn snapshot(&self, call: &Call) -> Result<(Snapshot, Option<String>), Status> {
        let store = &call.backend.store;
        if let Some(token) = &self.token {
            return token_snapshot(call, token);
        }
        let newest = store.snapshot();
        match self.revision {
            None | Some(Revision::ZERO) => Ok((newest, None)),
            Some(asked) if asked > newest.revision() => Err(too_large(asked, newest.revision())),
            Some(asked) if self.is_exact => Ok((at(call, asked)?, None)),
            Some(_) => Ok((newest, None)),
        }
    }
}

fn at(call: &Call, revision: Revision) -> Result<Snapshot, Status> {
    call.backend.store.snapshot_at(revision).map_err(|error| match error {
        StoreError::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        StoreError::Future { asked, current } => too_large(asked, current),
        other => Status::internal(&other.to_string()),
    })
}

/// What stands between the prefix and a name where there are no namespaces. Tokens leave it out.
fn no_namespace(call: &Call) -> &'static str {
    if call.resource.namespaced { "" } else { "/" }
}

fn token_snapshot(call: &Call, token: &Token) -> Result<(Snapshot, Option<String>), Status> {
    let after = format!("{}{}{}", call.prefix(), no_namespace(call), token.start);
    let Position::At(revision) = token.position else {
        return Ok((call.backend.store.snapshot(), Some(after)));
    };
    if token.is_over(call.backend.clock.now()) {
        return Err(token.expired());
    }
    match call.backend.store.snapshot_at(revision) {
        Ok(snapshot) => Ok((snapshot, Some(after))),
        Err(StoreError::Compacted { .. }) => Err(token.expired()),
        Err(StoreError::Future { asked, current }) => Err(too_large(asked, current)),
        Err(other) => Err(Status::internal(&other.to_string())),
    }
}

fn check_match(sends_initial: bool, revision: &str, matching: &str, token: &str) -> Result<(), Status> {
    let root = Path::Root;
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

/// The entries of one answer, and where the next begins.
struct Page {
    entries: Vec<Arc<Entry>>,
    next: Option<Key>,
    remaining: usize,
}

impl Page {
    fn read(
        call: &Call,
        selection: &Selection,
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

/// The list's own metadata.
fn head(call: &Call, selection: &Selection, snapshot: &Snapshot, page: &Page) -> Value {
    let mut metadata = json!({ "resourceVersion": snapshot.revision().to_string() });
    if let Some(next) = &page.next {
        let start = next.as_str()[call.prefix().as_str().len() + no_namespace(call).len()..].to_owned();
        let left = (!selection.has_selectors()).then_some(page.remaining);
        let issued = call.backend.clock.now();
        let token = Token { position: Position::At(snapshot.revision()), start, left, issued };
        metadata["continue"] = token.to_text().into();
        if !selection.has_selectors() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    } else if call.resource.is_custom() {
        metadata["continue"] = "".into();
    }
    metadata
}
