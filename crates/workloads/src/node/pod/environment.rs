//! The environment of a container: variables of the node, then `envFrom`, then `env` in order; later entries win.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, EnvVarSource, Pod, Secret};

use super::container_roles::all_containers;
use super::downward_api;
use super::expand::expand;
use super::sources::ValueSources;
use super::status::StartRefusal;

/// What processes of this machine take from their surroundings, and containers too: where programs are, how to speak.
const INHERITED: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "USER"];

/// Names and values.
pub(crate) type Environment = BTreeMap<String, String>;

/// The whole environment, or why it cannot be made.
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
            Some(source) => value_from_source(pod, container, sources, (variable, source))?,
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
    (variable, source): (&EnvVar, &EnvVarSource),
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
        return require_key(value, ("ConfigMap", &reference.name, &reference.key), pod, reference.optional);
    }
    if let Some(reference) = &source.secret_key_ref {
        let found = sources.secret(&reference.name)?;
        let Some(secret) = require_object(found, "secret", &reference.name, reference.optional)? else {
            return Ok(None);
        };
        let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
        let value = value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
        return require_key(value, ("Secret", &reference.name, &reference.key), pod, reference.optional);
    }
    Err(cannot_fill(variable, "its source"))
}

/// A missing object is a refusal, unless it is optional.
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

fn require_key(
    value: Option<String>,
    (kind, name, key): (&str, &str, &str),
    pod: &Pod,
    optional: Option<bool>,
) -> Result<Option<String>, StartRefusal> {
    if value.is_none() && optional != Some(true) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        return Err(config_error(format!("couldn't find key {key} in {kind} {namespace}/{name}")));
    }
    Ok(value)
}

fn cannot_fill(variable: &EnvVar, what: &str) -> StartRefusal {
    config_error(format!("the variable {} cannot be set: this node does not offer {what}", variable.name))
}

/// As Kubernetes names it.
pub(crate) fn config_error(message: String) -> StartRefusal {
    StartRefusal { reason: "CreateContainerConfigError", message, is_passing: false }
}

fn texts(map: &ConfigMap) -> Vec<(String, String)> {
    map.data.clone().unwrap_or_default().into_iter().collect()
}

fn secret_texts(secret: &Secret) -> Vec<(String, String)> {
    let data = secret.data.iter().flatten();
    data.map(|(name, bytes)| (name.clone(), String::from_utf8_lossy(&bytes.0).into_owned())).collect()
}
