//! `homeostat why`: explains an object in any cluster.

use std::error::Error;
use std::path::PathBuf;

use clap::error::ErrorKind;
use homeostat::runtime::connect_why_client;
use homeostat::runtime::why::WhyOptions;

/// Explain why an object is as it is: what is wrong and since when, who wrote what, what it waits for
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n    homeostat why deployment web\n    homeostat why pod/web-7d4b9 -n shop --watch\n\
    It only reads, with your own rights. Operators are asked for their journals: those on this machine directly, those in \
    Pods through the API server (get on pods/proxy)."
)]
pub(crate) struct Why {
    /// Kind and name of the object, as for kubectl: deploy web, Deployment web, deployments.apps/web
    #[arg(required = true, num_args = 1..=2, value_name = "KIND NAME")]
    object: Vec<String>,

    /// Namespace of the object [default: that of the kubeconfig]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Continue, and print again whenever something changes
    #[arg(short, long)]
    watch: bool,

    /// The kubeconfig of the cluster [default: KUBECONFIG, then the Pod's service account, then
    /// .homeostat/kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Why {
    /// Prints the explanation.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let mut options = WhyOptions {
            namespace: self.namespace,
            json: self.json,
            watch: self.watch,
            ..WhyOptions::default()
        };
        let read =
            self.object.iter().try_for_each(|word| options.set_word(word)).and_then(|()| options.check());
        if let Err(problem) = read {
            clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{problem}\n")).exit();
        }
        let kubeconfig = self.kubeconfig.as_deref().map(|file| file.to_string_lossy().into_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { connect_why_client(kubeconfig.as_deref()).await?.print(&options).await })?;
        Ok(())
    }
}
