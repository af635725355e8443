//! Issues certificates for users in several groups. A group is an organization in the subject of the certificate, and
//! rcgen writes only one of each kind. The subject is therefore replaced in a certificate made by rcgen, which is then
//! signed again.

use rcgen::{CertificateParams, Issuer, KeyPair, PublicKeyData as _, SigningKey as _};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The DER tags that are used in this module.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// Lengths from here on are written as a byte count followed by that many bytes.
const LONG_LENGTH: usize = 0x80;

/// The object identifiers 2.5.4.3 and 2.5.4.10.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// Issues a certificate with these parameters to a user, and returns it as PEM. The name in the parameters is
/// ignored.
pub(crate) fn issue(
    params: &CertificateParams,
    key: &KeyPair,
    ca: &Issuer<'_, KeyPair>,
    user: &str,
    groups: &[&str],
) -> Result<String, rcgen::Error> {
    let holder = [name(user, groups), key.subject_public_key_info()].concat();
    issue_to(params, key, ca, &holder)
}

/// Issues a certificate with these parameters to a holder: the DER of its name and of its public key, one after the
/// other. The name in the parameters is ignored, and `key` may be any of our keys.
pub(super) fn issue_to(
    params: &CertificateParams,
    key: &KeyPair,
    ca: &Issuer<'_, KeyPair>,
    holder: &[u8],
) -> Result<String, rcgen::Error> {
    let made = params.signed_by(key, ca)?;
    let der = made.der();
    let (_, parsed) = X509Certificate::from_der(der).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    let tbs = &parsed.tbs_certificate;
    let signed: &[u8] = tbs.as_ref();
    // The public key follows the name.
    let parts =
        split(signed, tbs.subject.as_raw()).zip(split(signed, tbs.subject_pki.raw)).zip(split(der, signed));
    let (((before, _), (_, after)), (_, algorithm_and_signature)) =
        parts.ok_or(rcgen::Error::CouldNotParseCertificate)?;
    // The sequence header is left out, because it has the old length.
    let before = &before[header_bytes(before)..];
    let signed = tagged(SEQUENCE, &[before, holder, after].concat());
    let algorithm = &algorithm_and_signature[..value_bytes(algorithm_and_signature)];
    // A bit string begins with its number of unused bits.
    let signature = tagged(BIT_STRING, &[&[0], &*ca.key().sign(&signed)?].concat());
    let certificate = tagged(SEQUENCE, &[&*signed, algorithm, &signature].concat());
    Ok(pem(&certificate))
}

/// Returns the name of a user and the user's groups.
fn name(user: &str, groups: &[&str]) -> Vec<u8> {
    let attribute = |kind: &[u8], value: &str| {
        let attribute = [tagged(OBJECT_IDENTIFIER, kind), tagged(UTF8_STRING, value.as_bytes())].concat();
        tagged(SET, &tagged(SEQUENCE, &attribute))
    };
    let mut attributes: Vec<u8> = groups.iter().flat_map(|group| attribute(&ORGANIZATION, group)).collect();
    attributes.extend(attribute(&COMMON_NAME, user));
    tagged(SEQUENCE, &attributes)
}

/// Returns a value with its tag and length.
fn tagged(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(value.len()) {
        Ok(short) if value.len() < LONG_LENGTH => bytes.push(short),
        _ => {
            let length = value.len().to_be_bytes();
            let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            bytes.push(0x80 | u8::try_from(digits.len()).expect("a length has at most eight bytes"));
            bytes.extend_from_slice(digits);
        }
    }
    bytes.extend_from_slice(value);
    bytes
}

/// Returns the size of the tag and length at the start of these bytes.
fn header_bytes(bytes: &[u8]) -> usize {
    let first = usize::from(bytes[1]);
    if first < LONG_LENGTH { 2 } else { 2 + (first - LONG_LENGTH) }
}

/// Returns the size of the value at the start of these bytes, including its tag and length.
fn value_bytes(bytes: &[u8]) -> usize {
    let header = header_bytes(bytes);
    let digits = if header == 2 { &bytes[1..2] } else { &bytes[2..header] };
    header + digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
}

/// Returns the bytes before and after `part`, which is a slice of `whole`.
fn split<'a>(whole: &'a [u8], part: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    Some((whole.get(..start)?, whole.get(start + part.len()..)?))
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    /// The conventional length of a line.
    const LINE: usize = 64;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..text.len()).step_by(LINE).map(|at| &text[at..text.len().min(at + LINE)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
