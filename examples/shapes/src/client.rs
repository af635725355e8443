//! The cloud's API over HTTP.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use homeostat::runtime::BoxError;
use homeostat::world::{Answer, Failure};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, BodyStream, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use crate::api::{CloudShape, Event, Shapes};
use crate::shapes_world::ShapesApi;

/// A client of the cloud.
#[derive(Clone, Debug)]
pub struct HttpClient {
    authority: String,
}

impl HttpClient {
    /// Uses the cloud at this address: `http://127.0.0.1:8080`.
    pub fn new(url: &str) -> Self {
        Self { authority: url.trim_start_matches("http://").trim_end_matches('/').to_owned() }
    }
}

impl ShapesApi for HttpClient {
    async fn list(&self, from: Option<&str>) -> Answer<Shapes> {
        let query = from.map(|from| format!("?from={}", escaped(from))).unwrap_or_default();
        read(self.send(Method::GET, &format!("/shapes{query}"), &()).await?).await
    }

    async fn get(&self, name: &str) -> Answer<Option<CloudShape>> {
        let answer = self.send(Method::GET, &path(name), &()).await?;
        if answer.status() == StatusCode::NOT_FOUND { Ok(None) } else { read(answer).await.map(Some) }
    }

    async fn create(&self, shape: CloudShape) -> Answer<()> {
        done(self.send(Method::POST, "/shapes", &shape).await?).await
    }

    async fn update(&self, shape: CloudShape) -> Answer<()> {
        done(self.send(Method::PUT, &path(&shape.name), &shape).await?).await
    }

    async fn delete(&self, name: &str) -> Answer<()> {
        let answer = self.send(Method::DELETE, &path(name), &()).await?;
        if answer.status() == StatusCode::NOT_FOUND { Ok(()) } else { done(answer).await }
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<Event>>> {
        let cloud = self.clone();
        let lines = async move {
            let answer = cloud.send(Method::GET, "/watch", &()).await?;
            Ok::<_, Failure>(lines(answer.into_body()))
        };
        let stream = futures::stream::once(lines).try_flatten();
        Some(stream.try_filter_map(|line| async move { Ok(event(&line)) }).boxed())
    }
}

fn path(name: &str) -> String {
    format!("/shapes/{}", escaped(name))
}

fn escaped(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

fn event(line: &str) -> Option<Event> {
    serde_json::from_str(line.strip_prefix("data: ")?).ok()
}

impl HttpClient {
    /// Sends one request on its own connection: the cloud is near, and a kept connection would need care.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Answer<http::Response<Incoming>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let body = if method == Method::GET || method == Method::DELETE {
            Bytes::new()
        } else {
            Bytes::from(serde_json::to_vec(body)?)
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, &self.authority)
            .header("x-by", "operator")
            .body(Full::new(body))?;
        // The connection lives as long as its answer is read, and ends on its own.
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    }
}

/// Converts the cloud's status codes.
async fn done(answer: http::Response<Incoming>) -> Answer<()> {
    let code = answer.status();
    if code.is_success() {
        return Ok(());
    }
    if code == StatusCode::CONFLICT {
        return Err(Failure::Exists);
    }
    let words = answer.into_body().collect().await?.to_bytes();
    let error = format!("the cloud answered {code}: {}", String::from_utf8_lossy(&words).trim());
    Err(if code.is_client_error() { Failure::refused(error) } else { error.into() })
}

async fn read<T: DeserializeOwned>(answer: http::Response<Incoming>) -> Answer<T> {
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        done(http::Response::from_parts(head, body)).await?;
        return Err("the cloud's answer contains no shape".into());
    }
    Ok(serde_json::from_slice(&body.collect().await?.to_bytes())?)
}

/// Streams the lines of a body.
fn lines(body: Incoming) -> impl futures::Stream<Item = Answer<String>> {
    let state = (BodyStream::new(body), Vec::new());
    futures::stream::try_unfold(state, |(mut body, mut held)| async move {
        loop {
            if let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line = held.drain(..=end).collect::<Vec<u8>>();
                return Ok(Some((String::from_utf8_lossy(&line).trim_end().to_owned(), (body, held))));
            }
            match body.next().await {
                Some(frame) => held.extend(frame.map_err(BoxError::from)?.into_data().unwrap_or_default()),
                None => return Ok(None),
            }
        }
    })
}
