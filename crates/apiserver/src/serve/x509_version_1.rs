//! Verifies certificates of X.509 version 1, which `openssl x509 -req` creates without an extension file.
//!
//! webpki supports version 3 only; kube-apiserver accepts both. A certificate of version 1 does not state its purpose,
//! so it is valid for a client, as in Go. It must be signed by the CA itself: chains are handled by webpki.

use rustls::crypto::WebPkiSupportedAlgorithms;
use x509_parser::prelude::{X509Certificate, X509Version};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

/// Returns whether this is a certificate of version 1.
pub(super) fn is_version_1(certificate: &X509Certificate<'_>) -> bool {
    certificate.version() == X509Version::V1
}

/// Refuses a certificate that the CA did not sign, or that is not valid at this time (in seconds since 1970).
pub(super) fn verify(
    certificate: &X509Certificate<'_>,
    ca: &X509Certificate<'_>,
    now: i64,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<(), &'static str> {
    if certificate.issuer().as_raw() != ca.subject().as_raw() {
        return Err("it was issued by another CA");
    }
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Err("it is not valid yet");
    }
    if now > validity.not_after.timestamp() {
        return Err("it has expired");
    }
    // The signed part also names the algorithm, which must match the one outside it.
    if certificate.tbs_certificate.signature != certificate.signature_algorithm {
        return Err("its signature uses another algorithm than it names");
    }
    if is_signed_by(certificate, ca.public_key(), algorithms) {
        Ok(())
    } else {
        Err("it is not signed by this server's CA")
    }
}

fn is_signed_by(
    certificate: &X509Certificate<'_>,
    key: &SubjectPublicKeyInfo<'_>,
    algorithms: &WebPkiSupportedAlgorithms,
) -> bool {
    let (Some(signed_with), Some(key_is)) =
        (algorithm_identifier(&certificate.signature_algorithm), algorithm_identifier(&key.algorithm))
    else {
        return false;
    };
    let message = certificate.tbs_certificate.as_ref();
    let fits = algorithms.all.iter().filter(|one| {
        *one.signature_alg_id().as_ref() == *signed_with && *one.public_key_alg_id().as_ref() == *key_is
    });
    fits.into_iter().any(|one| {
        one.verify_signature(&key.subject_public_key.data, message, &certificate.signature_value.data).is_ok()
    })
}

