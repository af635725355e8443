//! Finds the parameters of a policy: objects that a binding names or selects.

use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use homeostat_store::Entry;
use serde_json::Value;

use crate::admission::AdmissionRequest;
use crate::stored::convert;
use crate::stored::labels_and_owners::LabelsAndOwners;

/// The maximum stored size of all parameters that one selector may match: a few hundred large ones. A binding can
/// select objects in the request's namespace, and everyone who may create them adds to the cost of every write.
const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;

/// Returns the parameters to evaluate a policy with; null if it takes none.
pub(super) async fn parameters(
    request: &AdmissionRequest<'_>,
    policy: &Value,
    binding: &Value,
) -> Result<Vec<Value>, String> {
    let (kind, reference) = (&policy["spec"]["paramKind"], &binding["spec"]["paramRef"]);
    if kind.is_null() || reference.is_null() {
        return Ok(vec![Value::Null]);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, name) = (text(&kind["apiVersion"]), text(&kind["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let table = request.backend.registry.table();
    let resource = table
        .by_kind(group, version, &name)
        .ok_or_else(|| format!("paramKind kind `{api_version}, Kind={name}` not known"))?;
    let namespace = text(&reference["namespace"]);
    if !namespace.is_empty() && !resource.namespaced {
        return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
    }
    let namespace = if resource.namespaced && namespace.is_empty() {
        if request.namespace.is_empty() {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        request.namespace.to_owned()
    } else {
        namespace
    };
    let (snapshot, storage) = (request.snapshot(), resource.storage());
    let wanted = text(&reference["name"]);
    let selector = if !wanted.is_empty() {
        None
    } else if reference["selector"].is_object() {
        Some(LabelSelector::from_json(&reference["selector"]).map_err(|error| error.to_string())?)
    } else {
        return Err("one of name or selector must be provided".to_owned());
    };
    let prefix = if resource.namespaced { storage.prefix_in(&namespace) } else { storage.prefix() };
    let entries = match &selector {
        None => snapshot.get(&storage.key(&namespace, &wanted)).cloned().into_iter().collect::<Vec<_>>(),
        Some(selector) => select(snapshot.range(&prefix, ""), selector)?,
    };
    let entries = request.backend.conversions.entries(resource, entries, request.slot).await;
    let entries = entries.map_err(|status| status.message)?;
    let found = entries.iter().map(|entry| convert::decode_in_version(resource, entry)).collect::<Vec<_>>();
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

/// Returns the entries that the selector matches. Fails if they are too large to be parsed for every write.
fn select<'a>(
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Entry>>, String> {
    let (mut selected, mut bytes) = (Vec::new(), 0);
    for entry in entries {
        let known = LabelsAndOwners::from_entry(entry);
        if selector.matches(|key| known.label(key)) {
            bytes += entry.bytes.len();
            selected.push(Arc::clone(entry));
        }
        if bytes > PARAMETERS_BYTES_MAX {
            let most = PARAMETERS_BYTES_MAX / 1024;
            return Err(format!("the selected params are too large: they may have {most} KiB together"));
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Key, Revision};
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_selected_by_label_and_bounded() {
        let entry = |name: &str, label: &str, bytes: usize| {
            let object = json!({"metadata": {"labels": {"a": label}}, "data": "x".repeat(bytes)});
            let value = homeostat_store::Value::plain(object.to_string());
            Arc::new(Entry::new(Key::new("", "configmaps", "d", name), Revision::new(1), &value))
        };
        let selector = LabelSelector::from_json(&json!({"matchLabels": {"a": "yes"}})).unwrap();
        let mut entries = vec![entry("x", "yes", 1), entry("y", "no", PARAMETERS_BYTES_MAX)];
        let selected = select(entries.iter(), &selector).unwrap();
        assert_eq!(selected.iter().map(|entry| entry.key.name()).collect::<Vec<_>>(), ["x"]);
        entries.push(entry("z", "yes", PARAMETERS_BYTES_MAX));
        assert!(select(entries.iter(), &selector).unwrap_err().contains("too large"));
    }
}
