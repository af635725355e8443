//! Compares two states of a cluster, object by object and field by field.
//!
//! **Invariant:** values that differ only because of time or randomness are not reported: resource versions, managed
//! fields, uids and generated names of new objects, addresses that the server assigns, and timestamps that say "now".

use std::collections::BTreeMap;

use homeostat_core::field_diff::{FieldChange, FieldValue};
use homeostat_core::{FieldDiff, Key};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::report::{ChangeAction, ObjectChange};
use super::rest::is_chatter;

/// Placeholder for the letters that a server appends to `generateName`.
const RANDOM: &str = "<random>";

/// Placeholder for values that a server assigns.
const ASSIGNED: &str = "<assigned>";

/// With more new objects than this, only strings that equal a new uid or name are recognized: searching each string for
/// each of them would take too long.
const SEARCHED_MAX: usize = 2000;

/// Annotations that only repeat the object's own content.
const REPEATING: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// The time between two states. Timestamps within it say "now".
#[derive(Clone, Copy, Debug)]
pub struct ComparedWindow {
    /// When the first state was taken.
    pub from: Timestamp,
    /// When the second state was taken.
    pub to: Timestamp,
}

impl ComparedWindow {
    fn contains(self, time: Timestamp) -> bool {
        // Timestamps of objects are whole seconds.
        let second = SignedDuration::from_secs(1);
        let from = self.from.checked_sub(second).unwrap_or(self.from);
        let to = self.to.checked_add(second).unwrap_or(self.to);
        (from..=to).contains(&time)
    }
}

/// Returns what changed between two states, in the order of the keys.
pub fn compare_states(
    before: &[(Key, Value)],
    after: &[(Key, Value)],
    window: ComparedWindow,
) -> Vec<ObjectChange> {
    let by_key = |objects: &'_ [(Key, Value)]| -> BTreeMap<Key, usize> {
        let kept = objects.iter().enumerate().filter(|(_, (key, _))| !is_chatter(key));
        kept.map(|(index, (key, _))| (key.clone(), index)).collect()
    };
    let (old, new) = (by_key(before), by_key(after));
    let is_new = |key: &Key, object: &Value| {
        old.get(key).is_none_or(|index| before[*index].1["metadata"]["uid"] != object["metadata"]["uid"])
    };
    let ids = NewIdentities::new(
        after.iter().filter(|(key, object)| is_new(key, object)).map(|(_, object)| object),
    );
    let mut changes = Vec::new();
    for (key, index) in &old {
        let (then, now) = (&before[*index].1, new.get(key).map(|index| &after[*index].1));
        changes.extend(compare_object(key, Some(then), now, &ids, window));
    }
    for (key, index) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        changes.extend(compare_object(key, None, Some(&after[*index].1), &ids, window));
    }
    changes.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    changes
}

fn compare_object(
    key: &Key,
    old: Option<&Value>,
    new: Option<&Value>,
    ids: &NewIdentities,
    window: ComparedWindow,
) -> Option<ObjectChange> {
    let (action, shown, fields) = match (old, new) {
        (None, None) => return None,
        (Some(old), None) => (ChangeAction::Deleted, old, Vec::new()),
        (None, Some(new)) => {
            let new_fields = ids.canonical(comparable(with_assigned(new.clone()), window));
            (ChangeAction::Created, new, differing_fields(key, &json!({}), &new_fields, window))
        }
        (Some(old), Some(new)) => {
            let fields = [old, new].map(|object| ids.canonical(comparable(object.clone(), window)));
            let fields = differing_fields(key, &fields[0], &fields[1], window);
            let is_replaced = old["metadata"]["uid"] != new["metadata"]["uid"];
            let is_marked = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
            let action = match (is_replaced, is_marked(new) && !is_marked(old)) {
                (true, _) => ChangeAction::Replaced,
                (false, true) => ChangeAction::Deleted,
                (false, false) if fields.is_empty() => return None,
                (false, false) => ChangeAction::Changed,
            };
            (action, new, fields)
        }
    };
    Some(describe_change(action, shown, new, fields, ids))
}

