//! One question to a container: a command, an HTTP request or a connection.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::node::keeper::protocol::{Process, RunId};
use crate::node::link::Link;

/// Where processes listen unless a probe names another host.
const HOST: &str = "127.0.0.1";
/// A status line is shorter; whoever sends more is not read further.
const HEAD_BYTES_MAX: usize = 1024;

/// Asks one container.
pub(super) struct Asker {
    pub(super) link: Arc<Link>,
    pub(super) id: RunId,
    /// What a command beside the container runs as.
    pub(super) process: Option<Process>,
    pub(super) container: Container,
}

impl Asker {
    /// Asks once; a failure in words.
    pub(super) async fn ask(&self, probe: &Probe, limit: Duration) -> Result<(), String> {
        if let Some(exec) = &probe.exec {
            return self.execute(exec.command.clone().unwrap_or_default(), limit).await;
        }
        let asked = async {
            if let Some(action) = &probe.http_get {
                return self.get(action).await;
            }
            if let Some(action) = &probe.tcp_socket {
                return self.connect(action.host.as_deref(), &action.port).await.map(drop);
            }
            Err("this node asks by exec, httpGet and tcpSocket only".to_owned())
        };
        timeout(limit, asked).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
    }

    /// Runs the command as the container's own; its exit code answers.
    pub(super) async fn execute(&self, command: Vec<String>, limit: Duration) -> Result<(), String> {
        let Some(process) = &self.process else { return Err("its environment cannot be made".to_owned()) };
        let process = Process { command, ..process.clone() };
        let executed = self.link.execute(self.id.clone(), process, limit).await;
        if executed.exit.is_success() { Ok(()) } else { Err(executed.output) }
    }

    async fn connect(&self, host: Option<&str>, port: &IntOrString) -> Result<TcpStream, String> {
        let port = self.port(port)?;
        let host = host.filter(|host| !host.is_empty()).unwrap_or(HOST);
        TcpStream::connect((host, port)).await.map_err(|error| format!("dial tcp {host}:{port}: {error}"))
    }

    /// A port by number, or by its name in the container.
    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let mut ports = self.container.ports.iter().flatten();
                ports.find(|one| one.name.as_deref() == Some(name)).map(|one| one.container_port)
            }
        };
        number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| format!("no such port: {port:?}"))
    }

    async fn get(&self, action: &HTTPGetAction) -> Result<(), String> {
        if action.scheme.as_deref() == Some("HTTPS") {
            return Err("this node asks by plain HTTP only".to_owned());
        }
        let mut stream = self.connect(action.host.as_deref(), &action.port).await?;
        stream.write_all(request(action).as_bytes()).await.map_err(|error| error.to_string())?;
        let mut head = Vec::new();
        let mut limited = stream.take(HEAD_BYTES_MAX as u64);
        while !head.contains(&b'\n') {
            if limited.read_buf(&mut head).await.map_err(|error| error.to_string())? == 0 {
                break;
            }
        }
        judge(&head)
    }
}

fn request(action: &HTTPGetAction) -> String {
    let path = action.path.as_deref().filter(|path| path.starts_with('/')).unwrap_or("/");
    let headers = action.http_headers.iter().flatten();
    let mut text = format!("GET {path} HTTP/1.1\r\n");
    let mut has_host = false;
    for header in headers {
        // What could begin a header of its own is left out.
        if !header.name.contains(['\r', '\n']) && !header.value.contains(['\r', '\n']) {
            has_host |= header.name.eq_ignore_ascii_case("host");
            text.extend([&*header.name, ": ", &*header.value, "\r\n"]);
        }
    }
    if !has_host {
        text.push_str("Host: localhost\r\n");
    }
    text.push_str("User-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    text
}

/// 200 to 399 is good.
fn judge(head: &[u8]) -> Result<(), String> {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(format!("not an answer of HTTP: {line:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_answers() {
        let check = |head: &str, is_good: bool| assert_eq!(judge(head.as_bytes()).is_ok(), is_good, "{head}");
        check("HTTP/1.1 200 OK\r\n", true);
        check("HTTP/1.0 302 Found\r\n", true);
        check("HTTP/1.1 404 Not Found\r\n", false);
        check("hello", false);
        check("", false);
    }
}
