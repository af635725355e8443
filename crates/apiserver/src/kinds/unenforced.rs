//! Warnings about what people rely on for their security and what is only stored here.
//!
//! What a whole kind is for is warned of by its declaration (`warn_unenforced`). Kinds that merely wait for a controller (an
//! Ingress, an autoscaler) get no warning: a controller of the user's own may act on them, and kube-apiserver gives none.

use serde_json::Value;

use crate::resource::Resource;

/// The prefix of the labels by which a namespace asks for the Pod Security Standards.
const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// Signers of Kubernetes' own controllers, of which there are none here. Others are somebody's operator.
const KUBERNETES_SIGNERS: &str = "kubernetes.io/";

/// What to warn the writer of an object, or of one of its subresources, of.
pub(crate) fn warnings(
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    if resource.is_custom() {
        return Vec::new();
    }
    match (&*resource.group, &*resource.kind, subresource) {
        ("", "Namespace", "") => return labels(new, old),
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => unsigned(new, old),
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
