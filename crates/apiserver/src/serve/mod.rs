//! Serving the API over TLS: credentials, sockets, limits, shutdown.
//!
//! Reading order: [`limits`] (how much one client may take), [`tls`](self) and [`kubeconfig`] (how clients trust us
//! and we them), `gate` (what each request passes: `seats` for those under way, `bodies` for what they bring, `held` for
//! answers that wait), `connection` and `listener` (moving bytes; `connections` for who is let in and who has to leave,
//! `progress` of what the client takes, `sliced` for its speed).
//!
//! **Invariant:** nothing here knows what a request asks for; nothing in the API knows how it arrived.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Authenticator, Identity, Issuer};
use crate::bootstrap::{Credentials, Keep, Names};
use crate::kinds::core::service::API_SERVER_ADDRESS;

mod bodies;
mod connection;
mod connections;
mod error;
pub(crate) mod files;
mod gate;
mod held;
pub mod kubeconfig;
pub mod limits;
mod listener;
mod progress;
mod reached;
mod refused;
mod request;
mod response;
mod seats;
mod sliced;
mod tls;

pub use error::Error;
pub use gate::Handler;
pub use request::{BodyError, RequestBody};

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where credentials are kept.
    pub keep: Keep,
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub entropy: Entropy,
}

/// A server that listens and has its credentials, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    kubeconfig: PathBuf,
    credentials: Credentials,
    clock: Clock,
    entropy: Entropy,
}

impl Server {
    /// Takes the port, makes or loads the credentials and writes the kubeconfig.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let listener = listener::bind(config.listen)?;
        let address =
            listener.local_addr().map_err(|source| Error::Bind { address: config.listen, source })?;
        let names = names(config.listen.ip());
        let credentials = Credentials::load(&config.keep, &names, config.clock, &config.entropy)?;
        let Config { kubeconfig, clock, entropy, .. } = config;
        kubeconfig::write(&kubeconfig, &url(address), &credentials.ca_pem, &credentials.admin_token)?;
        Ok(Self { listener, address, kubeconfig, credentials, clock, entropy })
    }

    /// The address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address by which clients on this machine reach it.
    pub fn reached_at(&self) -> SocketAddr {
        here(self.address)
    }

    /// The address by which others reach it: one of the machine's own when it listens on all of them.
    pub fn advertised(&self) -> SocketAddr {
        let mut address = self.address;
        if let Some(ip) = reached::outward(address.is_ipv4()).filter(|_| address.ip().is_unspecified()) {
            address.set_ip(ip);
        }
        here(address)
    }

    /// How clients on this machine reach it: `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// Where the kubeconfig was written.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The keys of the house.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Knows the administrator's token and the service accounts in the store. Certificates of our CA are known by
    /// their connection.
    pub fn authenticator(&self, store: SharedStore) -> Result<Authenticator, Error> {
        let key = self.credentials.service_account_key()?;
        let issuer = Issuer::new(key, store, self.clock, self.entropy.clone());
        Ok(Authenticator::new(self.clock)
            .with_token(&self.credentials.admin_token, Identity::admin())
            .with_issuer(issuer))
    }

    /// Answers requests until `stop` is cancelled, then ends watches, finishes what is under way and returns.
    pub fn run(
        self,
        handler: impl Handler,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        // Erased and boxed here, so that it is compiled here and not in every program that serves.
        self.run_boxed(Arc::new(handler), authenticator, stop)
    }

    fn run_boxed(
        self,
        handler: Arc<dyn Handler>,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.answer_all(handler, authenticator, stop))
    }

    async fn answer_all(
        self,
        handler: Arc<dyn Handler>,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let tasks = TaskTracker::new();
        let shared = connection::Shared {
            connections: connections::Connections::new(listener::connections_max()),
            acceptor: TlsAcceptor::from(tls::server_config(&self.credentials)?),
            trust: tls::Trust::new(&self.credentials, self.clock)?,
            gate: Arc::new(gate::Gate::new(handler, authenticator, tasks.clone(), stop.clone())),
            tasks,
            stop,
        };
        listener::run(self.listener, Arc::new(shared)).await;
        Ok(())
    }
}

/// What the certificate names: where the server listens, which may be everywhere.
fn names(listened: IpAddr) -> Names {
    let mut addresses =
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), API_SERVER_ADDRESS.into()];
    let is_everywhere = listened.is_unspecified();
    let more = if is_everywhere { reached::addresses() } else { vec![listened] };
    for address in more {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let hosts = reached::name().filter(|_| is_everywhere).into_iter().collect();
    Names { addresses, hosts }
}

/// The URL of the server, for clients on the same machine.
fn url(address: SocketAddr) -> String {
    format!("https://{}", here(address))
}

/// The address by which clients on the same machine reach a server that listens there.
fn here(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
