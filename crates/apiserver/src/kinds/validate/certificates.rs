//! Requests for certificates: a request in PEM, a signer, and what the certificate is for.
//!
//! Whether the request inside the PEM block parses and is signed is deliberately left to whoever signs it.

use std::collections::BTreeSet;

use serde_json::json;

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::{names, pem};

/// Sorted, as complaints list them.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The shortest life that may be asked for.
const EXPIRATION_S_MIN: i64 = 600;
/// A domain name, and a whole signer name: a domain, a label and another domain with what is between them.
const DOMAIN_BYTES_MAX: usize = 253;
const SIGNER_BYTES_MAX: usize = 571;

/// A new CertificateSigningRequest; its spec never changes.
pub(in crate::kinds) fn request(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let request = spec.field("request");
    if !pem::is_request(request.text()) {
        request.invalid("PEM block type must be CERTIFICATE REQUEST", errors);
    }
    let usages = spec.field("usages");
    if usages.len() == 0 {
        usages.required("", errors);
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        usage.must_be_one_of(&USAGES, errors);
        if !seen.insert(usage.text().to_owned()) {
            usage.duplicate(errors);
        }
    }
    let signer = spec.field("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        signer.invalid("the legacy signerName is not allowed via this API version", errors);
    } else if signer.must_be_set(errors) {
        signer_name(&signer, errors);
    }
    let expires = spec.field("expirationSeconds");
    if expires.is_set() && expires.number() < EXPIRATION_S_MIN {
        expires.invalid("may not specify a duration less than 600 seconds (10 minutes)", errors);
    }
}

fn signer_name(signer: &At<'_>, errors: &mut Errors) {
    let parts = signer.text().split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        signer.invalid(detail, errors);
        return;
    };
    for (bytes, max) in [(domain.len(), DOMAIN_BYTES_MAX), (signer.text().len(), SIGNER_BYTES_MAX)] {
        if bytes > max {
            errors.push(Error::too_long(&signer.path, max));
        }
    }
    part(signer, domain, names::label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(&signer.path, &json!(domain), detail));
    }
    part(signer, path, names::subdomain, errors);
}

/// The first bad label of one part is named.
fn part(signer: &At<'_>, part: &str, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let bad = part.split('.').find(|label| !check(label).is_empty());
    for (label, complaint) in
        bad.into_iter().flat_map(|label| check(label).into_iter().map(move |why| (label, why)))
    {
        let detail = format!("validating label {label:?}: {complaint}");
        errors.push(Error::invalid(&signer.path, &json!(part), &detail));
    }
}
