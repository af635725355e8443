//! CRD schemas: every accepted schema can prune, default and validate any object, and a second pass changes nothing.
//!
//! Input: `{"schema": an openAPIV3Schema, "object": any, "old": any}`.

use homeostat_api::schema::{
    CelRules, cel_rule_errors, custom, decode_embedded, decode_metadata, default, default_definition,
    drop_nulls, prune, validate, validate_definition,
};
use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

pub(crate) struct CrdSchemas;

impl Target for CrdSchemas {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let mut seeds = Vec::new();
        for definition in corpus.objects_of("CustomResourceDefinition") {
            for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
                let schema = &version["schema"]["openAPIV3Schema"];
                let objects =
                    corpus.objects_of(definition["spec"]["names"]["kind"].as_str().unwrap_or_default());
                let objects = objects.take(5).chain(std::iter::once(&Value::Null));
                seeds
                    .extend(objects.map(|object| json!({"schema": schema, "object": object, "old": object})));
            }
        }
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "type",
            "object",
            "array",
            "string",
            "integer",
            "number",
            "boolean",
            "properties",
            "items",
            "default",
            "nullable",
            "additionalProperties",
            "required",
            "enum",
            "pattern",
            "^a+$",
            "maxLength",
            "minLength",
            "maximum",
            "minimum",
            "exclusiveMaximum",
            "multipleOf",
            "maxItems",
            "minItems",
            "uniqueItems",
            "maxProperties",
            "format",
            "date-time",
            "int-or-string",
            "byte",
            "ipv4",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "x-kubernetes-list-type",
            "map",
            "set",
            "x-kubernetes-list-map-keys",
            "name",
            "anyOf",
            "allOf",
            "oneOf",
            "not",
            "x-kubernetes-validations",
            "rule",
            "self.a == oldSelf.a",
            "message",
            "spec",
            "a",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.demo.dev"}, "spec": {"group": "demo.dev", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": input["schema"]}}]}});
        default_definition(&mut definition);
        let mut errors = validate_definition(&definition, None);
        if errors.is_empty() {
            errors = cel_rule_errors(&definition, None);
        }
        if !errors.is_empty() {
            return Ok(errors.iter().take(4).map(|error| format!("refused {}", error.body)).collect());
        }
        check_object(&input["schema"], &input["object"], &input["old"])
    }
}

/// Prunes, defaults and validates an object as a write does, twice.
fn check_object(json: &Value, object: &Value, old: &Value) -> Result<Features, Violation> {
    let schema = custom(json);
    let normalize = |object: &Value| {
        let mut object = object.clone();
        prune(&schema, &mut object, None);
        decode_metadata(&mut object)?;
        decode_embedded(&schema, &mut object)?;
        drop_nulls(&schema, &mut object);
        default(&schema, &mut object).map_err(|_| "too large".to_owned())?;
        Ok::<_, String>(object)
    };
    let object = match normalize(object) {
        Ok(object) => object,
        Err(why) => return Ok(vec![why]),
    };
    require_equal("pruned and defaulted twice", &normalize(&object), &Ok(object.clone()))?;
    let mut errors = validate(&schema, &object, None);
    let again = validate(&schema, &object, None);
    require_equal("validated twice", &format!("{errors:?}"), &format!("{again:?}"))?;
    validate(&schema, &object, Some(old));
    let kept = validate(&schema, &object, Some(&object));
    require(errors.is_empty() <= kept.is_empty(), || format!("an update without a change: {kept:?}"))?;
    if let Some(rules) = CelRules::compile(json) {
        let found = rules.validate(&object, Some(&object));
        require_equal(
            "rules evaluated twice",
            &format!("{found:?}"),
            &format!("{:?}", rules.validate(&object, Some(&object))),
        )?;
        rules.validate_after(&mut errors, &object, None);
    }
    let bodies = errors.iter().take(4).map(|error| format!("{:?} {}", error.kind, error.body));
    Ok(bodies.chain([super::merge_patch::shape(json, 0)]).collect())
}
