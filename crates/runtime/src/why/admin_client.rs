//! Reads a page from an operator's admin server, over plain HTTP on this machine.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::ask_failure::AskFailure;
use super::local_listener::trusted_listeners;
use super::operator_request::{CallerToken, PageRequest};

/// Parses an announced address; only addresses on this machine are used.
pub(super) fn parse_address(address: &str) -> Result<SocketAddr, AskFailure> {
    let place = address.trim_start_matches("http://").trim_end_matches('/');
    let not_one = || AskFailure::Address(format!("it announces {address}, which is not an address"));
    let place: SocketAddr = place.parse().map_err(|_| not_one())?;
    match place.ip() {
        ip if ip.is_loopback() => Ok(place),
        IpAddr::V4(ip) if ip.is_unspecified() => Ok(SocketAddr::from(([127, 0, 0, 1], place.port()))),
        _ => Err(AskFailure::Address(format!(
            "it is at {address}, which is not on this machine, and your token is sent nowhere else"
        ))),
    }
}

/// Returns a page from the operator at this address; `None` if it has no data or does not reveal it.
pub(super) async fn load_page(
    place: SocketAddr,
    token: &CallerToken,
    page: PageRequest<'_>,
) -> Result<Option<Vec<u8>>, AskFailure> {
    let failed = |error: &dyn std::fmt::Display| AskFailure::Broken(format!("{place}: {error}"));
    let listeners = trusted_listeners(place).map_err(AskFailure::Listener)?;
    let stream = TcpStream::connect(place).await.map_err(|error| failed(&error))?;
    // The listeners are the same before and after, so they are the ones that accepted the connection.
    if trusted_listeners(place).map_err(AskFailure::Listener)? != listeners {
        return Err(failed(&"somebody else began to listen there"));
    }
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let (name, value) = token.header();
    let request = Request::get(page.path)
        .header(HOST, place.to_string())
        .header(name, value)
        .body(Full::<Bytes>::default())
        .map_err(|error| failed(&error))?;
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let code = response.status();
    let body =
        Limited::new(response.into_body(), page.bytes_max).collect().await.map_err(|error| failed(&error))?;
    let body = body.to_bytes();
    match code.as_u16() {
        200 => Ok(Some(body.to_vec())),
        404 => Ok(None),
        code => {
            let message = format!("{place} answered {code}: {}", String::from_utf8_lossy(&body).trim());
            Err(AskFailure::Refused { code, message })
        }
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
