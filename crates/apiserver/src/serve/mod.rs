//! Serves the API over TLS: credentials, sockets, limits, shutdown.
//!
//! Reading order: [`crate::limits`] (how much one client may use), [`tls`](self) and [`kubeconfig`] (mutual trust of
//! clients and server), `request_filter` (what each request passes: `request_slots` for concurrent requests,
//! `body_memory` for their bodies, `answer_memory` for unsent answers), `connection` and `listener` (moving bytes;
//! `connections` decides which connections are accepted and closed, `answer_progress` watches how fast clients read,
//! `sliced_writes` speeds up TLS).
//!
//! **Invariant:** nothing here knows what a request asks for; nothing in the API knows how it arrived.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_api::kinds::core::service::API_SERVER_ADDRESS;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::machine_addresses::AddressFamily;
use crate::auth::{Authenticator, Identity, StaticTokens, TokenIssuer};

mod answer_memory;
mod answer_progress;
mod body_memory;
mod certificate_refusals;
mod client_certificate;
mod connection;
mod connections;
mod credentials;
mod error;
pub(crate) mod files;
pub mod kubeconfig;
mod listener;
mod machine_addresses;
mod request_body;
mod request_filter;
pub(crate) mod request_slots;
mod response_body;
mod sliced_writes;
mod tls;
mod x509_version_1;

pub use credentials::{CertificateNames, CredentialStorage, Credentials, IssuedUser, issue_user};
pub use error::Error;
pub use request_body::RequestBody;
pub use request_filter::{ConnectionLoss, Handler};
pub(crate) use request_slots::SlotHandle;

pub use crate::request::BodyError;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where credentials are stored.
    pub storage: CredentialStorage,
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub entropy: Entropy,
}

/// A server that listens and has its credentials, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    kubeconfig: PathBuf,
    credentials: Credentials,
    clock: Clock,
    entropy: Entropy,
    tokens: StaticTokens,
}

impl Server {
    /// Takes the port, creates or loads the credentials and writes the kubeconfig.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let listener = listener::bind(config.listen)?;
        let address =
            listener.local_addr().map_err(|source| Error::Bind { address: config.listen, source })?;
        let names = certificate_names(config.listen.ip());
        let credentials = Credentials::load(&config.storage, &names, config.clock, &config.entropy)?;
        let Config { kubeconfig, clock, entropy, .. } = config;
        kubeconfig::write(&kubeconfig, &url(address), &credentials.ca_pem, &credentials.admin_token)?;
        let tokens = StaticTokens::default();
        Ok(Self { listener, address, kubeconfig, credentials, clock, entropy, tokens })
    }

    /// Also accepts these tokens, each as its user.
    #[must_use]
    pub fn with_tokens(mut self, tokens: StaticTokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Returns the address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which clients on this machine reach it.
    pub fn reached_at(&self) -> SocketAddr {
        local_address(self.address)
    }

    /// Returns the address at which others reach it: one of the machine's own if it listens on all of them.
    pub fn advertised(&self) -> SocketAddr {
        let mut address = self.address;
        let family = AddressFamily::of_address(address.ip());
        if address.ip().is_unspecified()
            && let Some(outward) = machine_addresses::outward_address(family)
        {
            address.set_ip(outward);
        }
        local_address(address)
    }

    /// Returns the URL for clients on this machine: `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// Returns the path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the credentials.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns an authenticator that knows the administrator's token, the configured ones and the service accounts in the store.
    /// Certificates of our CA are checked per connection.
    pub fn authenticator(&self, store: SharedStore) -> Result<Authenticator, Error> {
        let key = self.credentials.service_account_key()?;
        let issuer = TokenIssuer::new(key, store, self.clock, self.entropy.clone());
        Ok(Authenticator::new(self.clock)
            .with_token(&self.credentials.admin_token, Identity::admin())
            .with_tokens(&self.tokens)
            .with_issuer(issuer))
    }

    /// Answers requests until `stop` is cancelled, then ends watches, finishes requests in progress and returns.
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
        let context = connection::ConnectionContext {
            connections: connections::Connections::new(listener::connections_max()),
            acceptor: TlsAcceptor::from(tls::server_config(&self.credentials)?),
            client_trust: tls::ClientTrust::new(&self.credentials, self.clock)?,
            filter: Arc::new(request_filter::RequestFilter::new(
                handler,
                authenticator,
                tasks.clone(),
                stop.clone(),
            )),
            tasks,
            stop,
        };
        listener::run(self.listener, Arc::new(context)).await;
        Ok(())
    }
}

/// Returns the names for the certificate: the addresses on which the server listens, which may be all of them.
fn certificate_names(listened: IpAddr) -> CertificateNames {
    let mut addresses =
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), API_SERVER_ADDRESS.into()];
    let is_everywhere = listened.is_unspecified();
    let more = if is_everywhere { machine_addresses::local_addresses() } else { vec![listened] };
    for address in more {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let hosts = machine_addresses::host_name().filter(|_| is_everywhere).into_iter().collect();
    CertificateNames { addresses, hosts }
}

/// Returns the URL of the server, for clients on the same machine.
fn url(address: SocketAddr) -> String {
    format!("https://{}", local_address(address))
}

/// Returns the address at which clients on the same machine reach a server that listens on `address`.
fn local_address(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
