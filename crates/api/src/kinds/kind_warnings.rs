//! Warnings about objects of specific kinds, with Kubernetes' wording: ignored fields, and deprecated annotations and
//! volumes. Pods are checked by [`super::warnings`], wherever they occur.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_core::quantity::Quantity;
use serde_json::Value;

use super::core::persistent_volume::MOUNT_OPTIONS_ANNOTATION;
use super::pem;
use super::validate::network_range;
use super::warnings::{OLD_NODE_LABELS, OLD_VOLUMES};
use crate::object::fill::is_zero;
use crate::object::read;

const OLD_STORAGE_CLASS: (&str, &str) = (
    "volume.beta.kubernetes.io/storage-class",
    "deprecated since v1.8; use \"storageClassName\" attribute instead",
);
const OLD_MOUNT_OPTIONS: (&str, &str) =
    (MOUNT_OPTIONS_ANNOTATION, "deprecated since v1.31; use \"mountOptions\" attribute instead");
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["metadata"]["annotations"].get(name)
}

fn old_annotation(object: &Value, (name, why): (&str, &str)) -> Option<String> {
    annotation(object, name).map(|_| format!("metadata.annotations[{name}]: {why}"))
}

/// Returns warnings about fields of a Service that have no effect.
pub(super) fn service(service: &Value, _: Option<&Value>) -> Vec<String> {
    let spec = &service["spec"];
    let (kind, has_external) =
        (read::string_at(spec, "type"), !read::list_at(spec, "externalIPs").is_empty());
    let is_headless = kind == "ClusterIP" && spec["clusterIP"] == "None";
    let mut warnings = Vec::new();
    let mut warn_if = |holds: bool, warning: &str| warnings.extend(holds.then(|| warning.to_owned()));
    warn_if(
        annotation(service, TOPOLOGY_HINTS).is_some(),
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
         service.kubernetes.io/topology-mode instead",
    );
    warn_if(
        is_headless && !is_zero(spec.get("loadBalancerIP")),
        "spec.loadBalancerIP is ignored for headless services",
    );
    warn_if(is_headless && has_external, "spec.externalIPs is ignored for headless services");
    warn_if(
        is_headless && read::string_at(spec, "sessionAffinity") != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    warn_if(
        has_external && !is_headless && kind != "ExternalName",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    warnings.extend(read::list_at(spec, "loadBalancerSourceRanges").iter().enumerate().filter_map(
        |(at, range)| {
            let path = format!("spec.loadBalancerSourceRanges[{at}]");
            network_range::spelling_warning(&path, range.as_str().unwrap_or_default())
        },
    ));
    let mut warn_if = |holds: bool, warning: &str| warnings.extend(holds.then(|| warning.to_owned()));
    warn_if(
        kind == "ExternalName" && has_external,
        "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
    );
    warn_if(
        kind != "ExternalName" && !is_zero(spec.get("externalName")),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn_if(
        spec["trafficDistribution"] == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    warnings
}

/// Returns warnings about deprecated annotations, volumes and policies of a PersistentVolume.
pub(super) fn persistent_volume(volume: &Value, _: Option<&Value>) -> Vec<String> {
    let spec = &volume["spec"];
    let annotations = [OLD_STORAGE_CLASS, OLD_MOUNT_OPTIONS];
    let mut warnings: Vec<_> =
        annotations.into_iter().filter_map(|one| old_annotation(volume, one)).collect();
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning."
                .into(),
        );
    }
    for (name, why) in ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"]
        .into_iter()
        .filter_map(|name| OLD_VOLUMES.into_iter().find(|(kind, _)| *kind == name))
    {
        if !spec[name].is_null() {
            let shown = if name == "storageos" { "storageOS" } else { name };
            warnings.push(format!("spec.{shown}: {why}"));
        }
    }
    warnings
}

/// Returns warnings about a claim with a deprecated annotation or a fractional number of bytes.
pub(super) fn persistent_volume_claim(claim: &Value, _: Option<&Value>) -> Vec<String> {
    let mut warnings: Vec<_> = old_annotation(claim, OLD_STORAGE_CLASS).into_iter().collect();
    warnings.extend(fractional_byte_warnings(&claim["spec"], "spec"));
    warnings
}

fn fractional_byte_warnings(spec: &Value, path: &str) -> impl Iterator<Item = String> {
    ["requests", "limits"].into_iter().filter_map(move |list| {
        let amount = spec["resources"][list]["storage"].as_str()?;
        amount.parse::<Quantity>().is_ok_and(Quantity::is_fractional).then(|| {
            format!("{path}.resources.{list}[storage]: fractional byte value {amount:?} is invalid, must be an integer")
        })
    })
}

/// Returns warnings about a StatefulSet that claims a fractional number of bytes or keeps all its revisions.
pub(super) fn stateful_set(set: &Value, old: Option<&Value>) -> Vec<String> {
    let templates = read::list_at(&set["spec"], "volumeClaimTemplates").iter().enumerate();
    let part = if old.is_some() { ".Spec" } else { "" };
    let mut warnings: Vec<_> = templates
        .flat_map(|(at, claim)| {
            let path = format!("spec.volumeClaimTemplates[{at}]{part}");
            fractional_byte_warnings(&claim["spec"], &path).collect::<Vec<_>>()
        })
        .collect();
    if set["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".into(),
        );
    }
    warnings
}

/// Returns warnings about deprecated node labels.
pub(super) fn storage_class(class: &Value, _: Option<&Value>) -> Vec<String> {
    let topologies = read::list_at(class, "allowedTopologies").iter().enumerate();
    let expressions = topologies.flat_map(|(at, topology)| {
        let found = read::list_at(topology, "matchLabelExpressions").iter().enumerate();
        found.map(move |(inner, expression)| (at, inner, read::string_at(expression, "key")))
    });
    expressions
        .filter_map(|(at, inner, key)| {
            let (_, why) = OLD_NODE_LABELS.into_iter().find(|(label, _)| *label == key)?;
            Some(format!("allowedTopologies[{at}].matchLabelExpressions[{inner}].key: {why}"))
        })
        .collect()
}

/// Returns a warning about a deprecated annotation, if it is new.
pub(super) fn service_account(account: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| annotation(old, MOUNTABLE_SECRETS).is_some()) {
        return Vec::new();
    }
    let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    old_annotation(account, (MOUNTABLE_SECRETS, why)).into_iter().collect()
}

