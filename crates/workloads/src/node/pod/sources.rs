//! Where a Pod takes values from: ConfigMaps, Secrets and claimed volumes in the reconciler's cache, and tokens of its
//! account.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::{Context, Target};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Secret, Service,
};

use super::container_roles::all_containers;
use super::environment::config_error;
use super::service_account;
use super::status::StartRefusal;
use crate::node::storage;
use crate::node::tokens::TokenSpec;

/// Where values come from.
pub(crate) trait ValueSources {
    fn config_map(&self, name: &str) -> Result<Option<Arc<ConfigMap>>, StartRefusal>;
    fn secret(&self, name: &str) -> Result<Option<Arc<Secret>>, StartRefusal>;
    fn token(&self, wish: &TokenSpec) -> Result<String, StartRefusal>;
    /// All Services there are.
    fn services(&self) -> Result<Vec<Arc<Service>>, StartRefusal>;
    /// The volume a claim is bound to, and that is bound to it. A claim of the Pod's own must have been made for it.
    fn claimed(&self, claim: &str, is_its_own: bool) -> Result<Arc<PersistentVolume>, StartRefusal>;
}

/// Everything at hand for one reconcile.
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

    fn token(&self, wish: &TokenSpec) -> Result<String, StartRefusal> {
        let found = self.tokens.get(wish).cloned();
        found
            .unwrap_or_else(|| Err("the Pod is ending: no token is asked for".to_owned()))
            .map_err(config_error)
    }

    fn claimed(&self, claim: &str, is_its_own: bool) -> Result<Arc<PersistentVolume>, StartRefusal> {
        let failed = |error: homeostat_runtime::Error| config_error(error.to_string());
        let found = self.cx.get::<PersistentVolumeClaim>(claim).map_err(failed)?;
        let found =
            found.ok_or_else(|| config_error(format!("persistentvolumeclaim \"{claim}\" not found")))?;
        if is_its_own && !storage::is_made_for(&found, self.cx.object()) {
            return Err(config_error(format!(
                "persistentvolumeclaim \"{claim}\" was not created for this Pod"
            )));
        }
        let volume = storage::volume_of(&found)
            .ok_or_else(|| config_error(format!("persistentvolumeclaim \"{claim}\" is not bound")))?;
        let known = self.cx.get::<PersistentVolume>(volume).map_err(failed)?;
        let known = known.ok_or_else(|| not_bound_yet(format!("persistentvolume \"{volume}\" not found")))?;
        match storage::describe_misbinding(&found, &known) {
            Some(why) => Err(not_bound_yet(format!("persistentvolumeclaim \"{claim}\": {why}"))),
            None => Ok(known),
        }
    }
}

/// A volume may come to be bound without a word to the Pod.
fn not_bound_yet(message: String) -> StartRefusal {
    StartRefusal { is_passing: true, ..config_error(message) }
}

/// The claims a Pod names.
pub(crate) fn claims(pod: &Pod) -> Vec<Target> {
    targets(storage::claim_names(pod))
}

/// The ConfigMaps a Pod names.
pub(crate) fn config_maps(pod: &Pod) -> Vec<Target> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for part in all_containers(spec) {
        let from = part.container.env_from.iter().flatten().filter_map(|from| from.config_map_ref.as_ref());
        names.extend(from.map(|reference| reference.name.clone()));
        let sources = part.container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
        names.extend(sources.filter_map(|from| Some(from.config_map_key_ref.as_ref()?.name.clone())));
    }
    names.extend(volume_names(spec, true));
    names.push(service_account::ROOT_CA.to_owned());
    targets(names)
}

/// The Secrets a Pod names.
pub(crate) fn secrets(pod: &Pod) -> Vec<Target> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for part in all_containers(spec) {
        let from = part.container.env_from.iter().flatten().filter_map(|from| from.secret_ref.as_ref());
        names.extend(from.map(|reference| reference.name.clone()));
        let sources = part.container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
        names.extend(sources.filter_map(|from| Some(from.secret_key_ref.as_ref()?.name.clone())));
    }
    names.extend(volume_names(spec, false));
    targets(names)
}

fn volume_names(spec: &PodSpec, of_config_maps: bool) -> Vec<String> {
    let mut names = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        names.extend(volume.config_map.as_ref().filter(|_| of_config_maps).map(|source| source.name.clone()));
        names.extend(
            volume.secret.as_ref().filter(|_| !of_config_maps).and_then(|source| source.secret_name.clone()),
        );
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            names.extend(source.config_map.as_ref().filter(|_| of_config_maps).map(|one| one.name.clone()));
            names.extend(source.secret.as_ref().filter(|_| !of_config_maps).map(|one| one.name.clone()));
        }
    }
    names
}

fn targets(mut names: Vec<String>) -> Vec<Target> {
    names.sort();
    names.dedup();
    names.into_iter().filter(|name| !name.is_empty()).map(Target::from).collect()
}
