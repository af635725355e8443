//! Signs and verifies the JSON Web Tokens of service accounts, which are signed with ECDSA on P-256 (ES256) or with RSA
//! (RS256), depending on the key.
//!
//! **Invariant:** `VerifyingKey::verify` returns claims only for tokens that this key signed with its own algorithm;
//! it does not judge the claims. The nonce of a signature comes from `ring`, not from `core::Entropy`: two signatures
//! of the same text differ, and nothing depends on their bytes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::x509::SubjectPublicKeyInfo;

/// An uncompressed point is one byte 0x04 followed by two coordinates of this size.
const COORDINATE_BYTES: usize = 32;
/// An uncompressed point on P-256.
const POINT_BYTES: usize = 1 + 2 * COORDINATE_BYTES;
/// The first bytes of a private key for P-256 in PKCS#8: version 0 and the identifiers of the algorithm and the
/// curve.
const P256_KEY_START: [u8; 24] = [
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// The keys for service account tokens: one signs, all of them verify.
#[derive(Debug)]
pub struct TokenKeys {
    pub(super) signing: SigningKey,
    pub(super) verifying: Vec<VerifyingKey>,
}

impl TokenKeys {
    /// Reads the signing key, and additional keys whose tokens are accepted. All of them are PEM; the additional ones
    /// may be public keys, certificates or private keys.
    ///
    /// # Errors
    /// Fails if a text contains no usable key.
    pub fn from_pem(signing: &str, others: &[String]) -> Result<Self, String> {
        let signing = SigningKey::from_pem(signing)?;
        let mut verifying = Vec::new();
        for text in others {
            verifying.extend(VerifyingKey::all_from_pem(text)?);
        }
        Ok(Self::new(signing, verifying))
    }

    fn new(signing: SigningKey, others: Vec<VerifyingKey>) -> Self {
        let mut verifying = vec![signing.public.clone()];
        for key in others {
            if !verifying.contains(&key) {
                verifying.push(key);
            }
        }
        Self { signing, verifying }
    }

    /// Returns the claims of a token that one of the keys signed.
    pub(super) fn verify(&self, token: &str) -> Option<Value> {
        self.verifying.iter().find_map(|key| key.verify(token))
    }
}

impl From<SigningKey> for TokenKeys {
    fn from(signing: SigningKey) -> Self {
        Self::new(signing, Vec::new())
    }
}

/// Signs tokens.
pub struct SigningKey {
    pair: PrivateKey,
    public: VerifyingKey,
    header: String,
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// The algorithm that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    P256,
    Rsa,
}

/// Verifies tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    kind: KeyKind,
    /// A point on P-256, or the DER of an RSA key as in PKCS#1.
    bytes: Vec<u8>,
    id: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl KeyKind {
    /// Returns the name of the algorithm as in tokens.
    fn algorithm(self) -> &'static str {
        match self {
            Self::P256 => "ES256",
            Self::Rsa => "RS256",
        }
    }
}

