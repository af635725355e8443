//! Writes discovery documents with their fields in the order of Go's types: some scripts search the text.

use serde::Serialize;
use serde_json::Value;

use crate::ordered::{FieldOrder, OrderedJson};

/// Returns the document in a form that serializes in the order of Go's types.
pub(super) fn in_field_order(document: &Value) -> impl Serialize {
    OrderedJson(document, &DOCUMENT)
}

/// The order of a whole document: its kind comes first; a resource's kind comes after its name.
static DOCUMENT: FieldOrder = FieldOrder {
    names: &[
        "kind",
        "apiVersion",
        "metadata",
        "items",
        "groupVersion",
        "name",
        "versions",
        "preferredVersion",
    ],
    inside: &[],
    below: Some(&PART),
};

static PART: FieldOrder = FieldOrder { names: &ORDER, inside: &[], below: None };

/// The fields of all parts, in an order that is compatible with each Go type.
const ORDER: [&str; 27] = [
    "metadata",
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(document: &Value, expected: &str) {
        assert_eq!(serde_json::to_string(&in_field_order(document)).expect("JSON can be written"), expected);
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
