//! Why a client certificate was refused, for the log: the client is told 401 and nothing else, as in Kubernetes.
//!
//! **Invariant:** one line in [`PAUSE`] at most, whatever clients present; what was left out is counted in the next line.

use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use x509_parser::prelude::{X509Certificate, X509Version};

/// Between two lines: short enough for somebody who tries a certificate and looks, and a client that asks without end does not
/// fill the log.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// Of the subject: a name and a group or two. The rest is the client's to choose.
const SUBJECT_CHARS_MAX: usize = 100;

/// What to do about a certificate of the first version, which is what `openssl x509 -req` makes without an extension.
const FIRST_VERSION: &str = "it is of X.509 version 1, and only version 3 is accepted; make it with an extension file: \
    openssl x509 -req -extfile FILE …, where FILE says extendedKeyUsage=clientAuth";

/// Certificates refused so far, as far as the log knows.
#[derive(Default)]
pub(super) struct Refused(Mutex<State>);

#[derive(Default)]
struct State {
    told_at: Option<Timestamp>,
    untold: u64,
}

impl Refused {
    /// Logs the refusal, unless another was logged a moment ago.
    pub(super) fn tell(&self, now: Timestamp, subject: &str, reason: &str) {
        if let Some(line) = self.line(now, subject, reason) {
            tracing::warn!("{line}");
        }
    }

    fn line(&self, now: Timestamp, subject: &str, reason: &str) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.told_at.is_some_and(|told| now.duration_since(told).abs() < PAUSE) {
            state.untold += 1;
            return None;
        }
        state.told_at = Some(now);
        let others = match std::mem::take(&mut state.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more were refused since the last line)"),
        };
        let subject: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
        Some(format!("client certificate of {subject:?} refused: {reason}{others}"))
    }
}

/// Why the verifier refused this certificate.
pub(super) fn reason(certificate: Option<&X509Certificate<'_>>, error: &rustls::Error) -> String {
    match certificate.map(|certificate| certificate.version()) {
        Some(X509Version::V1) => FIRST_VERSION.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;

    /// Made by OpenSSL 3.0: `openssl x509 -req -in jane.csr -CA ca.crt -CAkey ca.key -days 36000`.
    const OF_OPENSSL: &str = "-----BEGIN CERTIFICATE-----
MIIBJzCBzgIUZalfVTQACwBA09aBKBFoS/m25AIwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTE3MDc1MjQ0WhgPMjEyNTA2MTEwNzUyNDRaMB4xDTAL
BgNVBAMMBGphbmUxDTALBgNVBAoMBHRlYW0wWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAASbjs9U/sfzHSEB2tkN1zDjiE+MQ6uot1SDVFGpvj80taf5mVlypbDG1nuE
kDxjXjRqXEFcYKtvOYS3MSLDy95fMAoGCCqGSM49BAMCA0gAMEUCIQDy369S3+uu
5120ayzVaK3hJ0gtBxBz+Jmp7J675r7NDAIgcyiE7FcQNeHeb/siMvypMlOg/VHW
pj/imS4+4YsVVao=
-----END CERTIFICATE-----
";

    #[test]
    fn the_reason_says_what_to_do_about_the_first_version() {
        let (_, pem) = x509_parser::pem::parse_x509_pem(OF_OPENSSL.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        let error = rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let reason = |certificate: Option<&X509Certificate<'_>>| reason(certificate, &error);
        assert!(reason(Some(&certificate)).contains("X.509 version 1"), "{}", reason(Some(&certificate)));
        assert!(reason(Some(&certificate)).contains("-extfile"));
        assert_eq!(reason(None), error.to_string());
    }

    #[test]
    fn many_refusals_are_one_line_and_a_count() {
        let refused = Refused::default();
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let first = refused.line(at(0), "CN=jane", "expired").unwrap();
        assert_eq!(first, "client certificate of \"CN=jane\" refused: expired");
        for second in [0, 1, 9] {
            assert_eq!(refused.line(at(second), "CN=jane", "expired"), None);
        }
        let next = refused.line(at(10), &format!("CN=\n{}", "x".repeat(1000)), "expired").unwrap();
        assert!(next.contains(" (3 more were refused") && next.len() < 250 && !next.contains('\n'), "{next}");
    }
}