fn describe_change(
    action: ChangeAction,
    shown: &Value,
    new: Option<&Value>,
    mut fields: Vec<FieldChange>,
    ids: &NewIdentities,
) -> ObjectChange {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut waits_for = Vec::new();
    if action == ChangeAction::Deleted
        && let Some(left) = new
    {
        fields.retain(|field| !field.path.starts_with("metadata.deletion"));
        waits_for = left["metadata"]["finalizers"].as_array().into_iter().flatten().map(text).collect();
        if waits_for.is_empty() {
            waits_for.push("its node".to_owned());
        }
    }
    // For a new object, these fields add nothing to its name.
    if matches!(action, ChangeAction::Created) {
        let is_identity = |path: &str| {
            matches!(
                path,
                "apiVersion" | "kind" | "metadata.name" | "metadata.namespace" | "metadata.generateName"
            )
        };
        fields.retain(|field| !is_identity(&field.path));
    }
    let metadata = &shown["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let mut owner = owners.filter(|owner| owner["controller"] == true);
    let name = text(&metadata["name"]);
    ObjectChange {
        action,
        api_version: text(&shown["apiVersion"]),
        kind: text(&shown["kind"]),
        namespace: metadata["namespace"].as_str().map(ToOwned::to_owned),
        name: ids.exact.get(&name).cloned().unwrap_or(name),
        owner: owner.next().map(|owner| format!("{} {}", text(&owner["kind"]), text(&owner["name"]))),
        fields,
        waits_for,
    }
}

/// Compares two states of an object, leaving out timestamps that say "now".
fn differing_fields(key: &Key, old: &Value, new: &Value, window: ComparedWindow) -> Vec<FieldChange> {
    let mut changes = FieldDiff::complete(key, old, new).changes;
    changes.retain(|change| !says_now(change, window));
    changes
}

fn says_now(change: &FieldChange, window: ComparedWindow) -> bool {
    let last = change.path.rsplit(['.', '[']).next().unwrap_or_default().trim_end_matches(']');
    let FieldValue::Shown(text) = &change.new else { return false };
    let is_time = last.ends_with("Time") || last.ends_with("Timestamp");
    is_time && text.trim_matches('"').parse().is_ok_and(|time: Timestamp| window.contains(time))
}

/// Returns the object without annotations that repeat it, and with a placeholder for every time in an annotation that
/// says "now".
fn comparable(mut object: Value, window: ComparedWindow) -> Value {
    if let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !REPEATING.contains(&name.as_str()));
        for value in annotations.values_mut() {
            if let Value::String(text) = value {
                *text = now_replaced(text, window);
            }
        }
    }
    object
}

/// Replaces the times within a string that say "now".
fn now_replaced(text: &str, window: ComparedWindow) -> String {
    /// Placeholder for a time that says "now".
    const NOW: &str = "<now>";
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(end) = rest.find('Z') {
        let (head, tail) = rest.split_at(end + 1);
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | ':' | '.' | 'T' | 'Z');
        let start = head
            .rfind(|letter: char| !is_part(letter))
            .map_or(0, |last| last + head[last..].chars().next().map_or(0, char::len_utf8));
        let is_now = head[start..].parse().is_ok_and(|time: Timestamp| window.contains(time));
        replaced.push_str(&head[..start]);
        replaced.push_str(if is_now { NOW } else { &head[start..] });
        rest = tail;
    }
    replaced + rest
}

/// Returns a new object with a placeholder for every address and port that the server has assigned.
fn with_assigned(mut object: Value) -> Value {
    if object["kind"] != "Service" || object["apiVersion"] != "v1" {
        return object;
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let is_assigned = spec.get("clusterIP").is_some_and(|address| *address != "None" && *address != "");
        if is_assigned {
            spec.insert("clusterIP".to_owned(), ASSIGNED.into());
            spec.insert("clusterIPs".to_owned(), json!([ASSIGNED]));
        }
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for port in ports.filter_map(Value::as_object_mut).filter(|port| port.contains_key("nodePort")) {
            port.insert("nodePort".to_owned(), ASSIGNED.into());
        }
    }
    object
}

/// The uids and generated names of new objects, which would differ in another run.
struct NewIdentities {
    exact: BTreeMap<String, String>,
    is_searched: bool,
}

impl NewIdentities {
    fn new<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut exact = BTreeMap::new();
        for object in objects {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            let mut name = text("name").to_owned();
            let stem = text("generateName");
            if !stem.is_empty() && name.starts_with(stem) {
                let shown = format!("{stem}{RANDOM}");
                exact.insert(std::mem::replace(&mut name, shown.clone()), shown);
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            exact.insert(text("uid").to_owned(), format!("<uid of {kind} {name}>"));
        }
        exact.remove("");
        Self { is_searched: exact.len() <= SEARCHED_MAX, exact }
    }

