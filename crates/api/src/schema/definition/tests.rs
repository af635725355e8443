//! Tests CRDs as users write them: each row is a definition and the fields for which it is rejected.

use super::*;

fn definition(version: &Value) -> Value {
    json!({"metadata": {"name": "widgets.oracle.test"}, "spec": {"group": "oracle.test", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"}, "versions": [version]}})
}

fn open() -> Value {
    json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
}

#[track_caller]
fn check_definition(mut given: Value, expected: &[&str]) {
    default_definition(&mut given);
    let found: Vec<_> = validate_definition(&given, None).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for error_text in expected {
        assert!(found.iter().any(|one| one.starts_with(error_text)), "{error_text} is not among {found:#?}");
    }
}

/// Changes one field of a valid definition.
#[track_caller]
fn check_spec(path: &[&str], value: Value, expected: &[&str]) {
    let mut given = definition(&open());
    let mut place = &mut given;
    for name in path {
        place = &mut place[*name];
    }
    *place = value;
    check_definition(given, expected);
}

#[track_caller]
fn check_version(fields: &Value, expected: &[&str]) {
    let mut version = open();
    for (name, value) in fields.as_object().expect("fields of a version") {
        version[name] = value.clone();
    }
    check_definition(definition(&version), expected);
}

/// Checks a schema for `spec`; errors are about `spec.validation.openAPIV3Schema.properties[spec]`.
#[track_caller]
fn check_schema(spec: &Value, expected: &[&str]) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let start = "spec.validation.openAPIV3Schema.properties[spec].";
    let expected: Vec<_> = expected.iter().map(|one| format!("{start}{one}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check_version(&json!({"schema": schema}), &expected);
}

#[test]
fn names_fit_together() {
    let label = "a DNS-1035 label must consist";
    check_spec(
        &["metadata", "name"],
        json!("other.oracle.test"),
        &[r#"metadata.name: Invalid value: "other.oracle.test": must be spec.names.plural+"."+spec.group"#],
    );
    check_spec(&["spec", "names", "kind"], json!("lowercase"), &[]);
    check_spec(
        &["spec", "scope"],
        json!("Galactic"),
        &[r#"spec.scope: Unsupported value: "Galactic": supported values: "Cluster", "Namespaced""#],
    );
    check_spec(
        &["spec", "names", "shortNames"],
        json!(["Bad Short"]),
        &[&format!("spec.names.shortNames[0]: Invalid value: \"Bad Short\": {label}")],
    );
    check_spec(
        &["spec", "versions"],
        json!([]),
        &[
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    );
    check_spec(
        &["spec", "preserveUnknownFields"],
        json!(true),
        &["spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve"],
    );
    check_version(
        &json!({"name": "V1"}),
        &[
            &format!("spec.versions[0].name: Invalid value: \"V1\": {label}"),
            &format!("spec.version: Invalid value: \"V1\": {label}"),
        ],
    );
    check_version(&json!({"schema": null}), &["spec.versions[0].schema.openAPIV3Schema: Required value"]);
}

#[test]
fn groups_are_domains_and_some_are_protected() {
    let grouped = |group: &str| {
        let mut given = definition(&open());
        given["spec"]["group"] = group.into();
        given["metadata"]["name"] = format!("widgets.{group}").into();
        given
    };
    check_definition(
        grouped("nodots"),
        &["spec.group: Invalid value: \"nodots\": should be a domain with at least one dot"],
    );
    check_definition(
        grouped("x.k8s.io"),
        &[
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https",
        ],
    );
    let mut approved = grouped("x.k8s.io");
    approved["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, test-only"});
    check_definition(approved, &[]);
}

#[test]
fn schemas_are_structural() {
    check_version(
        &json!({"schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "string"}}}}}),
        &["spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"],
    );
    check_schema(
        &json!({"properties": {"a": {"type": "string"}}}),
        &["type: Required value: must not be empty for specified object fields"],
    );
    check_schema(&json!({"type": "array"}), &["items: Required value: must be specified"]);
    check_schema(
        &json!({"type": "banana"}),
        &[
            r#"type: Unsupported value: "banana": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check_schema(
        &json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        &["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    );
    check_schema(
        &json!({"type": "string", "pattern": "["}),
        &[
            "pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`",
        ],
    );
    check_schema(&json!({"$ref": "#/x"}), &["$ref: Forbidden: $ref is not supported"]);
    check_schema(
        &json!({"type": "object", "properties": {"a": {"type": "string"}},
            "allOf": [{"properties": {"b": {"type": "string"}}}]}),
        &["allOf[0].properties[b].type: Forbidden: must be empty to be structural"],
    );
    check_schema(
        &json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        &[],
    );
    let metadata = json!({"type": "object", "properties": {"labels": {"type": "object",
        "additionalProperties": {"type": "string"}}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"metadata": metadata}}});
    check_version(
        &json!({"schema": schema}),
        &[
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name",
        ],
    );
}

#[test]
fn extensions_and_defaults_fit() {
    check_schema(
        &json!({"type": "string", "default": 5}),
        &[r#"default: Invalid value: "integer":  in body must be of type string: "integer""#],
    );
    check_schema(
        &json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "string"}}}),
        &[r#"default: Invalid value: {"b":1}: must not have unknown fields"#],
    );
    let whole = |default: Value| {
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "default": default,
            "x-kubernetes-preserve-unknown-fields": true})
    };
    check_schema(&whole(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}})), &[]);
    check_schema(&whole(json!({"kind": "Pod"})), &["default.apiVersion: Required value"]);
    check_schema(
        &whole(json!({"apiVersion": "v1", "kind": "Pod", "metadata": "x"})),
        &[r#"default.metadata: Invalid value: "x": json: cannot unmarshal string"#],
    );
    check_schema(
        &json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        &[
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check_schema(
        &json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
        &["items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys"],
    );
    check_schema(
        &json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
        &[r#"x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#],
    );
    let rule = |rule: &Value| {
        json!({"type": "object", "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [rule]})
    };
    check_schema(
        &rule(&json!({"rule": ""})),
        &["x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    );
    check_schema(
        &rule(&json!({"rule": "true", "reason": "Whatever"})),
        &[
            r#"x-kubernetes-validations[0].reason: Unsupported value: "Whatever": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
        ],
    );
    check_schema(
        &rule(&json!({"rule": "true", "fieldPath": ".zz"})),
        &[r#"x-kubernetes-validations[0].fieldPath: Invalid value: ".zz": must be a valid path"#],
    );
    check_schema(&rule(&json!({"rule": "true", "fieldPath": ".a"})), &[]);
}

#[test]
fn columns_scale_and_selectable_fields_are_paths() {
    let column = |column: Value| json!({"additionalPrinterColumns": [column]});
    check_version(
        &column(json!({"name": "X", "type": "banana", "jsonPath": ".spec.x"})),
        &[
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "banana": must be one of boolean,date,integer,number,string"#,
        ],
    );
    check_version(
        &column(json!({"name": "X", "type": "string", "jsonPath": "spec.x"})),
        &[
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.x": must be a simple json path starting with ."#,
        ],
    );
    check_version(&column(json!({"name": "X", "type": "string", "jsonPath": ".spec[?("})), &[]);
    check_version(
        &column(json!({"type": "string", "jsonPath": ".spec.x"})),
        &["spec.additionalPrinterColumns[0].name: Required value"],
    );
    check_version(
        &json!({"subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ""}}}),
        &[
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
            "spec.subresources.scale.statusReplicasPath: Required value",
        ],
    );
    let selectable = |paths: &[&str], expected: &[&str]| {
        let spec =
            json!({"type": "object", "properties": {"color": {"type": "string"}, "o": {"type": "object"}}});
        let fields: Vec<_> = paths.iter().map(|path| json!({"jsonPath": path})).collect();
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        check_version(&json!({"schema": schema, "selectableFields": fields}), expected);
    };
    let at = "spec.selectableFields[0].jsonPath: Invalid value: ";
    selectable(&[".spec.color"], &[]);
    selectable(
        &[".spec.nope"],
        &[&format!("{at}\".spec.nope\": is an invalid path: does not refer to a valid field")],
    );
    selectable(&[".spec.o"], &[&format!("{at}\".spec.o\": must point to a field of type string, boolean")]);
    selectable(
        &["spec.color"],
        &[&format!("{at}\"spec.color\": is an invalid path: expected [ or . but got: spec")],
    );
    selectable(
        &[".metadata.name"],
        &[&format!("{at}\".metadata.name\": is an invalid path: does not refer")],
    );
    selectable(
        &[".spec.color", ".spec.color"],
        &["spec.selectableFields[1].jsonPath: Duplicate value: \".spec.color\""],
    );
}

#[test]
fn differing_versions_are_reported_one_by_one() {
    let mut given = definition(&open());
    let mut second = open();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {}}});
    given["spec"]["versions"] = json!([open(), second]);
    check_definition(
        given,
        &[
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for",
        ],
    );
}

#[test]
fn defaults_are_filled_in() {
    let mut given = definition(&open());
    default_definition(&mut given);
    let names =
        json!({"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"});
    assert_eq!(given["spec"]["names"], names);
    assert_eq!(given["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(given["status"], json!({"storedVersions": ["v1"]}));
}

#[test]
fn an_update_may_not_change_what_objects_depend_on() {
    let mut old = definition(&open());
    default_definition(&mut old);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["kind"] = "Gadget".into();
    let found: Vec<_> = validate_definition(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            r#"spec.scope: Invalid value: "Cluster": field is immutable"#,
            r#"spec.names.kind: Invalid value: "Gadget": field is immutable"#,
        ]
    );
    new = old.clone();
    new["spec"]["versions"][0]["name"] = "v2".into();
    let found: Vec<_> = validate_definition(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert!(
        found
            .iter()
            .any(|one| one.starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from"))
    );
}

#[test]
fn formats_that_ask_for_nothing_are_told() {
    let with = |format: &str| {
        let spec = json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}});
        let mut version = open();
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": spec}});
        definition(&version)
    };
    assert_eq!(definition_warnings(&with("made-up"), None), ["unrecognized format \"made-up\""]);
    assert!(definition_warnings(&with("date-time"), None).is_empty());
    assert!(definition_warnings(&with("made-up"), Some(&with("made-up"))).is_empty());
}

#[test]
fn versions_have_a_number() {
    let version = |at: usize| {
        let mut version = open();
        (version["name"], version["storage"]) = (format!("v{at}").into(), (at == 0).into());
        version
    };
    let versions = |count: usize| (0..count).map(version).collect::<Value>();
    check_spec(&["spec", "versions"], versions(100), &[]);
    let refusal = "spec.versions: Too many: 4000: must have at most 100 items";
    check_spec(&["spec", "versions"], versions(4000), &[refusal]);
}
