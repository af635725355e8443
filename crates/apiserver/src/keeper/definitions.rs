//! Definitions that end: their objects go first, then they do.

use homeostat_core::{Key, Prefix};
use serde_json::Value;

use crate::backend::Backend;
use crate::crd;
use crate::object::{encode, meta};
use crate::resource::{Custom, Resource, Source};
use crate::rewrite::rewrite;
use crate::status::Status;
use crate::verbs::{DeleteOptions, Policy, remove};
use std::sync::Arc;

/// Looks at a definition.
pub(super) async fn look_at(backend: &Backend, name: &str) -> Result<(), Status> {
    let key = Key::new(crd::GROUP, crd::PLURAL, "", name);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else { return crd::reconsider_names(backend).await };
    let definition = encode::decode(entry);
    if !meta::is_deleting(&definition) || !meta::has_finalizer(&definition, crd::CLEANUP_FINALIZER) {
        return Ok(());
    }
    let spec = &definition["spec"];
    let (group, plural) = (text(spec, "group"), text(&spec["names"], "plural"));
    backend.notices.set_resource_ending(group, plural, Some(name));
    let resource = bare_resource(&definition);
    if remove_all(backend, &resource).await? {
        backend.notices.set_resource_ending(group, plural, None);
        let table = backend.registry.table();
        let definitions = table.get(crd::GROUP, "v1", crd::PLURAL).expect("a built-in kind");
        rewrite(backend, definitions, &key, |object| {
            let left = meta::finalizers(object)
                .filter(|one| *one != crd::CLEANUP_FINALIZER)
                .map(Into::into)
                .collect();
            meta::set_finalizers(object, left);
        })
        .await?;
    }
    Ok(())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Deletes every object of a resource; are they all gone?
async fn remove_all(backend: &Backend, resource: &Resource) -> Result<bool, Status> {
    let prefix = Prefix::resource(&resource.group, &resource.plural);
    let options = DeleteOptions { policy: Some(Policy::Background), ..DeleteOptions::default() };
    let snapshot = backend.store.snapshot();
    for entry in snapshot.range(&prefix, "") {
        match remove(backend, resource, entry.key.namespace(), entry.key.name(), &options).await {
            Ok(_) => {}
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let is_empty = backend.store.snapshot().range(&prefix, "").next().is_none();
    Ok(is_empty)
}

/// Enough of a row to find and delete objects, whether or not the definition was ever served.
fn bare_resource(definition: &Value) -> Resource {
    let spec = &definition["spec"];
    let field = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().into();
    Resource {
        group: field(spec, "group"),
        version: "".into(),
        plural: field(&spec["names"], "plural"),
        singular: "".into(),
        kind: field(&spec["names"], "kind"),
        list_kind: "".into(),
        namespaced: spec["scope"] == "Namespaced",
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        source: Source::Custom(Arc::new(Custom { is_terminating: true, ..Custom::default() })),
    }
}