impl SigningKey {
    /// Generates a new key in PKCS#8 form.
    pub fn generate() -> Vec<u8> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("the kernel's random generator is always there once booted")
            .as_ref()
            .to_vec()
    }

    /// Reads a key from PKCS#8 bytes; returns `None` unless they contain a key for P-256 or for RSA.
    pub fn from_pkcs8(bytes: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random) {
            Ok(pair) => Some(Self::ecdsa(pair)),
            Err(_) => RsaKeyPair::from_pkcs8(bytes).ok().map(Self::rsa),
        }
    }

    /// Reads the first private key of a PEM text.
    fn from_pem(text: &str) -> Result<Self, String> {
        let sections = pem_sections(text)?;
        let mut keys = sections.iter().filter_map(|(kind, der)| Self::from_section(*kind, der));
        keys.next().ok_or_else(|| "it has no private key for P-256 or RSA of at least 2048 bits".to_owned())
    }

    fn from_section(kind: SectionKind, der: &[u8]) -> Option<Self> {
        match kind {
            SectionKind::PrivateKey => Self::from_pkcs8(der),
            SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der).ok().map(Self::rsa),
            SectionKind::EcPrivateKey => {
                let body = [&P256_KEY_START[..], &der_value(0x04, der)?].concat();
                Self::from_pkcs8(&der_value(0x30, &body)?)
            }
            _ => None,
        }
    }

    fn ecdsa(pair: EcdsaKeyPair) -> Self {
        let public = VerifyingKey::new(KeyKind::P256, pair.public_key().as_ref());
        Self::new(PrivateKey::Ecdsa(pair), public)
    }

    fn rsa(pair: RsaKeyPair) -> Self {
        let public = VerifyingKey::new(KeyKind::Rsa, pair.public_key().as_ref());
        Self::new(PrivateKey::Rsa(pair), public)
    }

    fn new(pair: PrivateKey, public: VerifyingKey) -> Self {
        let header = json!({"alg": public.kind.algorithm(), "kid": public.id});
        Self { pair, header: URL_SAFE_NO_PAD.encode(header.to_string()), public }
    }

    /// Signs the claims and returns the token.
    pub fn sign(&self, claims: &Value) -> String {
        let text = format!("{}.{}", self.header, URL_SAFE_NO_PAD.encode(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            PrivateKey::Ecdsa(pair) => {
                pair.sign(&random, text.as_bytes()).map(|signature| signature.as_ref().to_vec())
            }
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).map(|()| signature)
            }
        };
        let signature =
            signature.expect("signing fails only without random numbers, and the kernel has them");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl VerifyingKey {
    fn new(kind: KeyKind, bytes: &[u8]) -> Self {
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        Self { kind, bytes: bytes.to_vec(), id }
    }

    /// Reads all keys from a PEM text: public keys, and the public keys of certificates and private keys.
    fn all_from_pem(text: &str) -> Result<Vec<Self>, String> {
        let sections = pem_sections(text)?;
        let keys = sections.iter().filter_map(|(kind, der)| match kind {
            SectionKind::PublicKey => {
                SubjectPublicKeyInfo::from_der(der).ok().and_then(|(_, info)| Self::from_info(&info))
            }
            SectionKind::Certificate => {
                let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
                Self::from_info(certificate.public_key())
            }
            kind => SigningKey::from_section(*kind, der).map(|key| key.public),
        });
        let keys: Vec<Self> = keys.collect();
        if keys.is_empty() {
            return Err("it has no public key, certificate or private key for P-256 or RSA".to_owned());
        }
        Ok(keys)
    }

    fn from_info(info: &SubjectPublicKeyInfo<'_>) -> Option<Self> {
        let bytes = &*info.subject_public_key.data;
        match info.parsed().ok()? {
            PublicKey::EC(_) if bytes.len() == POINT_BYTES => Some(Self::new(KeyKind::P256, bytes)),
            PublicKey::RSA(_) => Some(Self::new(KeyKind::Rsa, bytes)),
            _ => None,
        }
    }

    /// Returns the claims of a token that this key signed.
    fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        // The key determines the algorithm: a token cannot choose a weaker one, or use a public key as a shared
        // secret.
        if header["alg"] != self.kind.algorithm() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            KeyKind::P256 => &ECDSA_P256_SHA256_FIXED,
            KeyKind::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(text.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// Returns the key in the form that other programs fetch to verify tokens themselves.
    pub fn jwk(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.kind.algorithm()});
        let mut set = |name: &str, value: &[u8]| key[name] = URL_SAFE_NO_PAD.encode(value).into();
        match (self.kind, RSAPublicKey::from_der(&self.bytes)) {
            (KeyKind::P256, _) => {
                let (x, y) = self.bytes[1..].split_at(COORDINATE_BYTES);
                set("x", x);
                set("y", y);
                key["kty"] = "EC".into();
                key["crv"] = "P-256".into();
            }
            (KeyKind::Rsa, parsed) => {
                if let Ok((_, parsed)) = parsed {
                    set("n", unsigned(parsed.modulus));
                    set("e", unsigned(parsed.exponent));
                }
                key["kty"] = "RSA".into();
            }
        }
        key
    }
}

/// Returns the sections of a PEM text.
fn pem_sections(text: &str) -> Result<Vec<(SectionKind, Vec<u8>)>, String> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it is not PEM: {error}"))
}

/// Strips the leading zero with which DER marks a number as positive.
fn unsigned(number: &[u8]) -> &[u8] {
    number.strip_prefix(&[0]).unwrap_or(number)
}

/// Returns a short value with its tag and length; `None` if it is longer than any key for P-256.
fn der_value(tag: u8, value: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(value.len()).ok()?;
    let header = if length < 0x80 { vec![tag, length] } else { vec![tag, 0x81, length] };
    Some([header, value.to_vec()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> TokenKeys {
        SigningKey::from_pkcs8(&SigningKey::generate()).unwrap().into()
    }

    #[test]
    fn a_key_verifies_what_it_signed_and_nothing_else() {
        let (key, other) = (keys(), keys());
        let claims = json!({"sub": "x", "exp": 7});
        let token = key.signing.sign(&claims);
        assert_eq!(key.verify(&token), Some(claims));
        assert_eq!(other.verify(&token), None);
        let (text, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = text.split_once('.').unwrap();
        let forged = URL_SAFE_NO_PAD.encode(r#"{"sub":"root"}"#);
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        for bad in [
            format!("{header}.{forged}.{signature}"),
            format!("{unsigned}.{forged}."),
            format!("{text}."),
            format!("{text}.{signature}x"),
            String::new(),
            "a.b".into(),
            "...".into(),
        ] {
            assert_eq!(key.verify(&bad), None, "{bad}");
        }
    }

    #[test]
    fn several_keys_are_accepted_and_the_first_one_signs() {
        let old = rcgen::KeyPair::generate().unwrap();
        let new = rcgen::KeyPair::generate().unwrap();
        let before = TokenKeys::from_pem(&old.serialize_pem(), &[]).unwrap();
        let token = before.signing.sign(&json!({"sub": "x"}));
        for kept in [old.serialize_pem(), old.public_key_pem()] {
            let after = TokenKeys::from_pem(&new.serialize_pem(), &[kept]).unwrap();
            assert!(after.verify(&token).is_some());
            assert!(before.verify(&after.signing.sign(&json!({"sub": "x"}))).is_none());
        }
        assert!(TokenKeys::from_pem(&new.serialize_pem(), &[]).unwrap().verify(&token).is_none());
        assert!(TokenKeys::from_pem("", &[]).is_err());
        assert!(TokenKeys::from_pem(&new.serialize_pem(), &["no key".to_owned()]).is_err());
    }
}
