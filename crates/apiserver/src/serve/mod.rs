//! Serves the API over TLS, including credentials, sockets, limits and shutdown.
//!
//! Reading order: [`crate::limits`] (how much one client may use), [`tls`](self) and [`kubeconfig`] (mutual trust
//! between clients and server), `request_filter` (the checks that each request passes: `request_slots` for concurrent
//! requests, `body_memory` for their bodies, `answer_memory` for unsent responses), `connection` and `listener` (moving
//! bytes; `connection_table` decides which connections are accepted and closed, `answer_progress` monitors how fast
//! clients read, `sliced_writes` speeds up TLS). `credential_reload` replaces certificates and keys while the server
//! runs.
//!
//! **Invariant:** this module does not know what a request asks for, and the API does not know how it arrived.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_api::kinds::core::service::API_SERVER_ADDRESS;
use homeostat_core::{Clock, Entropy};
use homeostat_store::SharedStore;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::credential_reload::{CredentialReloader, CredentialSource, FILE_INTERVAL, ReloadableTls};
use self::machine_addresses::AddressFamily;
use crate::auth::{Authenticator, Identity, StaticTokens, TokenIssuer};
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::root_ca::RootCa;

mod answer_memory;
mod answer_progress;
mod body_memory;
mod certificate_refusals;
mod compression;
mod connection;
mod connection_table;
mod credential_reload;
mod credentials;
mod error;
mod external_credentials;
pub(crate) mod files;
mod gzip;
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

pub(crate) use compression::Compression;
pub use compression::ResponseCompression;
pub use credentials::{CertificateNames, CredentialStorage, Credentials, IssuedUser, issue_user};
pub use error::Error;
pub use external_credentials::{ExternalCredentials, ServingFiles};
pub use request_body::RequestBody;
pub(crate) use request_filter::ClientAddress;
pub use request_filter::{ConnectionLoss, RequestHandler};
pub(crate) use request_slots::SlotHandle;

pub use crate::request::BodyError;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// Where credentials are stored.
    pub storage: CredentialStorage,
    /// The path to write the kubeconfig to; empty means that it is not written.
    pub kubeconfig: PathBuf,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub entropy: Entropy,
}

/// A socket that listens, before anything else of its server exists.
#[derive(Debug)]
pub struct ListeningSocket {
    listener: TcpListener,
    address: SocketAddr,
}

impl ListeningSocket {
    /// Takes the port; port 0 selects any free one.
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let listener = listener::bind(address)?;
        let address = listener.local_addr().map_err(|source| Error::Bind { address, source })?;
        Ok(Self { listener, address })
    }
}

/// A server that listens and has its credentials, but does not answer requests yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    kubeconfig: PathBuf,
    credentials: Credentials,
    source: CredentialSource,
    reload_interval: Duration,
    tokens: StaticTokens,
    authority: Option<Arc<CertificateAuthority>>,
    root_ca: watch::Sender<String>,
}

impl Server {
    /// Binds the port, creates or loads the credentials, and writes the kubeconfig.
    pub fn bind(config: Config) -> Result<Self, Error> {
        Self::on(ListeningSocket::bind(config.listen)?, config)
    }

    /// Like [`bind`](Self::bind), on a socket that was bound to `config.listen` before. Whoever has other things to write
    /// takes the port first, so that nothing is left behind if it is in use.
    pub fn on(socket: ListeningSocket, config: Config) -> Result<Self, Error> {
        let ListeningSocket { listener, address } = socket;
        let Config { storage, kubeconfig, clock, entropy, .. } = config;
        let names = certificate_names(config.listen.ip());
        let credentials = Credentials::load(&storage, &names, clock, &entropy)?;
        if !kubeconfig.as_os_str().is_empty() {
            kubeconfig::write(&kubeconfig, &url(address), &credentials.ca_pem, &credentials.admin_token)?;
        }
        let tokens = StaticTokens::default();
        let source = CredentialSource { storage, names, clock, entropy };
        let reload_interval = source.interval();
        let authority = credentials.authority()?.map(Arc::new);
        let root_ca = watch::Sender::new(credentials.ca_pem.clone());
        Ok(Self {
            listener,
            address,
            kubeconfig,
            credentials,
            source,
            reload_interval,
            tokens,
            authority,
            root_ca,
        })
    }

