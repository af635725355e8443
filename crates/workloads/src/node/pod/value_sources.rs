//! Defines the sources of a Pod's values: ConfigMaps, Secrets and claimed volumes in the reconciler's cache, and its
//! account's tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::{Context, ObjectName};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Secret, Service, Volume,
};

use super::container_roles::all_containers;
use super::environment::config_error;
use super::service_account;
use super::status::StartRefusal;
use crate::node::service_account_tokens::TokenSpec;
use crate::node::storage;

/// The sources of values.
pub(crate) trait ValueSources {
    fn config_map(&self, name: &str) -> Result<Option<Arc<ConfigMap>>, StartRefusal>;
    fn secret(&self, name: &str) -> Result<Option<Arc<Secret>>, StartRefusal>;
    fn token(&self, spec: &TokenSpec) -> Result<String, StartRefusal>;
    /// Returns all Services.
    fn services(&self) -> Result<Vec<Arc<Service>>, StartRefusal>;
    /// Returns the volume that the claim of a Pod's volume is bound to, if that volume is bound to the claim. The claim
    /// of an ephemeral volume must have been created for this Pod.
    fn claimed_volume(&self, volume: &Volume, claim: &str) -> Result<Arc<PersistentVolume>, StartRefusal>;
}

/// The sources available in one reconcile.
pub(crate) struct CachedSources<'a> {
    pub(crate) cx: &'a Context<Pod>,
    pub(crate) tokens: BTreeMap<TokenSpec, Result<String, String>>,
}

impl ValueSources for CachedSources<'_> {
    fn config_map(&self, name: &str) -> Result<Option<Arc<ConfigMap>>, StartRefusal> {
        self.cx.get(name).map_err(|error| config_error(error.to_string()))
    }

    fn secret(&self, name: &str) -> Result<Option<Arc<Secret>>, StartRefusal> {
        self.cx.get(name).map_err(|error| config_error(error.to_string()))
    }

    fn services(&self) -> Result<Vec<Arc<Service>>, StartRefusal> {
        self.cx.list().map_err(|error| config_error(error.to_string()))
    }

    fn token(&self, spec: &TokenSpec) -> Result<String, StartRefusal> {
        let found = self.tokens.get(spec).cloned();
        found
            .unwrap_or_else(|| Err("the Pod is being deleted, so no token is requested".to_owned()))
            .map_err(config_error)
    }

    fn claimed_volume(&self, volume: &Volume, claim: &str) -> Result<Arc<PersistentVolume>, StartRefusal> {
        let failed = |error: homeostat_runtime::Error| config_error(error.to_string());
        let found = self.cx.get::<PersistentVolumeClaim>(claim).map_err(failed)?;
        let found =
            found.ok_or_else(|| config_error(format!("persistentvolumeclaim \"{claim}\" not found")))?;
        if volume.ephemeral.is_some() && !storage::is_made_for(&found, self.cx.object()) {
            return Err(config_error(format!(
                "persistentvolumeclaim \"{claim}\" was not created for this Pod"
            )));
        }
        let bound = storage::volume_of(&found)
            .ok_or_else(|| config_error(format!("persistentvolumeclaim \"{claim}\" is not bound")))?;
        let known = self.cx.get::<PersistentVolume>(bound).map_err(failed)?;
        let known = known.ok_or_else(|| not_bound_yet(format!("persistentvolume \"{bound}\" not found")))?;
        match storage::describe_misbinding(&found, &known) {
            Some(why) => Err(not_bound_yet(format!("persistentvolumeclaim \"{claim}\": {why}"))),
            None => Ok(known),
        }
    }
}

/// Returns a temporary refusal, because a volume may become bound without a change that triggers the Pod.
fn not_bound_yet(message: String) -> StartRefusal {
    StartRefusal { is_temporary: true, ..config_error(message) }
}

/// Returns the claims that a Pod names.
pub(crate) fn claims(pod: &Pod) -> Vec<ObjectName> {
    targets(storage::claim_names(pod))
}

/// Returns the ConfigMaps that a Pod names.
pub(crate) fn config_maps(pod: &Pod) -> Vec<ObjectName> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut names = referenced_names(spec, SourceKind::ConfigMap);
    names.push(service_account::ROOT_CA.to_owned());
    targets(names)
}

/// Returns the Secrets that a Pod names.
pub(crate) fn secrets(pod: &Pod) -> Vec<ObjectName> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    targets(referenced_names(spec, SourceKind::Secret))
}

/// The kind of object that a Pod takes values from.
#[derive(Clone, Copy)]
enum SourceKind {
    ConfigMap,
    Secret,
}

/// Returns the names of the objects of one kind that the Pod's variables and volumes come from.
fn referenced_names(spec: &PodSpec, kind: SourceKind) -> Vec<String> {
    let pick = |config_map: Option<String>, secret: Option<String>| match kind {
        SourceKind::ConfigMap => config_map,
        SourceKind::Secret => secret,
    };
    let mut names = Vec::new();
    for part in all_containers(spec) {
        for from in part.container.env_from.iter().flatten() {
            let config_map = from.config_map_ref.as_ref().map(|one| one.name.clone());
            names.extend(pick(config_map, from.secret_ref.as_ref().map(|one| one.name.clone())));
        }
        for from in part.container.env.iter().flatten().filter_map(|one| one.value_from.as_ref()) {
            let config_map = from.config_map_key_ref.as_ref().map(|one| one.name.clone());
            names.extend(pick(config_map, from.secret_key_ref.as_ref().map(|one| one.name.clone())));
        }
    }
    for volume in spec.volumes.iter().flatten() {
        let config_map = volume.config_map.as_ref().map(|one| one.name.clone());
        names.extend(pick(config_map, volume.secret.as_ref().and_then(|one| one.secret_name.clone())));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            let config_map = source.config_map.as_ref().map(|one| one.name.clone());
            names.extend(pick(config_map, source.secret.as_ref().map(|one| one.name.clone())));
        }
    }
    names
}

fn targets(mut names: Vec<String>) -> Vec<ObjectName> {
    names.sort();
    names.dedup();
    names.into_iter().filter(|name| !name.is_empty()).map(ObjectName::from).collect()
}
