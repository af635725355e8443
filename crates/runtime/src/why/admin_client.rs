//! Reads the journal of objects from an operator's admin server, over plain HTTP on this machine.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use homeostat_core::Key;
use homeostat_core::write_history::OperatorJournal;
use http::Request;
use http::header::{AUTHORIZATION, HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::local_listener::trusted_listeners;
use super::pod_proxy::load_audience_token;
use super::served_kinds::escape;
use crate::admin::{CALLER_TOKEN_HEADER, JOURNAL_PATH};
use crate::admin_address::address_audience;

/// How long one operator may take for all answers.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The most bytes of one answer: a whole ring, as JSON.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Returns the journal of the operator at this address (`http://127.0.0.1:8080`) about each object, or why it was not
/// asked.
pub(super) async fn load_journals(
    client: &Client,
    address: &str,
    own_token: Option<&str>,
    keys: &[Key],
) -> Result<Vec<OperatorJournal>, String> {
    let place = parse_address(address)?;
    let asked = async {
        let token = match load_audience_token(client, &address_audience(address)).await? {
            Some(token) => CallerToken::ForOperator(token),
            None => CallerToken::Own(
                own_token.ok_or("it wants to know who asks, and your kubeconfig has no token")?.to_owned(),
            ),
        };
        let mut journals = Vec::new();
        for key in keys {
            journals.extend(load_journal(place, &token, key).await?);
        }
        Ok(journals)
    };
    timeout(ANSWER_MAX, asked)
        .await
        .unwrap_or_else(|_| Err(format!("{address} did not answer within {ANSWER_MAX:?}")))
}

/// The token with which an operator is asked.
enum CallerToken {
    /// One for this operator and nobody else.
    ForOperator(String),
    /// The caller's own, for servers that issue no other.
    Own(String),
}

impl CallerToken {
    /// Returns the header that carries it.
    fn header(&self) -> (&'static str, String) {
        match self {
            Self::ForOperator(token) => (CALLER_TOKEN_HEADER, token.clone()),
            Self::Own(token) => (AUTHORIZATION.as_str(), format!("Bearer {token}")),
        }
    }
}

/// Parses an announced address; only those of this machine are asked.
fn parse_address(address: &str) -> Result<SocketAddr, String> {
    let place = address.trim_start_matches("http://").trim_end_matches('/');
    let place: SocketAddr =
        place.parse().map_err(|_| format!("it announces {address}, which is not an address"))?;
    match place.ip() {
        ip if ip.is_loopback() => Ok(place),
        IpAddr::V4(ip) if ip.is_unspecified() => Ok(SocketAddr::from(([127, 0, 0, 1], place.port()))),
        _ => Err(format!(
            "it is at {address}, which is not on this machine, and your token is sent nowhere else"
        )),
    }
}

async fn load_journal(
    place: SocketAddr,
    token: &CallerToken,
    key: &Key,
) -> Result<Option<OperatorJournal>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{place}: {error}");
    let listeners = trusted_listeners(place)?;
    let stream = TcpStream::connect(place).await.map_err(|error| failed(&error))?;
    // The same before and after: so it was they who took the connection.
    if trusted_listeners(place)? != listeners {
        return Err(failed(&"somebody else began to listen there"));
    }
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let path = format!(
        "{JOURNAL_PATH}?group={}&resource={}&namespace={}&name={}",
        escape(key.group()),
        escape(key.resource()),
        escape(key.namespace()),
        escape(key.name())
    );
    let (name, value) = token.header();
    let request = Request::get(path)
        .header(HOST, place.to_string())
        .header(name, value)
        .body(Full::<Bytes>::default())
        .map_err(|error| failed(&error))?;
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let code = response.status();
    let body =
        Limited::new(response.into_body(), BYTES_MAX).collect().await.map_err(|error| failed(&error))?;
    match code.as_u16() {
        200 => serde_json::from_slice(&body.to_bytes()).map(Some).map_err(|error| failed(&error)),
        404 => Ok(None),
        _ => Err(format!("{place} answered {code}: {}", String::from_utf8_lossy(&body.to_bytes()).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_on_this_machine() {
        let check = |address: &str, expected: Option<&str>| {
            assert_eq!(
                parse_address(address).ok().map(|place| place.to_string()).as_deref(),
                expected,
                "{address}"
            );
        };
        check("http://127.0.0.1:8080", Some("127.0.0.1:8080"));
        check("http://[::1]:80/", Some("[::1]:80"));
        check("http://0.0.0.0:8080", Some("127.0.0.1:8080"));
        check("http://10.0.0.1:8080", None);
        check("http://evil.example:80", None);
        check("https://127.0.0.1:8080", None);
    }
}
