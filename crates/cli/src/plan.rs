//! `homeostat plan`: prints what a change would do to the built-in workloads of any cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use homeostat::plan::plan_workloads;
use homeostat::runtime::connect_client;
use homeostat::runtime::plan_command::PlanOptions;
use homeostat_core::terminal_text::escape_controls;

/// Print what a change would do: which objects would be created, changed and deleted, field by field
#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 if nothing would change, 2 if something would, 1 for an error.\n\nExamples:\n    homeostat \
    plan -f web.yaml\n    homeostat plan -f web.yaml --delete --max-deletes 10\nIt lists the cluster with your own rights \
    and runs the controllers for Deployments, Jobs and the like in memory; it changes nothing."
)]
pub(crate) struct Plan {
    /// Files with objects in YAML or JSON, as for kubectl apply; - is stdin
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    files: Vec<String>,

    /// Delete these objects instead of applying them
    #[arg(long)]
    delete: bool,

    /// Namespace for objects that do not specify one [default: that of the kubeconfig]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Refuse a change that deletes or replaces more objects than this
    #[arg(long, value_name = "NUMBER")]
    max_deletes: Option<usize>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The kubeconfig of the cluster [default: KUBECONFIG, then the Pod's service account, then
    /// .homeostat/kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Plan {
    /// Prints the plan.
    pub(crate) fn run(self) -> ExitCode {
        match self.print() {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                // It may quote what others wrote.
                eprintln!("error: {}", escape_controls(&error.to_string()));
                ExitCode::FAILURE
            }
        }
    }

    fn print(self) -> Result<u8, Box<dyn std::error::Error>> {
        let options = PlanOptions {
            files: self.files,
            is_delete: self.delete,
            namespace: self.namespace,
            deletes_max: self.max_deletes,
            json: self.json,
        };
        let kubeconfig = self.kubeconfig.as_deref().map(|file| file.to_string_lossy().into_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            let client = connect_client(kubeconfig.as_deref()).await?;
            plan_workloads(client, options).await.map_err(Box::<dyn std::error::Error>::from)
        })?;
        Ok(outcome.exit_code())
    }
}
