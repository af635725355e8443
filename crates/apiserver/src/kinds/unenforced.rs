//! Warnings about what is stored and waits for a controller that neither this server nor `homeostat-workloads` has, for whoever
//! relies on it.
//!
//! Controllers of the user's own may act on it; so the words speak of this server alone. What a server would have to enforce is
//! warned of by its kind's declaration (`warn_unenforced`).

use serde_json::Value;

use crate::resource::Resource;

/// The prefix of the labels by which a namespace asks for the Pod Security Standards.
const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// Signers of Kubernetes' own controllers, of which there are none here. Others are somebody's operator.
const KUBERNETES_SIGNERS: &str = "kubernetes.io/";
/// The type of Secrets that Kubernetes fills with a token.
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// What to warn the writer of an object, or of one of its subresources, of.
pub(crate) fn warnings(
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let kind = &*resource.kind;
    if resource.is_custom() {
        return Vec::new();
    }
    match (&*resource.group, kind, subresource) {
        ("", "Namespace", "") => return labels(new, old),
        ("", "Service", "") => load_balancer(new, old),
        ("", "Secret", "") => token_secret(new, old),
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => unsigned(new, old),
        ("autoscaling", "HorizontalPodAutoscaler", "")
        | ("networking.k8s.io", "Ingress", "")
        | ("", "ReplicationController", "") => {
            let is_news = old.is_none_or(|old| old["spec"] != new["spec"]);
            is_news.then(|| format!("{kind} is stored, but this server has no controller that acts on it"))
        }
        _ => None,
    }
    .into_iter()
    .collect()
}

/// One warning for each mode whose labels are new.
fn labels(new: &Value, old: Option<&Value>) -> Vec<String> {
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_news = |name: &String| {
        let given = label(new, name);
        given.is_some() && given != old.and_then(|old| label(old, name))
    };
    let modes = [
        ("warn", "act on it: nobody is warned of Pods that do not keep to it"),
        ("audit", "act on it: there is no audit log"),
    ];
    let warning = |(mode, effect): (&str, &str)| {
        let both = [format!("{POD_SECURITY}/{mode}"), format!("{POD_SECURITY}/{mode}-version")];
        let named = both.into_iter().find(is_news)?;
        Some(format!("the label {named} is stored, but this server does not {effect}"))
    };
    modes.into_iter().filter_map(warning).collect()
}

/// A Service that asks for a load balancer and names nobody who shall make it.
fn load_balancer(new: &Value, old: Option<&Value>) -> Option<String> {
    let asks = |service: &Value| {
        service["spec"]["type"] == "LoadBalancer" && service["spec"]["loadBalancerClass"].is_null()
    };
    (asks(new) && !old.is_some_and(asks)).then(|| {
        "type LoadBalancer is stored, but this server makes no load balancer: status.loadBalancer stays empty unless a \
         controller of yours fills it"
            .to_owned()
    })
}

/// A Secret that in Kubernetes gets a token.
fn token_secret(new: &Value, old: Option<&Value>) -> Option<String> {
    (old.is_none() && new["type"] == TOKEN_SECRET && new["data"]["token"].is_null()).then(|| {
        format!("a Secret of type {TOKEN_SECRET} is stored, but this server puts no token into it; use kubectl create token")
    })
}

/// A request that was approved and that nobody here signs.
fn unsigned(new: &Value, old: Option<&Value>) -> Option<String> {
    let is_approved = |request: &Value| {
        let conditions = request["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "Approved"))
    };
    let signer = new["spec"]["signerName"].as_str().or_else(|| old?["spec"]["signerName"].as_str())?;
    let is_ours = signer.starts_with(KUBERNETES_SIGNERS);
    (is_ours && is_approved(new) && !old.is_some_and(is_approved)).then(|| {
        format!("the approval is stored, but this server signs nothing for {signer}: status.certificate stays empty")
    })
}
