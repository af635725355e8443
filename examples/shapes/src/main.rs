//! One program with five parts: the cloud, a control plane, the operator between them, and two commands that create and
//! delete `Shape` objects. `break.sh` runs them all and breaks what can be broken.

use std::error::Error;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use homeostat::embedded::ControlPlane;
use homeostat::kube::api::{DeleteParams, Patch, PatchParams};
use homeostat::kube::config::{KubeConfigOptions, Kubeconfig};
use homeostat::kube::{Api, Client, Config, ResourceExt};
use homeostat_example_shapes::{Form, Options, Shape, ShapeSpec, operator, server};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(version, about = "A cloud API of shapes, wrapped into a declarative system")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the cloud: the shapes API and its page
    Server {
        /// Address to listen on; port 0 means any free one
        #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
        listen: SocketAddr,
    },
    /// Run a control plane in memory
    Cluster {
        /// Where to write its kubeconfig
        #[arg(long)]
        kubeconfig: PathBuf,
    },
    /// Run the operator: in the cluster that KUBECONFIG names, or else on its own control plane
    Operator {
        /// The cloud
        #[arg(long)]
        cloud: String,
        #[command(flatten)]
        options: Options,
        /// Arguments that every operator understands, such as --kubeconfig FILE, manifests or --help
        #[arg(last = true)]
        operator: Vec<String>,
    },
    /// Create or change a Shape object
    Make {
        /// Its name
        name: String,
        /// Its form
        form: Shapely,
        /// Its color
        color: String,
        /// The cluster
        #[arg(long, env = "KUBECONFIG")]
        kubeconfig: PathBuf,
    },
    /// Delete a Shape object, without waiting until it is gone
    Remove {
        /// Its name
        name: String,
        /// The cluster
        #[arg(long, env = "KUBECONFIG")]
        kubeconfig: PathBuf,
    },
}

/// A form on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum Shapely {
    Square,
    Circle,
    Triangle,
}

impl From<Shapely> for Form {
    fn from(form: Shapely) -> Self {
        match form {
            Shapely::Square => Self::Square,
            Shapely::Circle => Self::Circle,
            Shapely::Triangle => Self::Triangle,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match Arguments::parse().command {
        Command::Server { listen } => {
            log();
            let running = server::start(listen).await?;
            println!("ready {}", running.url());
            stopped().await?;
        }
        Command::Cluster { kubeconfig } => {
            log();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let plane = ControlPlane::builder().listen(address, kubeconfig).start().await?;
            println!("ready {}", plane.url().unwrap_or_default());
            stopped().await?;
            plane.stop().await?;
        }
        Command::Operator { cloud, options, operator: _ } => {
            homeostat::run(operator(&cloud, &options).after_dashes()).await?;
        }
        Command::Make { name, form, color, kubeconfig } => {
            let mut shape = Shape::new(&name, ShapeSpec { form: form.into(), color });
            shape.metadata.managed_fields = None;
            let params = PatchParams::apply("shapes").force();
            shapes(kubeconfig).await?.patch(&shape.name_any(), &params, &Patch::Apply(&shape)).await?;
        }
        Command::Remove { name, kubeconfig } => {
            shapes(kubeconfig).await?.delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

fn log() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
}

async fn connect(kubeconfig: PathBuf) -> Result<Client, Box<dyn Error>> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn shapes(kubeconfig: PathBuf) -> Result<Api<Shape>, Box<dyn Error>> {
    Ok(Api::namespaced(connect(kubeconfig).await?, "default"))
}

async fn stopped() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
