//! Measures Pods as processes: starts and ends a thousand sleeping Pods, through the server as users run it.
//!
//! Memory is the resident memory that the kernel reports: of the server, of the supervisor, and of one process.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use crate::figure::{Figure, print};
use crate::server::process::{ServerProcess, resident_kilobytes};

/// How many Pods are created at a time.
const CLIENTS: usize = 32;
/// The pause between two checks of all Pods; the measured times are in seconds.
const PAUSE: Duration = Duration::from_millis(100);
/// How many seconds a Pod sleeps: longer than anything measured here.
const FOR_EVER: &str = "100000";

/// Measure Pods
#[derive(clap::Args)]
pub(crate) struct PodsOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Pods to run
    #[arg(long, default_value_t = 1000)]
    pods: usize,
}

/// Measures and prints.
pub(crate) async fn run(options: &PodsOptions) -> Result<(), Box<dyn std::error::Error>> {
    let process = ServerProcess::start_with(&["--node"])?;
    let client = process.client().await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    wait_for_node(&client).await?;
    let mut figures = vec![Figure::new("memory at rest, server", process.memory_mb()?, "MB")];
    let begun = Instant::now();
    create(&pods, options.pods).await?;
    figures.push(Figure::new(format!("{} Pods created", options.pods), begun.elapsed().as_secs_f64(), "s"));
    until(&pods, |phases| phases.iter().filter(|phase| *phase == "Running").count() == options.pods).await?;
    figures.push(Figure::new("all of them running", begun.elapsed().as_secs_f64(), "s"));
    figures.push(Figure::new("memory, server", process.memory_mb()?, "MB"));
    let only = |parent: u32| children(parent).first().copied();
    let supervisor =
        only(process.id()).and_then(only).ok_or("the server has a guard, and that a supervisor")?;
    let processes = children(supervisor);
    figures.push(Figure::new("memory, supervisor", resident_kilobytes(supervisor)? / 1024.0, "MB"));
    let one = processes.first().copied().ok_or("the supervisor has processes")?;
    figures.push(Figure::new("memory, one process", resident_kilobytes(one)? / 1024.0, "MB"));
    let begun = Instant::now();
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until(&pods, <[String]>::is_empty).await?;
    figures.push(Figure::new("all deleted and gone", begun.elapsed().as_secs_f64(), "s"));
    let left = children(supervisor).len();
    if left > 0 {
        return Err(format!("{left} of {} processes are left", processes.len()).into());
    }
    print(&figures, options.json)?;
    Ok(())
}

async fn wait_for_node(client: &Client) -> Result<(), kube::Error> {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    while nodes.list(&ListParams::default()).await?.items.is_empty() {
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn create(pods: &Api<Pod>, count: usize) -> Result<(), kube::Error> {
    let created = stream::iter(0..count)
        .map(|index| async move { pods.create(&PostParams::default(), &sleeper(index)).await.map(drop) });
    created.buffer_unordered(CLIENTS).try_collect().await
}

fn sleeper(index: usize) -> Pod {
    let container = Container {
        name: "main".to_owned(),
        image: Some("none".to_owned()),
        command: Some(vec!["sleep".to_owned(), FOR_EVER.to_owned()]),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta { name: Some(format!("sleeper-{index}")), ..ObjectMeta::default() },
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}

/// Waits until the phases of all Pods satisfy the condition.
async fn until(pods: &Api<Pod>, is_so: impl Fn(&[String]) -> bool) -> Result<(), kube::Error> {
    loop {
        let phase = |pod: Pod| pod.status.and_then(|status| status.phase).unwrap_or_default();
        let phases: Vec<String> = pods.list(&ListParams::default()).await?.into_iter().map(phase).collect();
        if is_so(&phases) {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Returns the children of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
