//! JSON merge patches: the result follows RFC 7386, with the one deviation of kube-apiserver's library.
//!
//! Input: `{"object": any, "patch": any}`.

use homeostat_api::patch::merge;
use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

pub(crate) struct MergePatches;

impl Target for MergePatches {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        seeds_of(corpus, &corpus.merge_patches)
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (object, patch) = (&input["object"], &input["patch"]);
        let mut unchanged = object.clone();
        merge::apply(&mut unchanged, &json!({})).map_err(|status| status.message)?;
        if object.is_object() {
            require_equal("an empty patch", &unchanged, object)?;
        }
        let mut patched = object.clone();
        if let Err(status) = merge::apply(&mut patched, patch) {
            require(!patch.is_object(), || format!("an object is a patch: {}", status.message))?;
            return Ok(vec![status.message]);
        }
        require_equal("a merge patch", &patched, &merged(Some(object), patch))?;
        let mut again = patched.clone();
        merge::apply(&mut again, patch).map_err(|status| status.message)?;
        // Like kube-apiserver's library, this keeps nulls in a list that replaces an object, and removes them if the
        // list replaces anything else, so the second application may differ from the first.
        require_equal("a merge patch applied twice", &again, &merged(Some(&patched), patch))?;
        Ok(vec![shape(patch, 0), shape(object, 2)])
    }
}

/// Returns pairs of objects and patches.
pub(super) fn seeds_of(corpus: &Corpus, patches: &[Value]) -> Vec<Value> {
    let objects: Vec<_> = corpus.objects.iter().step_by(7).collect();
    let pairs = patches.iter().zip(objects.iter().cycle());
    pairs.map(|(patch, object)| json!({"object": object, "patch": patch})).collect()
}

/// Follows the pseudocode of the RFC. Lists are values, except that objects inside new lists lose their nulls.
pub(super) fn merged(target: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        let replaces_object = target.is_some_and(Value::is_object);
        return if replaces_object { patch.clone() } else { cleaned(patch) };
    };
    let mut result = target.and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, change) in changes {
        let before = result.remove(name);
        if !change.is_null() {
            result.insert(name.clone(), merged(before.as_ref(), change));
        }
    }
    Value::Object(result)
}

fn cleaned(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(cleaned).collect(),
        Value::Object(_) => merged(None, value),
        scalar => scalar.clone(),
    }
}

/// Describes the upper levels of a value by the types of its parts.
pub(super) fn shape(value: &Value, level: usize) -> String {
    match value {
        Value::Null => "n".to_owned(),
        Value::Bool(_) => "b".to_owned(),
        Value::Number(_) => "i".to_owned(),
        Value::String(_) => "s".to_owned(),
        Value::Array(items) if level < 4 => {
            format!("[{}]", items.iter().take(3).map(|item| shape(item, level + 1)).collect::<String>())
        }
        Value::Object(fields) if level < 4 => {
            let mut parts: Vec<_> = fields.values().map(|field| shape(field, level + 1)).collect();
            parts.sort_unstable();
            parts.dedup();
            format!("{{{}}}", parts.concat())
        }
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
    }
}
