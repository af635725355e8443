//! Provides functions that several reconcilers in the zoo share: small objects, and writes that may be repeated.
//!
//! [`is_latest`] is part of many cures: a cache may be stale, and a deletion, or an external resource created because
//! of it, cannot be undone.

use std::collections::BTreeMap;

use homeostat::prelude::*;
use homeostat::runtime::Kind;
use k8s_openapi::NamespaceResourceScope;
use kube::Api;
use kube::api::PostParams;

/// Puts an object into the namespace `default`.
pub(crate) fn in_default<K: Kind>(mut object: K) -> K {
    object.meta_mut().namespace = Some("default".to_owned());
    object
}

/// Returns a ConfigMap with one line of data.
pub(crate) fn config_map(name: &str, key: &str, value: impl Into<String>) -> ConfigMap {
    let mut config_map =
        ConfigMap { data: Some(BTreeMap::from([(key.to_owned(), value.into())])), ..ConfigMap::default() };
    config_map.metadata.name = Some(name.to_owned());
    config_map
}

/// Returns one line of a ConfigMap's data; empty if there is none.
pub(crate) fn data_of<'a>(config_map: &'a ConfigMap, key: &str) -> &'a str {
    config_map.data.as_ref().and_then(|data| data.get(key)).map_or("", |value| value)
}

/// Returns the object with the reconciled one as its owner, in the same namespace.
pub(crate) fn owned_by<K, T>(owner: &K, mut object: T) -> T
where
    K: Kind,
    T: Kind,
{
    object.meta_mut().namespace.clone_from(&owner.meta().namespace);
    object.meta_mut().owner_references = owner.controller_owner_ref(&()).map(|reference| vec![reference]);
    object
}

/// Returns the server's objects of a kind in the namespace of the reconciled one, without any cache.
pub(crate) fn api<K, T>(cx: &Context<K>) -> Api<T>
where
    K: Kind,
    T: Kind + Resource<Scope = NamespaceResourceScope>,
{
    Api::namespaced(cx.client().clone(), cx.key().namespace())
}

/// Creates an object; leaves an existing one with the same name alone.
pub(crate) async fn create_if_missing<T: Kind>(api: &Api<T>, object: &T) -> Result<()> {
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Returns whether the reconciled object is the server's latest version. If it is not, a newer version will arrive
/// through the watch.
pub(crate) async fn is_latest<K>(cx: &Context<K>) -> Result<bool>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let live = api::<K, K>(cx).get_opt(cx.key().name()).await?;
    Ok(live.is_some_and(|live| live.meta().resource_version == cx.object().meta().resource_version))
}
