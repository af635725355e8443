//! Parses certificates and certificate requests from the base64 text of a PEM file in JSON.
//!
//! Signatures and validity are deliberately not checked: that is up to signers and to those who trust the certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::parse_x509_certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;

/// The encoded object identifiers of the key types: `1.2.840.113549.1.1.1` and `1.2.840.10045.2.1`.
const RSA_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// A block of a PEM file.
struct PemBlock {
    label: String,
    has_headers: bool,
    content: Vec<u8>,
}

fn text(encoded: &str) -> String {
    String::from_utf8_lossy(&STANDARD.decode(encoded).unwrap_or_default()).into_owned()
}

/// Returns the well-formed blocks; skips anything between them.
fn blocks(text: &str) -> Vec<PemBlock> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((label, after)) = after.split_once("-----") else { break };
        let Some((inside, after)) = after.split_once(&format!("-----END {label}-----")) else { continue };
        let has_headers = inside.contains(':');
        let lines = inside.lines().filter(|line| !line.contains(':'));
        let joined: String = lines.flat_map(str::chars).filter(|letter| !letter.is_whitespace()).collect();
        if let Ok(content) = STANDARD.decode(joined) {
            blocks.push(PemBlock { label: label.to_owned(), has_headers, content });
            rest = after;
        }
    }
    blocks
}

/// Returns why a private key does not belong to a certificate, in the words of Go's TLS library. `None` means that the
/// key does belong to it, or that this cannot be determined without computing the public key: this is the case for keys
/// written without it, and for Ed25519.
pub(crate) fn key_mismatch(certificate: &str, key: &str) -> Option<&'static str> {
    let (certificates, keys) = (blocks(&text(certificate)), blocks(&text(key)));
    let certificate = certificates.iter().find(|block| block.label == "CERTIFICATE")?;
    let key = keys.iter().find(|block| block.label.ends_with("PRIVATE KEY"))?;
    let (_, certificate) = parse_x509_certificate(&certificate.content).ok()?;
    let has = |part: &[u8]| memchr::memmem::find(&key.content, part).is_some();
    let is_rsa = key.label == "RSA PRIVATE KEY" || has(RSA_KEY);
    let is_elliptic = key.label == "EC PRIVATE KEY" || (!is_rsa && has(ELLIPTIC_KEY));
    // A private key contains its public key: always the modulus of RSA, and usually the point of a curve.
    let (is_same_type, is_other) = match certificate.public_key().parsed().ok()? {
        PublicKey::RSA(public) => {
            let digits = public.modulus.iter().position(|byte| *byte != 0)?;
            (is_rsa, !has(&public.modulus[digits..]))
        }
        PublicKey::EC(point) => {
            let has_point = key.content.len() > point.data().len() * 3 / 2;
            (is_elliptic, has_point && !has(point.data()))
        }
        _ => return None,
    };
    if !is_same_type && (is_rsa || is_elliptic) {
        return Some("tls: private key type does not match public key type");
    }
    (is_same_type && is_other).then_some("tls: private key does not match public key")
}

/// Returns whether the first block is a certificate request.
pub(crate) fn is_request(encoded: &str) -> bool {
    blocks(&text(encoded)).first().is_some_and(|block| block.label == "CERTIFICATE REQUEST")
}

/// Returns why these are not valid certificates; `None` if they are.
pub(crate) fn certificate_fault(encoded: &str) -> Option<String> {
    let blocks = blocks(&text(encoded));
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if block.content.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        parse_x509_certificate(&block.content).is_err().then(|| "x509: malformed certificate".to_owned())
    })
}

/// Returns the organizations that a request names: the groups its holder would belong to. Returns `None` if they are
/// not certain. Other programs parse PEM and names a little differently, so there must be exactly one unambiguous
/// block, and every name must be parsed.
pub fn organizations(encoded: &str) -> Option<Vec<String>> {
    let text = text(encoded);
    let blocks = blocks(&text);
    let [block] = &*blocks else { return None };
    if block.has_headers || text.matches("-----BEGIN").count() > 1 {
        return None;
    }
    let (rest, request) = X509CertificationRequest::from_der(&block.content).ok()?;
    let subject = &request.certification_request_info.subject;
    let names = subject.iter_organization().map(|one| one.as_str().map(str::to_owned).ok());
    if rest.is_empty() { names.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use rcgen::string::BmpString;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn fault(pem: &str) -> String {
        certificate_fault(&STANDARD.encode(pem)).unwrap_or_default()
    }

    #[test]
    fn certificates_are_told_from_others() {
        let key = KeyPair::generate().expect("a key");
        let good = CertificateParams::default().self_signed(&key).expect("signed").pem();
        let rows = [
            (good.clone(), ""),
            (format!("hello\n{good}{good}bye"), ""),
            ("hello".to_owned(), "must contain at least one CERTIFICATE PEM block"),
            (key.serialize_pem(), "only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""),
            (good.replacen("CERTIFICATE-----\n", "CERTIFICATE-----\nA: b\n\n", 1), "no PEM block headers"),
            ("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n".to_owned(), "x509: malformed"),
        ];
        for (pem, expected) in rows {
            let fault = fault(&pem);
            assert!(fault.starts_with(expected) && fault.is_empty() == expected.is_empty(), "{fault}");
        }
    }

    #[test]
    fn a_request_names_groups() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        let request = params.serialize_request(&key).expect("a request").pem().expect("text");
        let encoded = STANDARD.encode(request);
        assert!(is_request(&encoded));
        assert_eq!(organizations(&encoded).unwrap(), ["system:masters"]);
        assert!(organizations("YWJj").is_none() && !is_request("YWJj"));
    }

    #[test]
    fn organizations_that_others_could_read_differently_are_uncertain() {
        let key = KeyPair::generate().expect("a key");
        let request = |value: DnValue| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::OrganizationName, value);
            params.serialize_request(&key).expect("a request").pem().expect("text")
        };
        let of = |pem: String| organizations(&STANDARD.encode(pem));
        let good = request("devs".into());
        assert_eq!(of(good.clone()).unwrap(), ["devs"]);
        assert_eq!(of(format!("hello\n{good}")).unwrap(), ["devs"]);
        assert_eq!(of(format!("{good}{}", request("system:masters".into()))), None);
        assert_eq!(of(format!("-----BEGIN CERTIFICATE REQUEST-----\n!\n{good}")), None);
        let wide = BmpString::try_from("system:masters").expect("letters");
        assert_eq!(of(request(DnValue::BmpString(wide))), None);
    }
}