/// Returns the identifier of an algorithm as webpki writes it: the DER of its parts, without the enclosing sequence.
fn algorithm_identifier(algorithm: &AlgorithmIdentifier<'_>) -> Option<Vec<u8>> {
    let oid = algorithm.algorithm.as_bytes();
    let mut der = vec![0x06, u8::try_from(oid.len()).ok().filter(|length| *length < 0x80)?];
    der.extend_from_slice(oid);
    if let Some(parameters) = &algorithm.parameters {
        let tag = u8::try_from(parameters.tag().0).ok().filter(|tag| *tag < 0x1f)?;
        let class = if parameters.header.is_constructed() { 0x20 } else { 0 };
        der.push(tag | class);
        der.push(u8::try_from(parameters.data.len()).ok().filter(|length| *length < 0x80)?);
        der.extend_from_slice(parameters.data);
    }
    Some(der)
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;
    use x509_parser::pem::{Pem, parse_x509_pem};

    use super::*;

    /// Created by OpenSSL 3.0: `openssl req -x509 -new -key ca.key -subj /CN=ca -days 36000`.
    const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUWkLTZyJF2joUBL2XZ8Ck/pmHyJ0wCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTE3MTUwNjA2WhgPMjEyNTA2MTExNTA2MDZa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEp0HlwrEe
bm3nWRwTH3FLngnKiTMP3JT0bugH7JSC+53GBdyIpkbHEGVr9KMww6t8iU1ZoKmN
Jf9zeRpXiwwrraNTMFEwHQYDVR0OBBYEFJoTkv3x5hcuIc1FKLp7p3CLVAMnMB8G
A1UdIwQYMBaAFJoTkv3x5hcuIc1FKLp7p3CLVAMnMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAPVXdxqZCoJ5fXuRTJrbeSzQKFB255HMSzEvrKtv
rM09AiEA7E64iwadGqfBm9gTYn4ZfTKjpZ3J50NRRXjTcX5qOgQ=
-----END CERTIFICATE-----
";
    /// Created by OpenSSL 3.0: `openssl x509 -req -in jane.csr -CA ca.crt -CAkey ca.key -days 36000`.
    const JANE: &str = "-----BEGIN CERTIFICATE-----
MIIBJjCBzgIURn3CYhoCC1fFjnrKn3hsU05XsyMwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTE3MTUwNjA2WhgPMjEyNTA2MTExNTA2MDZaMB4xDTAL
BgNVBAMMBGphbmUxDTALBgNVBAoMBHRlYW0wWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAASN5BUrd2G5z9EoQODYOlNxORQ7eBL31Cu+8rg0GFLiy7VlPrb7noxLPvzm
lTiKed4W+pbUXvsYlm2DJvbJLfTDMAoGCCqGSM49BAMCA0cAMEQCIHOneOdPlJ9m
mo/zJKlDCWYYhCljRwwyk+63r7HumiIVAiA1TJ80Xpdnw5xyt/sOeEXenWvBbHqj
Ywvk+naHiGJqiA==
-----END CERTIFICATE-----
";
    /// A CA with the same name with a different key.
    const OTHER_CA: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIUcCOOY2r0h8Ww8tzeN7n1aznWfV4wCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTE3MTUwNjUwWhgPMjEyNTA2MTExNTA2NTBa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE82TsztHi
xLs/+muhncKcEhc/8C5cB+HgAAV1Yyv9svgJywaR8in1xlenWGf+LKVtp1PbUHF2
rK495pe0IPEKFqNTMFEwHQYDVR0OBBYEFPXMKZ7dckX/k9Ky+vfRZXogs0vHMB8G
A1UdIwQYMBaAFPXMKZ7dckX/k9Ky+vfRZXogs0vHMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIgdg+GRMgqHVeMpIa31DkZxaGXXGz26oaABlDAAbOd
MfsCIQDCPtd9yuzIVxVkRCzUXTWR6rRMrYEROUeso8eT2kV1NA==
-----END CERTIFICATE-----
";
    /// A time at which both are valid.
    const NOW: i64 = 1_800_000_000;

    fn read(text: &str) -> Pem {
        parse_x509_pem(text.as_bytes()).expect("a certificate").1
    }

    #[track_caller]
    fn check(certificate: &[u8], ca: &str, now: i64, expected: Result<(), &str>) {
        let ca = read(ca);
        let algorithms = ring::default_provider().signature_verification_algorithms;
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).expect("a certificate");
        assert!(is_version_1(&certificate));
        assert_eq!(verify(&certificate, &ca.parse_x509().expect("a CA"), now, &algorithms), expected);
    }

    #[test]
    fn a_certificate_of_the_ca_is_good_while_it_is_valid() {
        let jane = read(JANE).contents;
        check(&jane, CA, NOW, Ok(()));
        check(&jane, CA, 0, Err("it is not valid yet"));
        check(&jane, CA, 10_000_000_000, Err("it has expired"));
    }

    #[test]
    fn a_certificate_that_the_ca_did_not_sign_is_refused() {
        let jane = read(JANE).contents;
        check(&jane, OTHER_CA, NOW, Err("it is not signed by this server's CA"));
        let mut joan = jane.clone();
        let at = joan.windows(4).position(|four| four == b"jane").expect("her name is in it");
        joan[at + 1] = b'o';
        check(&joan, CA, NOW, Err("it is not signed by this server's CA"));
        let mut of_another = jane;
        let at = of_another.windows(2).position(|two| two == b"ca").expect("the name of the CA is in it");
        of_another[at] = b'x';
        check(&of_another, CA, NOW, Err("it was issued by another CA"));
    }
}
