//! JSON Web Tokens of service accounts: signed with ECDSA on P-256 (ES256); no other algorithm is accepted.
//!
//! **Invariant:** [`SigningKey::verify`] returns claims only for tokens that this key signed; it does not judge the
//! claims. The nonce of a signature comes from `ring`, not from `core::Entropy`: two signatures of one text differ, and
//! nothing depends on their bytes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// An uncompressed point is one byte 0x04 followed by two coordinates of this size.
const COORDINATE_BYTES: usize = 32;

/// Signs and verifies tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
    header: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Generates a new key, as PKCS#8.
    pub fn generate() -> Vec<u8> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("the kernel's random generator is always there once booted")
            .as_ref()
            .to_vec()
    }

    /// Reads a key from PKCS#8 bytes; returns `None` unless they hold one for P-256.
    pub fn from_pkcs8(bytes: &[u8]) -> Option<Self> {
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &SystemRandom::new()).ok()?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key().as_ref()));
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "ES256", "kid": id}).to_string());
        Some(Self { pair, id, header })
    }

    /// Signs the claims and returns the token.
    pub fn sign(&self, claims: &Value) -> String {
        let text = format!("{}.{}", self.header, URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), text.as_bytes())
            .expect("signing fails only without random numbers, and the kernel has them");
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the claims of a token that this key signed.
    pub fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        // The header must be ours, byte for byte: no other algorithm or key can be smuggled in.
        if header != self.header {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(text.as_bytes(), &signature)
            .ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// Returns the public key in the form that others fetch to verify tokens themselves.
    pub fn public_jwk(&self) -> Value {
        let point = &self.pair.public_key().as_ref()[1..];
        let coordinate = |at: usize| URL_SAFE_NO_PAD.encode(&point[at..at + COORDINATE_BYTES]);
        json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": coordinate(0), "y": coordinate(COORDINATE_BYTES)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_verifies_what_it_signed_and_nothing_else() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate()).unwrap();
        let other = SigningKey::from_pkcs8(&SigningKey::generate()).unwrap();
        let claims = json!({"sub": "x", "exp": 7});
        let token = key.sign(&claims);
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
}
