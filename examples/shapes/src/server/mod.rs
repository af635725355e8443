//! The cloud: an HTTP server that creates, shows and deletes shapes, and the page that draws them.
//!
//! ```text
//! GET    /shapes?from=NAME     a page of all shapes        PUT    /shapes/NAME   change one
//! GET    /shapes/NAME          one shape                   DELETE /shapes/NAME   remove one
//! POST   /shapes               create one                  GET    /watch         changes, as server-sent events
//! GET    /faults, PUT /faults  what is broken              GET    /              the page
//! ```

mod cloud_state;
mod route;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use cloud_state::CloudState;

/// A running server. Dropping it stops it.
pub struct Running {
    address: SocketAddr,
    task: AbortOnDropHandle<()>,
}

impl Running {
    /// Returns its address: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until it ends, which it does not do on its own.
    pub async fn ended(self) {
        let _ = self.task.await;
    }
}

/// Starts a cloud without shapes; port 0 means any free one.
pub async fn start(address: SocketAddr) -> io::Result<Running> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let task = AbortOnDropHandle::new(tokio::spawn(serve(listener, Arc::new(CloudState::new()))));
    Ok(Running { address, task })
}

async fn serve(listener: TcpListener, cloud: Arc<CloudState>) {
    let mut connections = JoinSet::new();
    loop {
        // A connection that fails is the client's problem.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let cloud = cloud.clone();
        connections.spawn(async move {
            let service = hyper::service::service_fn(move |request| route::answer(cloud.clone(), request));
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
