//! Strategic merge patches of built-in objects: an empty one changes nothing, one without lists and directives is a
//! merge patch, and one without directives can be applied twice.
//!
//! Input: `{"object": object of a built-in kind, "patch": any}`.

use homeostat_api::patch::strategic;
use homeostat_api::schema;
use serde_json::{Value, json};

use super::BuiltInKinds;
use super::merge_patch::{merged, shape};
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require_equal};

pub(crate) struct StrategicPatches(BuiltInKinds);

impl StrategicPatches {
    pub(crate) fn new() -> Self {
        Self(BuiltInKinds::new())
    }
}

impl Target for StrategicPatches {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let objects: Vec<_> = ["Pod", "Deployment", "Service", "ConfigMap"]
            .iter()
            .flat_map(|kind| corpus.objects_of(kind))
            .collect();
        let pairs = corpus.strategic_patches.iter().chain(&corpus.merge_patches).zip(objects.iter().cycle());
        pairs.map(|(patch, object)| json!({"object": object, "patch": patch})).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "$patch",
            "replace",
            "merge",
            "delete",
            "$retainKeys",
            "$setElementOrder/containers",
            "$setElementOrder/ports",
            "$deleteFromPrimitiveList/finalizers",
            "containers",
            "name",
            "ports",
            "containerPort",
            "env",
            "volumes",
            "spec",
            "metadata",
            "finalizers",
            "template",
            "image",
            "labels",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (mut object, patch) = (input["object"].clone(), &input["patch"]);
        let Some(row) = self.0.row_of(&object) else { return Ok(vec!["no kind".to_owned()]) };
        let schema = row.schema().expect("built-in kinds have schemas");
        schema::prune(&schema, &mut object, None);
        if let Err(why) = schema::decode(&schema, &mut object) {
            return Ok(vec![why]);
        }
        let apply = |object: &Value, patch: &Value| {
            let mut patched = object.clone();
            strategic::apply(&mut patched, patch, &schema).map(|()| patched).map_err(|status| status.message)
        };
        require_equal("an empty patch", &apply(&object, &json!({})), &Ok(object.clone()))?;
        let patched = match apply(&object, patch) {
            Ok(patched) => patched,
            Err(why) => return Ok(vec![why]),
        };
        require_equal("the same patch", &apply(&object, patch), &Ok(patched.clone()))?;
        if patch.is_object() && !has_list_or_directive(patch) {
            require_equal("a patch without lists", &patched, &merged(Some(&object), patch))?;
            require_equal("a patch applied twice", &apply(&patched, patch), &Ok(patched.clone()))?;
        }
        Ok(vec![format!("{} {}", row.kind, shape(patch, 0)), format!("{} {}", row.kind, directives(patch))])
    }
}

fn has_list_or_directive(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name.starts_with('$') || has_list_or_directive(field))
        }
        _ => false,
    }
}

fn directives(patch: &Value) -> String {
    match patch {
        Value::Array(items) => items.iter().take(3).map(directives).collect(),
        Value::Object(fields) => {
            let below = fields.iter().map(|(name, field)| {
                let own = if name.starts_with('$') { name.as_str() } else { "" };
                format!("{own}{}", directives(field))
            });
            below.collect()
        }
        _ => String::new(),
    }
}
