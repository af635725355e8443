//! Checks a container's health once over gRPC: `grpc.health.v1.Health/Check` over HTTP/2 without TLS, as in Kubernetes.
//!
//! The request and the response are a few bytes long and are encoded and decoded by hand. Only the first message of the
//! response is read.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_util::task::AbortOnDropHandle;

use super::container_http::connect;

/// The maximum number of bytes read from a response, which usually has about ten.
const ANSWER_BYTES_MAX: usize = 4096;
/// The prefix of each message: whether it is compressed, and its length in four bytes.
const PREFIX_BYTES: usize = 5;
/// The tags of a message's first field as a string and as a number.
const FIRST_TEXT: u8 = 0x0a;
const FIRST_NUMBER: u8 = 0x08;
/// The status of a healthy service.
const SERVING: u8 = 1;

/// Asks whether the service is healthy. Returns a message if it is not.
pub(crate) async fn check_health(host: &str, port: u16, service: &str) -> Result<(), String> {
    let stream = connect(host, port).await?;
    let said = |error: hyper::Error| format!("grpc: {error}");
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(said)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::post(format!("http://{host}:{port}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, "kube-probe/1.36")
        .body(Full::new(Bytes::from(request_message(service))))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(said)?;
    read_answer(answer).await
}

async fn read_answer(answer: Response<hyper::body::Incoming>) -> Result<(), String> {
    let (head, body) = answer.into_parts();
    if head.status != 200 {
        return Err(format!("the response is not gRPC: HTTP {}", head.status));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    status_failure(&trailers).or_else(|| status_failure(&head.headers)).map_or(Ok(()), Err)?;
    check_serving(&body.to_bytes())
}

/// Describes a status other than OK. A call that fails immediately reports it in its headers, not in its trailers.
fn status_failure(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let status = text("grpc-status").filter(|status| *status != "0")?;
    Some(format!("grpc status {status}: {}", text("grpc-message").unwrap_or_default()))
}

/// Encodes the message that names the service.
fn request_message(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(FIRST_TEXT);
        message.extend(varint(service.len()));
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed
}

/// Encodes a number seven bits at a time, the lowest first.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Returns an error unless the response says that the service is serving.
fn check_serving(answer: &[u8]) -> Result<(), String> {
    match answer.get(PREFIX_BYTES..) {
        Some([FIRST_NUMBER, SERVING, ..]) => Ok(()),
        Some([FIRST_NUMBER, status, ..]) => Err(format!("service unhealthy (status {status})")),
        Some([]) => Err("service unhealthy (status unknown)".to_owned()),
        _ => Err("the response is not from a gRPC health service".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;

    /// Responds on one connection with this message and status.
    async fn serve(listener: TcpListener, message: &'static [u8], status: &'static str) {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = service_fn(|request: Request<hyper::body::Incoming>| async move {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            let asked = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(asked.as_ref(), b"\0\0\0\0\x05\x0a\x03web");
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]);
            let body = Full::new(Bytes::from_static(message)).with_trailers(async { Some(Ok(trailers)) });
            Ok::<_, hyper::Error>(Response::new(body))
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
    }

    #[tokio::test]
    async fn a_health_service_answers() {
        for (message, status, expected) in [
            (&b"\0\0\0\0\x02\x08\x01"[..], "0", Ok(())),
            (&b"\0\0\0\0\x02\x08\x02"[..], "0", Err("service unhealthy (status 2)")),
            (&b"\0\0\0\0\0"[..], "0", Err("service unhealthy (status unknown)")),
            (&b""[..], "5", Err("grpc status 5: ")),
        ] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let asked = check_health("127.0.0.1", port, "web");
            let (answer, ()) = tokio::join!(asked, serve(listener, message, status));
            assert_eq!(answer, expected.map_err(ToOwned::to_owned));
        }
        assert!(check_health("127.0.0.1", 1, "web").await.is_err(), "nobody listens there");
    }

    #[test]
    fn numbers_are_written_in_sevens() {
        assert_eq!((varint(0), varint(127), varint(300)), (vec![0], vec![127], vec![0xac, 0x02]));
    }
}
