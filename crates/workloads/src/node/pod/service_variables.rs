//! Builds the environment variables that tell a container about Services, as in Kubernetes: the address of each, by
//! name and port.
//!
//! These are the Services of its own namespace that have an address, unless the Pod disables service links, and always
//! the server itself. Later changes reach only containers that start later.

use k8s_openapi::api::core::v1::{Pod, Service};

use super::environment::Environment;

/// Returns the variables of all Services in the Pod's namespace.
pub(crate) fn variables<'a>(pod: &Pod, services: impl Iterator<Item = &'a Service>) -> Environment {
    let wants_links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
    let namespace = pod.metadata.namespace.as_deref();
    // The node knows the server's address better than the Service does.
    let is_server = |service: &Service| {
        service.metadata.namespace.as_deref() == Some("default")
            && service.metadata.name.as_deref() == Some("kubernetes")
    };
    let linked = services.filter(|service| wants_links && service.metadata.namespace.as_deref() == namespace);
    linked.filter(|service| !is_server(service)).filter_map(service_environment).flatten().collect()
}

fn service_environment(service: &Service) -> Option<Environment> {
    let spec = service.spec.as_ref()?;
    let address = spec.cluster_ip.as_deref().filter(|address| !matches!(*address, "" | "None"))?;
    let ports = spec.ports.iter().flatten().map(|port| ServiceLinkPort {
        number: port.port,
        name: port.name.as_deref().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or("TCP"),
    });
    Some(variables_of_service(service.metadata.name.as_deref()?, address, &ports.collect::<Vec<_>>()))
}

/// One port of a Service.
pub(super) struct ServiceLinkPort<'a> {
    pub(super) number: i32,
    pub(super) name: &'a str,
    pub(super) protocol: &'a str,
}

/// Returns the variables of one Service.
pub(super) fn variables_of_service(name: &str, address: &str, ports: &[ServiceLinkPort<'_>]) -> Environment {
    let name = upper(name);
    let mut variables = Environment::from([(format!("{name}_SERVICE_HOST"), address.to_owned())]);
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let url =
        |port: &ServiceLinkPort<'_>| format!("{}://{host}:{}", port.protocol.to_lowercase(), port.number);
    if let Some(first) = ports.first() {
        variables.insert(format!("{name}_SERVICE_PORT"), first.number.to_string());
        variables.insert(format!("{name}_PORT"), url(first));
    }
    for port in ports {
        if !port.name.is_empty() {
            variables.insert(format!("{name}_SERVICE_PORT_{}", upper(port.name)), port.number.to_string());
        }
        let prefix = format!("{name}_PORT_{}_{}", port.number, port.protocol.to_uppercase());
        variables.insert(format!("{prefix}_PROTO"), port.protocol.to_lowercase());
        variables.insert(format!("{prefix}_PORT"), port.number.to_string());
        variables.insert(format!("{prefix}_ADDR"), address.to_owned());
        variables.insert(prefix, url(port));
    }
    variables
}

fn upper(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(namespace: &str, name: &str, address: &str, ports: &Value) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name},
            "spec": {"clusterIP": address, "ports": ports}}))
        .unwrap()
    }

    #[test]
    fn services_of_the_namespace_are_told() {
        let ports = json!([{"port": 8765, "name": "web-ui"}, {"port": 53, "name": "dns", "protocol": "UDP"}]);
        let all = [
            service("here", "foo-service", "10.0.0.7", &ports),
            service("there", "other", "10.0.0.8", &ports),
            service("here", "headless", "None", &ports),
            service("here", "empty", "", &ports),
            service("default", "kubernetes", "10.0.0.1", &ports),
        ];
        let variables_in = |namespace: &str, links: Option<bool>| {
            let pod = serde_json::from_value(json!({"metadata": {"namespace": namespace},
                "spec": {"enableServiceLinks": links, "containers": []}}))
            .unwrap();
            variables(&pod, all.iter())
        };
        let expected = [
            ("FOO_SERVICE_PORT", "tcp://10.0.0.7:8765"),
            ("FOO_SERVICE_PORT_53_UDP", "udp://10.0.0.7:53"),
            ("FOO_SERVICE_PORT_53_UDP_ADDR", "10.0.0.7"),
            ("FOO_SERVICE_PORT_53_UDP_PORT", "53"),
            ("FOO_SERVICE_PORT_53_UDP_PROTO", "udp"),
            ("FOO_SERVICE_PORT_8765_TCP", "tcp://10.0.0.7:8765"),
            ("FOO_SERVICE_PORT_8765_TCP_ADDR", "10.0.0.7"),
            ("FOO_SERVICE_PORT_8765_TCP_PORT", "8765"),
            ("FOO_SERVICE_PORT_8765_TCP_PROTO", "tcp"),
            ("FOO_SERVICE_SERVICE_HOST", "10.0.0.7"),
            ("FOO_SERVICE_SERVICE_PORT", "8765"),
            ("FOO_SERVICE_SERVICE_PORT_DNS", "53"),
            ("FOO_SERVICE_SERVICE_PORT_WEB_UI", "8765"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables_in("here", None), Environment::from(expected));
        assert_eq!(variables_in("here", Some(false)), Environment::new());
        assert_eq!(variables_in("default", None), Environment::new());
        let six = variables_of_service(
            "six",
            "fd00::1",
            &[ServiceLinkPort { number: 1, name: "", protocol: "TCP" }],
        );
        assert_eq!(six["SIX_PORT"], "tcp://[fd00::1]:1");
    }
}
