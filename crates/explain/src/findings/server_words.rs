//! Classifies a refusal by the server's message and code. Kubernetes says most of it in the message alone.

use crate::explanation::CauseCode;

/// Returns the cause code of a refusal; `None` if the message is not recognized.
pub(super) fn code_of_words(error: &str, code: Option<u16>) -> Option<CauseCode> {
    let says = |words: &[&str]| words.iter().any(|words| error.contains(words));
    match code {
        _ if says(&["failed calling webhook"]) => Some(CauseCode::FailingWebhook),
        _ if says(&["exceeded quota", "failed quota"]) => Some(CauseCode::QuotaExceeded),
        _ if says(&["admission webhook", "ValidatingAdmissionPolicy", "violates PodSecurity"]) => {
            Some(CauseCode::Denied)
        }
        Some(403) => Some(CauseCode::MissingRight),
        _ if says(&["(403)", "forbidden"]) => Some(CauseCode::MissingRight),
        _ if says(&["(422)", "is invalid", "(400)"]) => Some(CauseCode::InvalidObject),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_classified() {
        let check = |error: &str, expected: Option<CauseCode>| {
            assert_eq!(code_of_words(error, None), expected, "{error}");
        };
        check(
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
            Some(CauseCode::QuotaExceeded),
        );
        check(
            "Internal error occurred: failed calling webhook \"a.b.c\": context deadline exceeded",
            Some(CauseCode::FailingWebhook),
        );
        check("admission webhook \"a.b.c\" denied the request: no", Some(CauseCode::Denied));
        check("pods is forbidden: User \"a\" cannot create resource", Some(CauseCode::MissingRight));
        check("Pod \"a\" is invalid: spec", Some(CauseCode::InvalidObject));
        check("odd", None);
    }
}
