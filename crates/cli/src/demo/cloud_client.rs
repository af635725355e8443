//! A client of the cloud of shapes that bypasses the operator: plain HTTP, which anyone could use.

use std::error::Error;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A plain HTTP client of the cloud.
pub(super) struct CloudClient(String);

impl CloudClient {
    pub(super) fn new(url: &str) -> Self {
        Self(url.trim_start_matches("http://").to_owned())
    }

    /// Returns the shape as the cloud has it.
    pub(super) async fn shape(&self, name: &str) -> Option<Value> {
        self.send_request("GET", name, "").await.ok().and_then(|body| serde_json::from_str(&body).ok())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Box<dyn Error>> {
        self.send_request("DELETE", name, "").await.map(drop)
    }

    pub(super) async fn recolor(&self, name: &str, color: &str) -> Result<(), Box<dyn Error>> {
        let mut shape = self.shape(name).await.ok_or("the shape is gone")?;
        shape["color"] = color.into();
        self.send_request("PUT", name, &shape.to_string()).await.map(drop)
    }

    async fn send_request(&self, method: &str, name: &str, body: &str) -> Result<String, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.0).await?;
        let (host, length) = (&self.0, body.len());
        let head = format!("{method} /shapes/{name} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("the cloud sent no answer")?;
        if head.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            return Ok(body.to_owned());
        }
        Err(head.lines().next().unwrap_or_default().into())
    }
}
