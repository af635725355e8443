//! Describes the parameters of the paths. kubectl looks some of them up by name (`fieldValidation`, `dryRun`) to learn
//! what the server can do.

use serde_json::{Value, json};

/// Name, type and description of a query parameter.
type QueryParameter = (&'static str, &'static str, &'static str);

const CONTINUE: QueryParameter = ("continue", "string", "The token of the next page, from the page before.");
const FIELD_SELECTOR: QueryParameter = ("fieldSelector", "string", "Only objects with these field values.");
const LABEL_SELECTOR: QueryParameter = ("labelSelector", "string", "Only objects with these labels.");
const LIMIT: QueryParameter = ("limit", "integer", "At most so many items; more follow with continue.");
const RESOURCE_VERSION: QueryParameter =
    ("resourceVersion", "string", "The version to list at or to watch from; how it counts, the match says.");
const RESOURCE_VERSION_MATCH: QueryParameter =
    ("resourceVersionMatch", "string", "How resourceVersion counts: NotOlderThan or Exact.");
const SEND_INITIAL_EVENTS: QueryParameter =
    ("sendInitialEvents", "boolean", "Start a watch with events for what is there already.");
const TIMEOUT_SECONDS: QueryParameter =
    ("timeoutSeconds", "integer", "End the list or watch after so many seconds.");
const ALLOW_WATCH_BOOKMARKS: QueryParameter =
    ("allowWatchBookmarks", "boolean", "Send bookmarks, which tell how far a watch has come.");
const WATCH: QueryParameter = ("watch", "boolean", "Follow changes instead of listing.");
const DRY_RUN: QueryParameter = ("dryRun", "string", "All: do everything but store the result.");
const FIELD_MANAGER: QueryParameter =
    ("fieldManager", "string", "Who changes the fields, at most 128 printable characters.");
const FIELD_VALIDATION: QueryParameter =
    ("fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict.");
const FORCE: QueryParameter = ("force", "boolean", "Take over fields that others manage; apply only.");
const GRACE_PERIOD_SECONDS: QueryParameter =
    ("gracePeriodSeconds", "integer", "How long the object has to end; zero means at once.");
const IGNORE_READ_ERROR: QueryParameter = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete even what can no longer be read. Dangerous.",
);
const ORPHAN_DEPENDENTS: QueryParameter =
    ("orphanDependents", "boolean", "Deprecated: leave the dependents behind; use propagationPolicy.");
const PROPAGATION_POLICY: QueryParameter =
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground.");
const PRETTY: QueryParameter = ("pretty", "string", "true: indent the answer for people.");

/// Parameters of a list.
pub(super) const LIST: [QueryParameter; 10] = [
    ALLOW_WATCH_BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    TIMEOUT_SECONDS,
    WATCH,
];
/// Parameters of creates and replaces.
pub(super) const WRITE: [QueryParameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// Parameters of a patch.
pub(super) const PATCH: [QueryParameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// Parameters for deleting one object.
pub(super) const DELETE: [QueryParameter; 5] =
    [DRY_RUN, GRACE_PERIOD_SECONDS, IGNORE_READ_ERROR, ORPHAN_DEPENDENTS, PROPAGATION_POLICY];
/// Parameters for deleting a collection.
pub(super) const DELETE_COLLECTION: [QueryParameter; 13] = [
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD_SECONDS,
    IGNORE_READ_ERROR,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN_DEPENDENTS,
    PROPAGATION_POLICY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    TIMEOUT_SECONDS,
];

/// Returns query parameters in version 3 notation.
pub(super) fn query(parameters: &[QueryParameter]) -> Vec<Value> {
    let one = |(name, kind, description): &QueryParameter| {
        json!({ "name": name, "in": "query", "description": description,
            "schema": { "type": kind, "uniqueItems": true } })
    };
    parameters.iter().map(one).collect()
}

/// Returns the parameters that every operation of a path has: the path parameters, and `pretty`.
pub(super) fn shared(path: &str, kind: &str) -> Vec<Value> {
    let named = [
        ("{name}", "name", format!("name of the {kind}")),
        ("{namespace}", "namespace", "the namespace".into()),
    ];
    let in_path =
        named.into_iter().filter(|(place, ..)| path.contains(place)).map(|(_, name, description)| {
            json!({ "name": name, "in": "path", "required": true, "description": description,
            "schema": { "type": "string", "uniqueItems": true } })
        });
    in_path.chain(query(&[PRETTY])).collect()
}
