//! Why an operator did not answer, and what to do about it.

use std::time::Duration;

use super::announcement::Announcement;

/// Why an operator did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AskFailure {
    /// It announces an address that is not asked.
    #[error("{0}")]
    Address(String),
    /// Nobody listens there, or somebody who is not trusted.
    #[error("{0}")]
    Listener(String),
    /// There is nothing to show who asks.
    #[error("it wants to know who asks, and there is no token to show it")]
    NoToken,
    /// It refused, or the API server before it did.
    #[error("{message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// What was said.
        message: String,
    },
    /// It took too long.
    #[error("it did not answer within {0:?}")]
    Late(Duration),
    /// The exchange failed otherwise.
    #[error("{0}")]
    Broken(String),
}

impl AskFailure {
    /// Says before the words of a refusal what was refused.
    pub(super) fn prefixed(self, words: &str) -> Self {
        match self {
            Self::Refused { code, message } => Self::Refused { code, message: format!("{words}: {message}") },
            other => other,
        }
    }

    /// Returns what to do about it.
    pub(super) fn advice(&self, announcement: &Announcement) -> String {
        let lease = &announcement.lease;
        let ended =
            format!("If it has ended, start it again, or delete the Lease {lease} that announces it.");
        match (self, &announcement.pod) {
            (Self::Address(_), _) => "Open its own console, or run it in a Pod that sets POD_NAME and \
                 POD_NAMESPACE: then it is asked through the API server."
                .to_owned(),
            (Self::Listener(_), _) => format!("{ended} If it runs, start it as the user of this process."),
            (Self::NoToken, _) => "Open its own console, or use a kubeconfig with a token.".to_owned(),
            (Self::Refused { code: 403, .. }, Some(pod)) => {
                format!("Ask for the right to get pods/proxy in the namespace {}.", pod.namespace)
            }
            (Self::Refused { code: 404, .. }, _) => ended,
            (Self::Refused { code: 429, .. }, _) => {
                "It answers few questions at a time, and is asked again soon.".to_owned()
            }
            (Self::Refused { code: 503, .. }, _) => "Give it the right to create tokenreviews and \
                 subjectaccessreviews: its command `manifests` prints all rights that it needs."
                .to_owned(),
            (Self::Late(_), _) => {
                "Look at its log, and at /readyz of its admin server; if it hangs, restart it.".to_owned()
            }
            (Self::Refused { .. } | Self::Broken(_), _) => format!("Look at its log. {ended}"),
        }
    }
}
