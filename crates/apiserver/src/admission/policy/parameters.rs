//! The parameters of a policy: objects that a binding names or selects.

use homeostat_core::selector::LabelSelector;
use serde_json::Value;

use crate::admission::AdmissionRequest;
use crate::stored::convert;

/// Returns the parameters with which a policy is evaluated, null if it takes none.
pub(super) fn parameters(
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
    let found = if !wanted.is_empty() {
        let entry = snapshot.get(&storage.key(&namespace, &wanted));
        entry.map(|entry| convert::decode(resource, entry)).into_iter().collect::<Vec<_>>()
    } else if reference["selector"].is_object() {
        let selector = LabelSelector::from_json(&reference["selector"]).map_err(|error| error.to_string())?;
        let prefix = if resource.namespaced { storage.prefix_in(&namespace) } else { storage.prefix() };
        let all = snapshot.range(&prefix, "").map(|entry| convert::decode(resource, entry));
        all.filter(|object| selector.matches(|key| object["metadata"]["labels"][key].as_str())).collect()
    } else {
        return Err("one of name or selector must be provided".to_owned());
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
