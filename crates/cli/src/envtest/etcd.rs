//! The stand-in for etcd: answers the health check that test suites wait for, and tells our `kube-apiserver` where the
//! data folder is. It stores nothing itself and implements no other part of etcd's protocol.

use std::error::Error;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::DATA_FOLDER_PATH;
use super::flags::{CommandLine, Flags, KnownFlags};
use super::known_flags::{ETCD_SWITCHES, ETCD_VALUES};
use crate::up::stop_on_signal;

const FLAGS: KnownFlags = KnownFlags { values: ETCD_VALUES, switches: ETCD_SWITCHES };
/// The maximum size of a request: more than a health check sends.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// How long a client may take to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long to wait after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Runs until a signal.
pub(super) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let flags = match FLAGS.parse(arguments)? {
        CommandLine::Help => {
            print!("{}", FLAGS.help("etcd"));
            return Ok(());
        }
        CommandLine::Version => {
            println!("etcd Version: homeostat {}", env!("CARGO_PKG_VERSION"));
            return Ok(());
        }
        CommandLine::Run(flags) => flags,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(&flags))
}

async fn serve(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone())?);
    let folder = data_folder(flags)?;
    let mut tasks = JoinSet::new();
    for url in client_urls(flags) {
        let listener = bind(&url).await?;
        eprintln!("serving client requests on http://{}", listener.local_addr()?);
        tasks.spawn(answer_all(listener, folder.clone(), stop.clone()));
    }
    while tasks.join_next().await.is_some() {}
    signals.await?;
    Ok(())
}

/// Returns the folder, creating it if necessary.
fn data_folder(flags: &Flags) -> Result<PathBuf, String> {
    let named = || format!("{}.etcd", flags.last("name").unwrap_or("default"));
    let folder = flags.last("data-dir").map_or_else(|| PathBuf::from(named()), PathBuf::from);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::path::absolute(&folder))
        .map_err(|error| format!("cannot use the data folder {}: {error}", folder.display()))
}

fn client_urls(flags: &Flags) -> Vec<String> {
    let urls = flags.list("listen-client-urls");
    if urls.is_empty() { vec!["http://localhost:2379".to_owned()] } else { urls }
}

async fn bind(url: &str) -> Result<TcpListener, String> {
    let address = url.strip_prefix("http://").ok_or_else(|| {
        format!("cannot listen on {url}: only http:// with an address and a port is possible")
    })?;
    let failed = |error: std::io::Error| format!("cannot listen on {url}: {error}");
    let resolved: Vec<_> = address.trim_end_matches('/').to_socket_addrs().map_err(failed)?.collect();
    TcpListener::bind(&*resolved).await.map_err(failed)
}

async fn answer_all(listener: TcpListener, folder: PathBuf, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let folder = folder.clone();
                    connections.spawn(async move { tokio::time::timeout(REQUEST_TIME, answer(stream, &folder)).await });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

/// Answers one request and closes the connection.
async fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let (code, body) = body_of(path.split('?').next().unwrap_or_default(), folder);
    let answer = format!(
        "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn body_of(path: &str, folder: &Path) -> (&'static str, String) {
    match path {
        "/health" | "/livez" | "/readyz" => ("200 OK", r#"{"health":"true","reason":""}"#.to_owned()),
        "/version" => (
            "200 OK",
            format!(r#"{{"etcdserver":"homeostat {}","etcdcluster":"3.6.0"}}"#, env!("CARGO_PKG_VERSION")),
        ),
        DATA_FOLDER_PATH => ("200 OK", folder.display().to_string()),
        _ => ("404 Not Found", r#"{"error":"this stand-in for etcd answers health checks only"}"#.to_owned()),
    }
}