    /// Sets how often credential files are re-read. The default is every ten seconds.
    #[must_use]
    pub fn reload_every(mut self, interval: Duration) -> Self {
        self.reload_interval = interval;
        self
    }

    /// Also accepts these tokens, each as its user. If they come from a file, it is followed.
    #[must_use]
    pub fn with_tokens(mut self, tokens: StaticTokens) -> Self {
        if tokens.file().is_some() {
            self.reload_interval = self.reload_interval.min(FILE_INTERVAL);
        }
        self.tokens = tokens;
        self
    }

    /// Returns the address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which clients on this machine reach the server.
    pub fn reached_at(&self) -> SocketAddr {
        local_address(self.address)
    }

    /// Returns the address at which other machines reach the server: one of this machine's own if it listens on all
    /// of them.
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

    /// Returns the signer of certificate requests; `None` if certificates are issued elsewhere.
    pub fn authority(&self) -> Option<Arc<CertificateAuthority>> {
        self.authority.clone()
    }

    /// Returns the certificate authority that clients should trust, now and after it was renewed.
    pub fn root_ca(&self) -> RootCa {
        RootCa::following(&self.root_ca)
    }

    /// Returns the credentials.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Returns an authenticator that knows the administrator's token, the configured tokens and the service accounts
    /// in the store. Certificates issued by our CA are checked per connection.
    pub fn authenticator(&self, store: SharedStore) -> Result<Authenticator, Error> {
        let CredentialSource { clock, entropy, .. } = &self.source;
        let keys = self.credentials.token_keys()?;
        let issuer = TokenIssuer::new(keys, store, *clock, entropy.clone())
            .named(&self.credentials.token_keys.issuers);
        let authenticator = Authenticator::new(*clock).with_issuer(issuer);
        authenticator.set_tokens(&self.tokens);
        let admin_token = &self.credentials.admin_token;
        Ok(if admin_token.is_empty() {
            authenticator
        } else {
            authenticator.with_token(admin_token, Identity::admin())
        })
    }

    /// Serves requests until `stop` is cancelled, then ends watches, finishes requests in progress and returns.
    pub fn run(
        self,
        handler: impl RequestHandler,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        // The future is type-erased and boxed here, so that it is compiled here and not in every program that serves.
        self.run_boxed(Arc::new(handler), authenticator, stop)
    }

    fn run_boxed(
        self,
        handler: Arc<dyn RequestHandler>,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.answer_all(handler, authenticator, stop))
    }

    async fn answer_all(
        self,
        handler: Arc<dyn RequestHandler>,
        authenticator: Arc<Authenticator>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let tasks = TaskTracker::new();
        let tls = Arc::new(ReloadableTls::new(&self.credentials)?);
        let reloader = CredentialReloader {
            source: self.source,
            interval: self.reload_interval,
            tls: Arc::clone(&tls),
            authenticator: Arc::clone(&authenticator),
            authority: self.authority,
            tokens: self.tokens,
            root_ca: self.root_ca,
            kubeconfig: (self.kubeconfig, url(self.address)),
        };
        let context = connection::ConnectionServer {
            connections: connection_table::ConnectionTable::new(listener::connections_max()),
            tls,
            filter: Arc::new(request_filter::RequestFilter::new(
                handler,
                authenticator,
                tasks.clone(),
                stop.clone(),
            )),
            tasks,
            stop,
        };
        // The reloader never stops on its own; it stops together with the listener.
        tokio::select! {
            () = listener::run(self.listener, Arc::new(context)) => {}
            () = reloader.run(self.credentials) => {}
        }
        Ok(())
    }
}

/// Returns the names for the certificate: the addresses on which the server listens, which may be all of the
/// machine's.
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
