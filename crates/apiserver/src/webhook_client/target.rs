//! Finds the location of a webhook: its URL, or a Service in this cluster, reached through its endpoints.
//!
//! Pods are processes on reachable machines, so calls connect directly to the address in an EndpointSlice (or
//! Endpoints); the address of the Service itself leads nowhere. Every write that a webhook matches searches for them, on
//! the thread that serves it: the search reads only the slices of the Service, up to a limit, and yields to others.

use homeostat_api::kinds::core::endpoints::ENDPOINTS;
use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_core::Entropy;
use homeostat_store::Snapshot;
use serde_json::Value;

use crate::stored::encode;
use crate::stored::service_slices::{ENDPOINTS_MAX, slices_of_service};
use crate::yielding_work::YieldingWork;

/// The port of webhooks that specify none.
const PORT: u16 = 443;

/// The location of a webhook.
#[derive(Debug)]
pub(super) struct WebhookTarget {
    /// The URL without a query, with a clean path.
    pub(super) url: String,
    /// Host and port, as in the URL.
    pub(super) authority: String,
    /// The name in the certificate.
    pub(super) server_name: String,
    pub(super) port: u16,
    /// Namespace and name, if it is a Service.
    pub(super) service: Option<(String, String)>,
}

/// Returns the location of a webhook from its client configuration.
pub(super) fn target_of(config: &Value) -> Result<WebhookTarget, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let service = &config["service"];
    if service.is_object() {
        let (name, namespace) = (text(&service["name"]), text(&service["namespace"]));
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT);
        let server_name = format!("{name}.{namespace}.svc");
        let authority = format!("{server_name}:{port}");
        let url = format!("https://{authority}{}", clean_path(&text(&service["path"])));
        return Ok(WebhookTarget { url, authority, server_name, port, service: Some((namespace, name)) });
    }
    let uri =
        text(&config["url"]).parse::<http::Uri>().map_err(|error| format!("Unparsable URL: {error}"))?;
    let authority = uri.authority().ok_or("Unparsable URL: it has no host")?;
    let server_name = authority.host().trim_matches(['[', ']']).to_owned();
    let url = format!("https://{authority}{}", clean_path(uri.path()));
    let port = authority.port_u16().unwrap_or(PORT);
    Ok(WebhookTarget { url, authority: authority.to_string(), server_name, port, service: None })
}

/// Returns a path without empty, `.` and `..` segments, as Kubernetes' client sends it.
fn clean_path(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the host and port to connect to.
pub(super) async fn endpoint_of(
    snapshot: &Snapshot,
    entropy: &Entropy,
    target: &WebhookTarget,
) -> Result<(String, u16), String> {
    let Some((namespace, name)) = &target.service else {
        return Ok((target.server_name.clone(), target.port));
    };
    let mut search = EndpointSearch { snapshot, namespace, name, work: YieldingWork::default() };
    let service = search.load(&SERVICE).await.ok_or_else(|| format!("service {name:?} not found"))?;
    if service["spec"]["type"] == "ExternalName" {
        let host = service["spec"]["externalName"].as_str().unwrap_or_default();
        return Ok((host.to_owned(), target.port));
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut ports = ports.filter(|port| port["port"].as_u64() == Some(target.port.into()));
    let port =
        ports.next().ok_or_else(|| format!("no service port {} found for service {name:?}", target.port))?;
    let mut found = search.endpoints(port["name"].as_str().unwrap_or_default()).await;
    if found.is_empty() {
        return Err(format!("no endpoints available for service {name:?}"));
    }
    let at = entropy.below(found.len() as u64);
    Ok(found.swap_remove(usize::try_from(at).unwrap_or_default()))
}

/// A search for the endpoints of one Service.
struct EndpointSearch<'a> {
    snapshot: &'a Snapshot,
    namespace: &'a str,
    name: &'a str,
    work: YieldingWork,
}

impl EndpointSearch<'_> {
    /// Returns the addresses of the Service's slices or, if they have none, of its Endpoints.
    async fn endpoints(&mut self, port_name: &str) -> Vec<(String, u16)> {
        let mut found = Vec::new();
        for slice in slices_of_service(self.snapshot, self.namespace, self.name) {
            if found.len() >= ENDPOINTS_MAX {
                break;
            }
            self.work.add(slice.bytes.len()).await;
            found.extend(endpoints_of_slice(&encode::parse_entry(&slice), port_name));
        }
        if found.is_empty()
            && let Some(endpoints) = self.load(&ENDPOINTS).await
        {
            let subsets = endpoints["subsets"].as_array().into_iter().flatten();
            found.extend(subsets.flat_map(|subset| endpoints_of_subset(subset, port_name)));
        }
        found
    }

    /// Returns the object of this kind that has the Service's name.
    async fn load(&mut self, kind: &BuiltInKind) -> Option<Value> {
        let entry = self.snapshot.get(&kind.storage().key(self.namespace, self.name))?;
        self.work.add(entry.bytes.len()).await;
        Some(encode::parse_entry(entry))
    }
}

/// Returns the number of the port with this name.
fn port_named(ports: &Value, name: &str) -> Option<u16> {
    let ports = ports.as_array().into_iter().flatten();
    let mut named = ports.filter(|port| port["name"].as_str().unwrap_or_default() == name);
    named.next()?["port"].as_u64().and_then(|port| u16::try_from(port).ok())
}

fn endpoints_of_slice(slice: &Value, port_name: &str) -> Vec<(String, u16)> {
    let Some(port) = port_named(&slice["ports"], port_name) else { return Vec::new() };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
    addresses.filter_map(Value::as_str).map(|address| (address.to_owned(), port)).collect()
}

fn endpoints_of_subset(subset: &Value, port_name: &str) -> Vec<(String, u16)> {
    let Some(port) = port_named(&subset["ports"], port_name) else { return Vec::new() };
    let addresses = subset["addresses"].as_array().into_iter().flatten();
    addresses.filter_map(|one| one["ip"].as_str()).map(|address| (address.to_owned(), port)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_clean_and_services_have_names() {
        let check = |config: Value, url: &str, server_name: &str| {
            let target = target_of(&config).expect("a target");
            assert_eq!((&*target.url, &*target.server_name), (url, server_name));
        };
        check(json!({"url": "https://[::1]:9443//a/./b/../c/"}), "https://[::1]:9443/a/c", "::1");
        check(json!({"url": "https://demo.dev"}), "https://demo.dev/", "demo.dev");
        let service = json!({"service": {"name": "s", "namespace": "n", "path": "v"}});
        check(service, "https://s.n.svc:443/v", "s.n.svc");
    }
}
