//! Builds a container's environment: the node's variables, then `envFrom`, then `env` in order; later entries win.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, EnvVarSource, Pod, Secret};

use super::container_roles::all_containers;
use super::downward_api;
use super::expand_variables::expand;
use super::status::StartRefusal;
use super::value_sources::ValueSources;

/// The server's own variables that containers also get: the locations of programs, and the language and time zone to
/// use.
const INHERITED: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "USER"];

/// Variables by name.
pub(crate) type Environment = BTreeMap<String, String>;

/// Returns the whole environment, or the reason it cannot be built.
pub(crate) fn container_environment(
    pod: &Pod,
    container: &Container,
    sources: &dyn ValueSources,
    given: Environment,
) -> Result<Environment, StartRefusal> {
    let mut all = inherited();
    all.extend(given);
    add_env_from(container, sources, &mut all)?;
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            None => {
                Some(expand(variable.value.as_deref().unwrap_or_default(), |name| all.get(name).cloned()))
            }
            Some(source) => value_from_source(pod, container, sources, variable, source)?,
        };
        if let Some(value) = value {
            all.insert(variable.name.clone(), value);
        }
    }
    Ok(all)
}

fn inherited() -> Environment {
    INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

fn add_env_from(
    container: &Container,
    sources: &dyn ValueSources,
    all: &mut Environment,
) -> Result<(), StartRefusal> {
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let pairs = if let Some(reference) = &source.config_map_ref {
            let found = sources.config_map(&reference.name)?;
            require_object(found, "configmap", &reference.name, reference.optional)?.map(|map| texts(&map))
        } else if let Some(reference) = &source.secret_ref {
            let found = sources.secret(&reference.name)?;
            require_object(found, "secret", &reference.name, reference.optional)?
                .map(|secret| secret_texts(&secret))
        } else {
            None
        };
        all.extend(pairs.into_iter().flatten().map(|(name, value)| (format!("{prefix}{name}"), value)));
    }
    Ok(())
}

fn value_from_source(
    pod: &Pod,
    container: &Container,
    sources: &dyn ValueSources,
    variable: &EnvVar,
    source: &EnvVarSource,
) -> Result<Option<String>, StartRefusal> {
    if let Some(reference) = &source.field_ref {
        let value = downward_api::pod_field(pod, &reference.field_path);
        return value.map(Some).ok_or_else(|| cannot_fill(variable, &reference.field_path));
    }
    if let Some(reference) = &source.resource_field_ref {
        let wanted = reference.container_name.as_deref().filter(|name| !name.is_empty());
        let container = match (wanted, &pod.spec) {
            (Some(name), Some(spec)) => {
                all_containers(spec).map(|part| part.container).find(|one| one.name == name)
            }
            _ => Some(container),
        };
        let value = container.and_then(|container| downward_api::resource_field(container, reference));
        return value.map(Some).ok_or_else(|| cannot_fill(variable, &reference.resource));
    }
    if let Some(reference) = &source.config_map_key_ref {
        let found = sources.config_map(&reference.name)?;
        let Some(map) = require_object(found, "configmap", &reference.name, reference.optional)? else {
            return Ok(None);
        };
        let value = map.data.as_ref().and_then(|data| data.get(&reference.key)).cloned();
        let wanted = WantedKey { kind: "ConfigMap", name: &reference.name, key: &reference.key };
        return require_key(value, &wanted, pod, reference.optional);
    }
    if let Some(reference) = &source.secret_key_ref {
        let found = sources.secret(&reference.name)?;
        let Some(secret) = require_object(found, "secret", &reference.name, reference.optional)? else {
            return Ok(None);
        };
        let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
        let value = value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        let wanted = WantedKey { kind: "Secret", name: &reference.name, key: &reference.key };
        return require_key(value, &wanted, pod, reference.optional);
    }
    Err(cannot_fill(variable, "its source"))
}

/// Returns a refusal if a required object is missing.
pub(crate) fn require_object<T>(
    found: Option<T>,
    kind: &str,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<T>, StartRefusal> {
    match found {
        None if optional != Some(true) => Err(config_error(format!("{kind} \"{name}\" not found"))),
        found => Ok(found),
    }
}

/// A key in a ConfigMap or Secret.
struct WantedKey<'a> {
    kind: &'a str,
    name: &'a str,
    key: &'a str,
}

/// Returns a refusal if a required key is missing.
fn require_key(
    value: Option<String>,
    wanted: &WantedKey<'_>,
    pod: &Pod,
    optional: Option<bool>,
) -> Result<Option<String>, StartRefusal> {
    if value.is_none() && optional != Some(true) {
        let WantedKey { kind, name, key } = wanted;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        return Err(config_error(format!("couldn't find key {key} in {kind} {namespace}/{name}")));
    }
    Ok(value)
}

fn cannot_fill(variable: &EnvVar, what: &str) -> StartRefusal {
    config_error(format!("cannot set the variable {}: this node does not support {what}", variable.name))
}

/// Returns a refusal with the reason that Kubernetes uses for a wrong configuration.
pub(crate) fn config_error(message: String) -> StartRefusal {
    StartRefusal { reason: "CreateContainerConfigError", message, is_temporary: false }
}

fn texts(map: &ConfigMap) -> Vec<(String, String)> {
    map.data.clone().unwrap_or_default().into_iter().collect()
}

fn secret_texts(secret: &Secret) -> Vec<(String, String)> {
    let data = secret.data.iter().flatten();
    data.map(|(name, bytes)| (name.clone(), String::from_utf8_lossy(&bytes.0).into_owned())).collect()
}
