//! The parameters of the paths. kubectl looks for some of them by name (`fieldValidation`, `dryRun`) to learn what
//! the server can do.

use serde_json::{Value, json};

/// Name, type and meaning of a query parameter.
type Parameter = (&'static str, &'static str, &'static str);

const CONTINUE: Parameter = ("continue", "string", "The token of the next page, from the page before.");
const FIELD_SELECTOR: Parameter = ("fieldSelector", "string", "Only objects with these field values.");
const LABEL_SELECTOR: Parameter = ("labelSelector", "string", "Only objects with these labels.");
const LIMIT: Parameter = ("limit", "integer", "At most so many items; more follow with continue.");
const RESOURCE_VERSION: Parameter =
    ("resourceVersion", "string", "The version to list at or to watch from; how it counts, the match says.");
const RESOURCE_VERSION_MATCH: Parameter =
    ("resourceVersionMatch", "string", "How resourceVersion counts: NotOlderThan or Exact.");
const SEND_INITIAL_EVENTS: Parameter =
    ("sendInitialEvents", "boolean", "Start a watch with events for what is there already.");
const TIMEOUT_SECONDS: Parameter =
    ("timeoutSeconds", "integer", "End the list or watch after so many seconds.");
const ALLOW_WATCH_BOOKMARKS: Parameter =
    ("allowWatchBookmarks", "boolean", "Send bookmarks, which tell how far a watch has come.");
const WATCH: Parameter = ("watch", "boolean", "Follow changes instead of listing.");
const DRY_RUN: Parameter = ("dryRun", "string", "All: do everything but store the result.");
const FIELD_MANAGER: Parameter =
    ("fieldManager", "string", "Who changes the fields, at most 128 printable characters.");
const FIELD_VALIDATION: Parameter =
    ("fieldValidation", "string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict.");
const FORCE: Parameter = ("force", "boolean", "Take over fields that others manage; apply only.");
const GRACE_PERIOD_SECONDS: Parameter =
    ("gracePeriodSeconds", "integer", "How long the object has to end; zero means at once.");
const IGNORE_READ_ERROR: Parameter = (
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete even what can no longer be read. Dangerous.",
);
const ORPHAN_DEPENDENTS: Parameter =
    ("orphanDependents", "boolean", "Deprecated: leave the dependents behind; use propagationPolicy.");
const PROPAGATION_POLICY: Parameter =
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground.");
const PRETTY: Parameter = ("pretty", "string", "true: indent the answer for people.");

/// Of a list.
pub(super) const LIST: [Parameter; 10] = [
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
/// Of creating and replacing.
pub(super) const WRITE: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// Of a patch.
pub(super) const PATCH: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// Of deleting one object.
pub(super) const DELETE: [Parameter; 5] =
    [DRY_RUN, GRACE_PERIOD_SECONDS, IGNORE_READ_ERROR, ORPHAN_DEPENDENTS, PROPAGATION_POLICY];
/// Of deleting all that match.
pub(super) const DELETE_COLLECTION: [Parameter; 13] = [
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

/// Query parameters in version 3 notation.
pub(super) fn query(parameters: &[Parameter]) -> Vec<Value> {
    let one = |(name, kind, description): &Parameter| {
        json!({ "name": name, "in": "query", "description": description,
            "schema": { "type": kind, "uniqueItems": true } })
    };
    parameters.iter().map(one).collect()
}

/// The parameters every operation of a path has: those in the path, and whether to indent.
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
