//! Represents the planned change: the objects from some files, to be applied or deleted.

use serde_json::Value;

use super::error::PlanError;

/// The objects to apply or to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The objects, in the order of the files.
    pub(super) objects: Vec<Value>,
    pub(super) is_delete: bool,
}

impl Change {
    /// Creates a change that applies these objects, as `kubectl apply` does.
    pub fn apply(objects: Vec<Value>) -> Self {
        Self { objects, is_delete: false }
    }

    /// Creates a change that deletes these objects; kind, name and namespace suffice.
    pub fn delete(objects: Vec<Value>) -> Self {
        Self { objects, is_delete: true }
    }

    /// Parses the objects in a string of YAML or JSON documents. The items of a `List` are separate objects.
    ///
    /// # Errors
    /// Returns which part of `source` cannot be read, or what an object lacks.
    pub fn parse(source: &str, text: &str) -> Result<Vec<Value>, PlanError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| PlanError::Change(format!("{source} is not valid YAML: {error}")))?;
        let mut objects = Vec::new();
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            match document {
                Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                    if let Some(Value::Array(items)) = list.remove("items") {
                        objects.extend(items);
                    }
                }
                other => objects.push(other),
            }
        }
        for object in &objects {
            check_identity(object).map_err(|lack| PlanError::Change(format!("{source}: {lack}")))?;
        }
        if objects.is_empty() {
            return Err(PlanError::Change(format!("{source} contains no object")));
        }
        Ok(objects)
    }

    /// Returns the same change, with this namespace for objects that have none. Objects of cluster-scoped kinds lose it
    /// again when they are applied.
    pub(super) fn in_namespace(mut self, namespace: &str) -> Self {
        for object in &mut self.objects {
            let namespace_given = &object["metadata"]["namespace"];
            if (namespace_given.is_null() || *namespace_given == "")
                && let Some(metadata) = object["metadata"].as_object_mut()
            {
                metadata.insert("namespace".to_owned(), namespace.into());
            }
        }
        self
    }
}

fn check_identity(object: &Value) -> Result<(), String> {
    let has = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if !has(&object["apiVersion"]) || !has(&object["kind"]) {
        return Err(format!("an object has no apiVersion or no kind: {}", beginning(object)));
    }
    if !has(&object["metadata"]["name"]) {
        let kind = object["kind"].as_str().unwrap_or_default();
        return Err(format!("an object of kind {kind} has no metadata.name: {}", beginning(object)));
    }
    Ok(())
}

fn beginning(object: &Value) -> String {
    const LETTERS_MAX: usize = 60;
    let text = object.to_string();
    let end = text.char_indices().nth(LETTERS_MAX).map_or(text.len(), |(end, _)| end);
    text[..end].to_owned()
}

/// Returns `Deployment default/web`, without the namespace if there is none.
pub(super) fn describe_object(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    match text(&object["metadata"]["namespace"]) {
        namespace if namespace.is_empty() => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_and_lists_are_objects_one_by_one() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Secret, metadata: {name: b, namespace: shop}}\n";
        let objects = Change::parse("f", text).unwrap();
        let change = Change::apply(objects).in_namespace("default");
        let names: Vec<String> = change.objects.iter().map(describe_object).collect();
        assert_eq!(names, ["ConfigMap default/a", "Secret shop/b"]);
        let json = Change::parse(
            "f",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}).to_string(),
        );
        assert_eq!(json.unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_an_object_is_named() {
        let refusal = |text: &str| Change::parse("f.yaml", text).unwrap_err().to_string();
        assert!(refusal("a: [").starts_with("f.yaml is not valid YAML: "), "{}", refusal("a: ["));
        assert_eq!(refusal("---\n"), "f.yaml contains no object");
        assert_eq!(
            refusal("kind: Pod"),
            "f.yaml: an object has no apiVersion or no kind: {\"kind\":\"Pod\"}"
        );
        let nameless = refusal("{apiVersion: v1, kind: Pod, metadata: {generateName: a}}");
        assert!(nameless.starts_with("f.yaml: an object of kind Pod has no metadata.name: "), "{nameless}");
    }
}
