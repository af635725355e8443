//! Parses certificate requests (PKCS#10) and checks them against the rules of Kubernetes' own signers, with the wording
//! of Kubernetes' controllers.

use std::collections::BTreeSet;

use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::FromDer as _;

/// The signer of certificates for clients of this server.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of client certificates for nodes.
pub(crate) const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates for nodes.
const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer that makes no promises and has no rules.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const NODES_GROUP: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// The content of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one kind of alternative name is there")]
pub(crate) struct CertificateRequest {
    /// The DER of the name and of the public key, one after the other.
    pub(super) holder: Vec<u8>,
    /// The DER of the alternative names.
    pub(super) alternative_names: Option<Vec<u8>>,
    pub(crate) common_name: String,
    organizations: Vec<String>,
    has_dns_names: bool,
    has_addresses: bool,
    has_emails: bool,
    has_uris: bool,
}

impl CertificateRequest {
    /// Parses a PEM request. Its signature must prove that the sender has the key.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
        let (_, request) = X509CertificationRequest::from_der(&der).map_err(|error| error.to_string())?;
        request
            .verify_signature()
            .map_err(|error| format!("unable to verify certificate request signature: {error}"))?;
        let info = &request.certification_request_info;
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().unwrap_or_default().to_owned()
        };
        let mut parsed = Self {
            holder: [info.subject.as_raw(), info.subject_pki.raw].concat(),
            common_name: info.subject.iter_common_name().last().map(text).unwrap_or_default(),
            organizations: info.subject.iter_organization().map(text).collect(),
            ..Self::default()
        };
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(asked) = attribute.parsed_attribute() else { continue };
            for extension in asked.extensions.iter().filter(|one| one.oid == OID_X509_EXT_SUBJECT_ALT_NAME) {
                parsed.alternative_names = Some(extension.value.to_vec());
                if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                    parsed.note_names(&names.general_names);
                }
            }
        }
        Ok(parsed)
    }

    fn note_names(&mut self, names: &[GeneralName<'_>]) {
        for name in names {
            match name {
                GeneralName::DNSName(_) => self.has_dns_names = true,
                GeneralName::IPAddress(_) => self.has_addresses = true,
                GeneralName::RFC822Name(_) => self.has_emails = true,
                GeneralName::URI(_) => self.has_uris = true,
                _ => {}
            }
        }
    }

    /// Returns `None` if none of our signers has this name; otherwise returns whether that signer accepts such a
    /// request.
    pub(crate) fn check_signer(&self, signer: &str, usages: &[&str]) -> Option<Result<(), String>> {
        match signer {
            CLIENT => Some(check_client_usages(usages)),
            NODE_CLIENT => Some(self.check_node_client(usages)),
            NODE_SERVING => Some(self.check_node_serving(usages)),
            LEGACY => Some(Ok(())),
            _ => None,
        }
    }

    /// Checks a client certificate for a node.
    pub(crate) fn check_node_client(&self, usages: &[&str]) -> Result<(), String> {
        self.check_organization()?;
        for (is_there, kind) in [
            (self.has_dns_names, "DNS"),
            (self.has_emails, "Email"),
            (self.has_addresses, "IP"),
            (self.has_uris, "URI"),
        ] {
            if is_there {
                return Err(format!("{kind} subjectAltNames are not allowed"));
            }
        }
        self.check_common_name()?;
        check_usages(usages, "client auth")
    }

    fn check_node_serving(&self, usages: &[&str]) -> Result<(), String> {
        self.check_organization()?;
        if !self.has_dns_names && !self.has_addresses {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
        for (is_there, kind) in [(self.has_emails, "Email"), (self.has_uris, "URI")] {
            if is_there {
                return Err(format!("{kind} subjectAltNames are not allowed"));
            }
        }
        check_usages(usages, "server auth")?;
        self.check_common_name()
    }

    fn check_organization(&self) -> Result<(), String> {
        if self.organizations == [NODES_GROUP] {
            return Ok(());
        }
        Err(format!("subject organization is not {NODES_GROUP}"))
    }

    fn check_common_name(&self) -> Result<(), String> {
        if self.common_name.starts_with(NODE_PREFIX) {
            return Ok(());
        }
        Err(format!("subject common name does not begin with {NODE_PREFIX}"))
    }
}

fn check_client_usages(usages: &[&str]) -> Result<(), String> {
    let optional = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !optional.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if usages.contains(&"client auth") {
        return Ok(());
    }
    Err("missing required usage for client certificate: client auth".to_owned())
}

/// Checks the usages of a node's certificate. A key that is not RSA needs no encipherment.
fn check_usages(usages: &[&str], purpose: &str) -> Result<(), String> {
    let usages: BTreeSet<&str> = usages.iter().copied().collect();
    let without = BTreeSet::from(["digital signature", purpose]);
    let with = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    if usages == with || usages == without {
        return Ok(());
    }
    let mut listed = ["digital signature", "key encipherment", purpose];
    listed.sort_unstable();
    Err(format!("usages did not match [{}]", listed.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_get_certificates_for_nodes_only() {
        let node = CertificateRequest {
            common_name: "system:node:a".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..CertificateRequest::default()
        };
        let client = ["client auth", "digital signature"];
        assert_eq!(node.check_signer(NODE_CLIENT, &client), Some(Ok(())));
        let refused = |request: &CertificateRequest, signer: &str, usages: &[&str], why: &str| {
            assert_eq!(request.check_signer(signer, usages), Some(Err(why.to_owned())), "{signer}");
        };
        refused(
            &node,
            NODE_CLIENT,
            &["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        );
        refused(&node, NODE_SERVING, &["server auth"], "DNS or IP subjectAltName is required");
        let named = CertificateRequest { has_dns_names: true, ..node.clone() };
        refused(&named, NODE_CLIENT, &client, "DNS subjectAltNames are not allowed");
        assert_eq!(named.check_signer(NODE_SERVING, &["server auth", "digital signature"]), Some(Ok(())));
        let person = CertificateRequest { organizations: Vec::new(), ..node };
        refused(&person, NODE_CLIENT, &client, "subject organization is not system:nodes");
        refused(&person, CLIENT, &["server auth"], "invalid usage for client certificate: server auth");
        refused(
            &person,
            CLIENT,
            &["key encipherment"],
            "missing required usage for client certificate: client auth",
        );
        assert_eq!(person.check_signer("demo.dev/x", &[]), None);
    }
}
