//! Supports tests of operators with an in-memory control plane, virtual time, requests that fail on demand, and a
//! journal to assert on.
//!
//! A [`Cluster`] is a real API server in the process of the test, without sockets, disk or TLS. [`Cluster::run`] runs
//! operators on it, [`Cluster::settle`] waits until they have nothing left to do, and [`Cluster::pass`] lets hours pass
//! in no time. [`Faults`] break operators' requests; [`RunningOperator::since`] returns what an operator did. Time and
//! randomness are the cluster's, so a test repeats exactly.
//!
//! ```
//! use homeostat::prelude::*;
//! use homeostat::testing::{Cluster, InjectedFault, RequestVerb};
//!
//! # #[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
//! # #[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced)]
//! # struct PageSpec { text: String }
//! # fn page(name: &str, text: &str) -> Page { Page::new(name, PageSpec { text: text.to_owned() }) }
//! # fn operator() -> Operator {
//! #     let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(|page, cx| async move {
//! #         let mut map = ConfigMap::default();
//! #         map.metadata.name = Some(page.name_any());
//! #         map.data = Some([("text".to_owned(), page.spec.text.clone())].into());
//! #         cx.apply(map).await?;
//! #         Ok(Action::await_change())
//! #     });
//! #     Operator::new("pages.demo.dev").crd::<Page>().control(pages)
//! # }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // #[tokio::test(start_paused = true)]
//! let cluster = Cluster::start().await;
//! let operator = cluster.run(operator());
//! cluster.settle().await;
//!
//! cluster.faults().fail_next::<ConfigMap>(RequestVerb::Patch, 3, InjectedFault::Refuse(500, "etcd is down"));
//! cluster.create(page("home", "hello")).await;
//! cluster.pass(Duration::from_secs(60)).await; // three retries
//! assert_eq!(cluster.get::<ConfigMap>("home").await.data.unwrap()["text"], "hello");
//! assert_eq!(operator.records().about::<Page>("home").failures().len(), 3);
//!
//! let mark = operator.mark();
//! cluster.pass(Duration::from_secs(3600)).await;
//! operator.since(mark).expect_no_writes();
//! # }
//! ```
//!
//! A cluster's methods panic at their call site if the server refuses their request: a test that cannot continue fails.
//! [`Cluster::client`] returns errors instead.

mod cluster;
mod faults;
mod objects;
mod records;
mod remote_times;
mod request_info;
mod required_programs;
mod running_operator;
mod wire;

pub use homeostat_core::RequestVerb;

pub use cluster::{Builder, Cluster, ClusterSnapshot};
pub use faults::{Faults, InjectedFault};
pub use homeostat_runtime::PausedTime;
pub use records::{JournalMark, Records};
pub use required_programs::{has_tool, report_skip, skip_without};
pub use running_operator::RunningOperator;
