//! One question to one operator: with which token, and by which way. Those on this machine are asked directly, those in
//! a cluster through the API server's proxy.
//!
//! **Invariant:** operators get a token that is made for them alone, and opens nothing else. Only where the server issues
//! none, the caller's own token is sent, to an address of this machine where a process of the caller's own user or of
//! root listens: anyone who may write Leases could announce any address, and must not collect tokens with it.

use homeostat_core::Key;
use http::header::AUTHORIZATION;
use kube::Client;

use super::announcement::Announcement;
use super::ask_failure::AskFailure;
use super::served_kinds::escape;
use super::{admin_client, pod_proxy};
use crate::admin::{CALLER_TOKEN_HEADER, JOURNAL_PATH};
use crate::admin_address::address_audience;

/// The token with which an operator is asked.
#[derive(Clone)]
pub(super) enum CallerToken {
    /// One for this operator and nobody else.
    ForOperator(String),
    /// The caller's own, for servers that issue no other.
    Own(String),
}

impl CallerToken {
    /// Returns the header that carries it.
    pub(super) fn header(&self) -> (&'static str, String) {
        match self {
            Self::ForOperator(token) => (CALLER_TOKEN_HEADER, token.clone()),
            Self::Own(token) => (AUTHORIZATION.as_str(), format!("Bearer {token}")),
        }
    }
}

/// A page of an operator's admin server.
#[derive(Clone, Copy)]
pub(super) struct PageRequest<'a> {
    /// Path and query.
    pub(super) path: &'a str,
    /// The most bytes of the answer.
    pub(super) bytes_max: usize,
}

/// Returns a token that shows this operator who asks.
pub(super) async fn load_caller_token(
    client: &Client,
    announcement: &Announcement,
    own_token: Option<&str>,
) -> Result<CallerToken, AskFailure> {
    if let Some(pod) = &announcement.pod {
        return pod_proxy::load_token(client, pod).await.map(CallerToken::ForOperator);
    }
    // Before anything is asked for an address that gets no question.
    admin_client::parse_address(&announcement.address)?;
    match pod_proxy::load_audience_token(client, &address_audience(&announcement.address)).await? {
        Some(token) => Ok(CallerToken::ForOperator(token)),
        None => Ok(CallerToken::Own(own_token.ok_or(AskFailure::NoToken)?.to_owned())),
    }
}

/// Returns a page of an operator's admin server; `None` if the operator has or tells nothing.
pub(super) async fn load_page(
    client: &Client,
    announcement: &Announcement,
    token: &CallerToken,
    page: PageRequest<'_>,
) -> Result<Option<Vec<u8>>, AskFailure> {
    match (&announcement.pod, token) {
        (Some(pod), CallerToken::ForOperator(token)) => pod_proxy::load_page(client, pod, token, page).await,
        // The server would keep the header of such a token, and a Pod must not get it.
        (Some(_), CallerToken::Own(_)) => Err(AskFailure::NoToken),
        (None, token) => {
            let place = admin_client::parse_address(&announcement.address)?;
            admin_client::load_page(place, token, page).await
        }
    }
}

/// Returns the path of an operator's journal of an object.
pub(super) fn journal_path(key: &Key) -> String {
    format!(
        "{JOURNAL_PATH}?group={}&resource={}&namespace={}&name={}",
        escape(key.group()),
        escape(key.resource()),
        escape(key.namespace()),
        escape(key.name())
    )
}