/// Returns a warning about a certificate or key without PEM data, or a key that does not belong to its certificate.
pub(super) fn secret(secret: &Value, _: Option<&Value>) -> Vec<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let has_pem = |name: &str| {
        let bytes = STANDARD.decode(secret["data"][name].as_str().unwrap_or_default()).unwrap_or_default();
        x509_parser::pem::Pem::iter_from_buffer(&bytes).next().is_some_and(|block| block.is_ok())
    };
    let missing = |what: &str| vec![format!("tls: failed to find any PEM data in {what} input")];
    match (has_pem("tls.crt"), has_pem("tls.key")) {
        (false, _) => missing("certificate"),
        (true, false) => missing("key"),
        (true, true) => {
            let given = |name: &str| secret["data"][name].as_str().unwrap_or_default();
            pem::key_mismatch(given("tls.crt"), given("tls.key")).map(Into::into).into_iter().collect()
        }
    }
}

/// Returns a warning about a new Ingress that specifies its class with the deprecated annotation.
pub(super) fn ingress(ingress: &Value, old: Option<&Value>) -> Vec<String> {
    let is_old_way =
        annotation(ingress, INGRESS_CLASS).is_some() && ingress["spec"]["ingressClassName"].is_null();
    if old.is_some() || !is_old_way {
        return Vec::new();
    }
    vec![format!("annotation {INGRESS_CLASS:?} is deprecated, please use 'spec.ingressClassName' instead")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ineffective_fields_of_a_service_are_reported() {
        let headless =
            json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP"}});
        assert_eq!(service(&headless, None), ["spec.SessionAffinity is ignored for headless services"]);
        let plain =
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None"}});
        assert_eq!(service(&plain, None), Vec::<String>::new());
    }

    #[test]
    fn fractions_of_bytes_and_unlimited_history_are_reported() {
        let claim =
            json!({"spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "1Gi"}}}});
        let of = |path: &str| {
            format!(
                "{path}.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"
            )
        };
        assert_eq!(persistent_volume_claim(&claim, None), [of("spec")]);
        let set = json!({"spec": {"volumeClaimTemplates": [claim], "revisionHistoryLimit": -1}});
        assert_eq!(stateful_set(&set, None)[0], of("spec.volumeClaimTemplates[0]"));
        assert_eq!(stateful_set(&set, Some(&set))[0], of("spec.volumeClaimTemplates[0].Spec"));
        assert!(stateful_set(&set, None)[1].starts_with("spec.revisionHistoryLimit: a negative value"));
    }

    #[test]
    fn certificates_and_keys_without_pem_data_are_reported() {
        let block =
            |name: &str| STANDARD.encode(format!("-----BEGIN {name}-----\nAA==\n-----END {name}-----\n"));
        let warnings = |certificate: &str, key: &str| {
            let data = json!({"tls.crt": certificate, "tls.key": key});
            secret(&json!({"type": "kubernetes.io/tls", "data": data}), None).join("; ")
        };
        let (certificate, key) = (block("CERTIFICATE"), block("PRIVATE KEY"));
        assert_eq!(warnings("YQ==", &key), "tls: failed to find any PEM data in certificate input");
        assert_eq!(warnings(&certificate, "YQ=="), "tls: failed to find any PEM data in key input");
        assert_eq!(warnings(&certificate, &key), "");
        assert_eq!(secret(&json!({"type": "Opaque"}), None), Vec::<String>::new());
    }

    #[test]
    fn a_key_that_belongs_to_another_certificate_is_reported() {
        let issued = || {
            let key = rcgen::KeyPair::generate().expect("a key");
            let parameters = rcgen::CertificateParams::new(["a".to_owned()]).expect("a name");
            let certificate = parameters.self_signed(&key).expect("a certificate");
            (STANDARD.encode(certificate.pem()), STANDARD.encode(key.serialize_pem()))
        };
        let ((certificate, key), (_, other)) = (issued(), issued());
        let warnings = |key: &str| {
            let data = json!({"tls.crt": certificate, "tls.key": key});
            secret(&json!({"type": "kubernetes.io/tls", "data": data}), None).join("; ")
        };
        assert_eq!(warnings(&key), "");
        assert_eq!(warnings(&other), "tls: private key does not match public key");
    }
}
