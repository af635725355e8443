//! Who owns the replicas, seen from a Scale and from the object it scales.
//!
//! **Invariant:** only ownership of the replicas passes between the two; all else in the object's entries stays. As in
//! Kubernetes, an entry that came through the Scale has no time.

use serde_json::Value;

use super::element;
use super::managers::{self, Entry};
use super::set;

/// The version in which a Scale is written.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the replicas are, by `apiVersion` of the scaled kind, as a dotted path. A version with an empty path has no
/// Scale.
pub type Replicas<'a> = [(&'a str, &'a str)];

/// The managedFields of the Scale, from those of the object it scales.
pub fn to_scale(parent: &Value, replicas: &Replicas<'_>) -> Option<Value> {
    let owners = managers::stored(parent.clone()).into_iter().filter(|entry| {
        path_of(replicas, &entry.api_version).is_some_and(|path| set::has(&entry.fields, &path))
    });
    let entries = owners.map(|entry| Entry {
        api_version: SCALE_VERSION.to_owned(),
        fields: set::of_path(&steps("spec.replicas")),
        ..entry
    });
    managers::encode(entries.collect())
}

/// The managedFields of the object after a write through its Scale, whose own are `scale`.
pub fn to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    replicas: &Replicas<'_>,
) -> Option<Value> {
    let read = |list: Option<&Value>| list.cloned().map(managers::stored).unwrap_or_default();
    let mut owners = read(scale);
    let mut entries = Vec::new();
    for mut entry in read(parent) {
        let Some(path) = path_of(replicas, &entry.api_version) else { continue };
        if set::has(&entry.fields, &path) {
            match owners.iter().position(|owner| is_same_owner(owner, &entry)) {
                Some(at) => drop(owners.remove(at)),
                None => set::subtract(&mut entry.fields, &set::of_path(&path)),
            }
        }
        entries.push(entry);
    }
    let path = path_of(replicas, api_version).unwrap_or_default();
    let in_scale = steps("spec.replicas");
    let new_owners = owners.into_iter().filter(|owner| set::has(&owner.fields, &in_scale));
    entries.extend(new_owners.map(|owner| Entry {
        api_version: api_version.to_owned(),
        time: None,
        fields: set::of_path(&path),
        ..owner
    }));
    managers::encode(entries)
}

/// Is the owner in the Scale the one of this entry? An entry keeps its identity in the Scale but for the version.
fn is_same_owner(owner: &Entry, entry: &Entry) -> bool {
    owner.manager == entry.manager
        && owner.operation == entry.operation
        && owner.subresource == entry.subresource
}

/// The steps to the replicas, none where there is no Scale; `None`: the version is not known.
fn path_of(replicas: &Replicas<'_>, api_version: &str) -> Option<Vec<String>> {
    replicas.iter().find(|(version, _)| *version == api_version).map(|(_, path)| steps(path))
}

fn steps(dotted: &str) -> Vec<String> {
    dotted.split('.').filter(|name| !name.is_empty()).map(element::field).collect()
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;

    const REPLICAS: &Replicas<'static> = &[("apps/v1", ".spec.replicas"), ("old/v1", "")];

    fn entry(manager: &str, api_version: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": api_version, "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    #[test]
    fn a_scale_shows_the_owners_of_the_replicas() {
        let owns = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let parent = json!([
            entry("a", "apps/v1", "", owns.clone()),
            entry("b", "apps/v1", "", json!({"f:spec": {"f:paused": {}}})),
            entry("c", "gone/v1", "", owns.clone()),
            entry("d", "old/v1", "", owns),
        ]);
        let expected = json!([entry("a", "autoscaling/v1", "", json!({"f:spec": {"f:replicas": {}}}))]);
        assert_eq!(to_scale(&parent, REPLICAS), Some(expected));
    }

    #[test]
    fn a_write_through_the_scale_takes_the_replicas() {
        let parent = json!([
            entry("a", "apps/v1", "", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})),
            entry("c", "gone/v1", "", json!({"f:spec": {"f:replicas": {}}})),
        ]);
        let scale = json!([entry("b", "autoscaling/v1", "scale", json!({"f:spec": {"f:replicas": {}}}))]);
        let mut taken = entry("b", "apps/v1", "scale", json!({"f:spec": {"f:replicas": {}}}));
        taken.as_object_mut().expect("an entry").remove("time");
        let expected = json!([taken, entry("a", "apps/v1", "", json!({"f:spec": {"f:paused": {}}}))]);
        assert_eq!(to_parent(Some(&parent), Some(&scale), "apps/v1", REPLICAS), Some(expected));
    }

    #[test]
    fn a_write_that_changes_no_replicas_changes_no_owner() {
        let parent =
            json!([entry("a", "apps/v1", "", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}))]);
        let scale = to_scale(&parent, REPLICAS);
        assert_eq!(to_parent(Some(&parent), scale.as_ref(), "apps/v1", REPLICAS), Some(parent));
    }
}