    /// Returns the value with these replaced by placeholders.
    fn canonical(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.canonical_text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.canonical(item)).collect(),
            Value::Object(fields) => {
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (self.canonical_text(name), self.canonical(value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn canonical_text(&self, text: String) -> String {
        /// The name prefix of volumes that hold a service account token.
        const TOKEN_VOLUME: &str = "kube-api-access-";
        if let Some(placeholder) = self.exact.get(&text) {
            return placeholder.clone();
        }
        if text.starts_with(TOKEN_VOLUME) {
            return format!("{TOKEN_VOLUME}{RANDOM}");
        }
        if !self.is_searched {
            return text;
        }
        self.exact.iter().fold(text, |text, (id, placeholder)| {
            if text.contains(id.as_str()) { text.replace(id.as_str(), placeholder) } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> ComparedWindow {
        let from = "2027-01-15T08:00:00Z".parse().unwrap();
        ComparedWindow { from, to: from + SignedDuration::from_secs(10) }
    }

    fn object(kind: &str, name: &str, uid: &str, rest: &Value) -> (Key, Value) {
        let mut object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": "default", "uid": uid}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            match (field.as_str(), value.as_object()) {
                ("metadata", Some(more)) => {
                    object["metadata"].as_object_mut().unwrap().extend(more.clone());
                }
                _ => object[field] = value.clone(),
            }
        }
        (Key::new("", &format!("{}s", kind.to_lowercase()), "default", name), object)
    }

    #[track_caller]
    fn check(before: &[(Key, Value)], after: &[(Key, Value)], expected: &[&str]) {
        let changes = compare_states(before, after, window());
        let lines: Vec<String> = changes
            .iter()
            .map(|change| {
                let fields: Vec<String> = change.fields.iter().map(ToString::to_string).collect();
                format!("{:?} {} {}: {}", change.action, change.kind, change.name, fields.join(", "))
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn objects_are_created_changed_deleted_and_replaced() {
        let map =
            |name: &str, uid: &str, data: &str| object("ConfigMap", name, uid, &json!({"data": {"k": data}}));
        let before = [map("a", "1", "x"), map("b", "2", "x"), map("c", "3", "x"), map("d", "4", "x")];
        let after = [map("b", "2", "y"), map("c", "3", "x"), map("d", "5", "z"), map("e", "6", "x")];
        check(
            &before,
            &after,
            &[
                "Deleted ConfigMap a: ",
                "Changed ConfigMap b: data.k \"x\" → \"y\"",
                "Replaced ConfigMap d: data.k \"x\" → \"z\"",
                "Created ConfigMap e: data.k = \"x\"",
            ],
        );
    }

    #[test]
    fn what_time_and_chance_decide_is_no_difference() {
        let pod = |time: &str, version: &str| {
            object(
                "Pod",
                "p",
                "1",
                &json!({"metadata": {"resourceVersion": version, "managedFields": [version]},
                "status": {"conditions": [{"type": "Ready", "lastTransitionTime": time}]}}),
            )
        };
        check(&[pod("2020-01-01T00:00:00Z", "1")], &[pod("2027-01-15T08:00:05Z", "2")], &[]);
        let change = "Changed Pod p: status.conditions[Ready].lastTransitionTime \"2020-01-01T00:00:00Z\" → \
                      \"2021-01-01T00:00:00Z\"";
        check(&[pod("2020-01-01T00:00:00Z", "1")], &[pod("2021-01-01T00:00:00Z", "2")], &[change]);
        let random = object("Pod", "web-x7k2p", "9", &json!({"metadata": {"generateName": "web-"}}));
        let named = object("ConfigMap", "m", "2", &json!({"data": {"pod": "web-x7k2p", "note": "uid 9!"}}));
        check(
            &[],
            &[random, named],
            &[
                "Created ConfigMap m: data.note = \"uid <uid of Pod web-<random>>!\", data.pod = \"web-<random>\"",
                "Created Pod web-<random>: ",
            ],
        );
        let events = object("Event", "e", "3", &json!({}));
        check(&[], &[events], &[]);
    }

    #[test]
    fn times_in_annotations_may_say_now() {
        let check = |text: &str, expected: &str| assert_eq!(now_replaced(text, window()), expected);
        check("{\"ä\":\"2027-01-15T08:00:04.6Z\"}", "{\"ä\":\"<now>\"}");
        check("2027-01-15T08:00:04Z and 2026-01-15T08:00:04Z", "<now> and 2026-01-15T08:00:04Z");
        check("Zebra ZZ ä", "Zebra ZZ ä");
    }

    #[test]
    fn a_deletion_that_waits_is_a_deletion() {
        let meta = |more: Value| object("Pod", "p", "1", &json!({"metadata": more}));
        let marked = json!({"deletionTimestamp": "2027-01-15T08:00:05Z", "deletionGracePeriodSeconds": 30,
                            "finalizers": ["demo.dev/keep"]});
        let changes =
            compare_states(&[meta(json!({"finalizers": ["demo.dev/keep"]}))], &[meta(marked)], window());
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].action, ChangeAction::Deleted);
        assert_eq!((changes[0].fields.len(), &*changes[0].waits_for[0]), (0, "demo.dev/keep"));
    }

    #[test]
    fn addresses_that_the_server_assigns_are_not_predicted() {
        let spec = json!({"spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80, "nodePort": 30000}]}});
        let expected = "Created Service s: spec.clusterIP = \"<assigned>\", spec.clusterIPs = [\"<assigned>\"], \
                        spec.ports[0].nodePort = \"<assigned>\", spec.ports[0].port = 80";
        check(&[], &[object("Service", "s", "1", &spec)], &[expected]);
    }
}
