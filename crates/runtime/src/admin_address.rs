//! Says where this operator's admin server can be reached: its address and, in a cluster, its Pod.
//!
//! In a cluster the address cannot be reached from outside, but the API server's proxy can reach the Pod. The Pod is
//! announced only if it is in the namespace of the Lease that announces it, so that someone who may write Leases in one
//! namespace cannot direct callers to the Pods in another.

use std::collections::BTreeMap;

use tokio::net::TcpListener;

/// The Lease annotation in which an operator announces its admin server's address.
pub(crate) const ADDRESS_ANNOTATION: &str = "homeostat.dev/admin-address";

/// The annotation in which it announces its Pod and the port, as `NAME:PORT`.
pub(crate) const POD_ANNOTATION: &str = "homeostat.dev/admin-pod";

/// The environment variable that holds the Pod's name, which the generated Deployment sets.
pub(crate) const POD_NAME_VARIABLE: &str = "POD_NAME";

/// The environment variable that holds its namespace.
pub(crate) const POD_NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";

/// Where an admin server is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAddress {
    url: String,
    pod: Option<AdminPod>,
}

/// The Pod of an admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl AdminPod {
    /// Parses an announcement, which is untrusted.
    pub(crate) fn parse(namespace: &str, text: &str) -> Option<Self> {
        let (name, port) = text.split_once(':')?;
        let is_name = |name: &str| {
            let is_letter =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            !name.is_empty() && name.len() <= 253 && name.bytes().all(is_letter)
        };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (is_name(name) && is_name(namespace) && !matches!(name, "." | "..")).then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }

    /// Returns the audience of tokens for this Pod: a token for one operator is worthless to all others.
    pub(crate) fn audience(&self) -> String {
        format!("homeostat-why/{}/{}", self.namespace, self.name)
    }
}

/// Returns the audience of tokens for an admin server on this machine, by the address that it announces. Whoever
/// listens at another address cannot use such a token.
pub(crate) fn address_audience(url: &str) -> String {
    format!("homeostat-why/{url}")
}

impl AdminAddress {
    /// Returns the address of a listener, and the Pod that the environment names if its Leases are in `namespace`.
    pub(crate) fn of_listener(listener: &TcpListener, namespace: &str) -> Option<Self> {
        let address = listener.local_addr().ok()?;
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let is_home = variable(POD_NAMESPACE_VARIABLE) == namespace;
        let text = format!("{}:{}", variable(POD_NAME_VARIABLE), address.port());
        let pod = AdminPod::parse(namespace, &text).filter(|_| is_home);
        Some(Self { url: format!("http://{address}"), pod })
    }

    /// Returns whether the operator runs in a Pod, where the addresses of this machine are those of its containers.
    pub fn is_in_pod(&self) -> bool {
        self.pod.is_some()
    }

    /// Returns whether an announcement is this one.
    pub(crate) fn is_announced_as(&self, url: &str, pod: Option<&AdminPod>) -> bool {
        self.url == url && self.pod.as_ref() == pod
    }

    /// Returns the audiences of tokens for this admin server: by its Pod, if it runs in one, and by its address.
    pub(crate) fn audiences(&self) -> Vec<String> {
        self.pod.iter().map(AdminPod::audience).chain([address_audience(&self.url)]).collect()
    }

    /// Returns the annotations that announce it.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let pod = self.pod.as_ref().map(|pod| format!("{}:{}", pod.name, pod.port));
        let all = [(ADDRESS_ANNOTATION, Some(self.url.clone())), (POD_ANNOTATION, pod)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_pod_is_a_name_and_a_port_and_nothing_else() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let found = AdminPod::parse("shop", text);
            assert_eq!(found.as_ref().map(|pod| (pod.name.as_str(), pod.port)), expected, "{text}");
        };
        check("web-7d4b9:8080", Some(("web-7d4b9", 8080)));
        for wrong in
            ["web", "web:0", ":80", "web:http", "a/../b:80", "..:80", "web%2f:80", "a:b:80", "web:80/x"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn only_an_operator_in_a_pod_announces_one() {
        let pod = AdminPod::parse("shop", "web:8080");
        let address = |pod| AdminAddress { url: "http://0.0.0.0:8080".to_owned(), pod };
        assert_eq!(address(None).annotations().len(), 1);
        assert_eq!(address(pod.clone()).annotations()[POD_ANNOTATION], "web:8080");
        assert_eq!(pod.map(|pod| pod.audience()).as_deref(), Some("homeostat-why/shop/web"));
    }
}
