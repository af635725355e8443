//! Discovery documents as Go writes them: fields in the order of its types. Some scripts look for the text.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

/// The fields of all these types, in an order that agrees with each of them.
const ORDER: [&str; 29] = [
    "apiVersion",
    "metadata",
    "items",
    "groupVersion",
    "name",
    "singularName",
    "namespaced",
    "group",
    "version",
    "kind",
    "resource",
    "subresource",
    "responseKind",
    "scope",
    "singularResource",
    "verbs",
    "shortNames",
    "categories",
    "subresources",
    "storageVersionHash",
    "resources",
    "freshness",
    "versions",
    "preferredVersion",
    "groups",
    "serverAddressByClientCIDRs",
    "clientCIDR",
    "serverAddress",
    "paths",
];

/// A whole document. Its kind comes first; that of a resource comes after its name.
pub(super) struct Written<'a>(pub(super) &'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, true, serializer)
    }
}

/// A part of one.
struct Part<'a>(&'a Value);

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.0, false, serializer)
    }
}

fn write<S: Serializer>(value: &Value, is_whole: bool, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Value::Object(fields) => {
            let mut fields = fields.iter().collect::<Vec<_>>();
            fields.sort_by_key(|(name, _)| (!(is_whole && *name == "kind"), rank(name)));
            let mut map = serializer.serialize_map(Some(fields.len()))?;
            for (name, value) in fields {
                map.serialize_entry(name, &Part(value))?;
            }
            map.end()
        }
        Value::Array(items) => serializer.collect_seq(items.iter().map(Part)),
        scalar => scalar.serialize(serializer),
    }
}

fn rank(name: &str) -> usize {
    ORDER.iter().position(|one| *one == name).unwrap_or(ORDER.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(document: &Value, expected: &str) {
        assert_eq!(serde_json::to_string(&Written(document)).expect("JSON can be written"), expected);
    }

    #[test]
    fn fields_stand_in_the_order_of_gos_types() {
        check(
            &json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods",
                "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get"], "shortNames": ["po"],
                "categories": ["all"], "storageVersionHash": "x"}]}),
            concat!(
                r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","#,
                r#""namespaced":true,"kind":"Pod","verbs":["get"],"shortNames":["po"],"categories":["all"],"#,
                r#""storageVersionHash":"x"}]}"#
            ),
        );
        check(
            &json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "preferredVersion": {"groupVersion":
                "apps/v1", "version": "v1"}, "versions": []}),
            concat!(
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[],"#,
                r#""preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#
            ),
        );
    }

    #[test]
    fn an_aggregated_document_too() {
        check(
            &json!({"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current",
                "resources": [{"resource": "d", "responseKind": {"group": "", "version": "", "kind": "D"},
                    "scope": "Namespaced", "singularResource": "d", "verbs": ["get"]}]}]}),
            concat!(
                r#"{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[{"resource":"d","#,
                r#""responseKind":{"group":"","version":"","kind":"D"},"scope":"Namespaced","singularResource":"d","#,
                r#""verbs":["get"]}],"freshness":"Current"}]}"#
            ),
        );
    }
}
