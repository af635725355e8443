//! Compares the server with the real kube-apiserver and its etcd, in one run and with one client program: throughput,
//! and processor time per request.
//!
//! The two run in turn, several times, each time with an empty store; the medians are compared, so that other work on
//! the machine affects both alike.

use std::path::Path;

use super::process::{ServerProcess, client_of, processor_seconds_of, resident_kilobytes};
use super::reference_process::ReferenceProcess;
use super::{CLIENTS, LoadGenerator, REST, ms};
use crate::Outcome;
use crate::report::{self, ReportRow, ReportTarget};

/// How often each of the two is measured.
const ROUNDS: usize = 3;
/// How many objects are read per object created.
const GETS_PER_OBJECT: usize = 3;
const WATCHERS: usize = 100;
const WATCHED_UPDATES: usize = 500;

/// What is measured: name, unit, and the target for ours beside theirs. The targets for processor time and memory are
/// those of the design; those for throughput are what was reached before admission existed, less a fifth, because the
/// client shares the machine.
const ROWS: [(&str, &str, ReportTarget); 14] = [
    ("start until ready", "ms", ReportTarget::TimesLess(20.0)),
    ("create, 64 clients", "/s", ReportTarget::TimesMore(5.5)),
    ("create, processor", "µs each", ReportTarget::TimesLess(10.0)),
    ("get, 64 clients", "/s", ReportTarget::TimesMore(5.5)),
    ("get, processor", "µs each", ReportTarget::TimesLess(10.0)),
    ("list all", "ms", ReportTarget::TimesLess(4.5)),
    ("list by label", "ms", ReportTarget::TimesLess(9.5)),
    ("list paged by 500", "ms", ReportTarget::TimesLess(5.0)),
    ("watch events, 100 watchers", "/s", ReportTarget::TimesMore(2.5)),
    ("watch events, processor", "µs each", ReportTarget::TimesLess(10.0)),
    ("delete, 64 clients", "/s", ReportTarget::TimesMore(6.0)),
    ("delete, processor", "µs each", ReportTarget::TimesLess(10.0)),
    ("processor for all of this", "s", ReportTarget::TimesLess(15.0)),
    ("memory at the end", "MB", ReportTarget::TimesLess(10.0)),
];

/// The values of one round, in the order of [`ROWS`].
type RoundFigures = [f64; ROWS.len()];

/// Measures both and prints the comparison.
pub(super) async fn run(programs: &Path, objects: usize, as_json: bool) -> Outcome<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}: homeostat");
        let process = ServerProcess::start()?;
        let side = Side { kubeconfig: process.kubeconfig(), processes: vec![process.id()], objects };
        ours.push(side.measure(ms(process.started_in)).await?);
        drop(process);
        eprintln!("round {round} of {ROUNDS}: kube-apiserver");
        let process = ReferenceProcess::start(programs).await?;
        let side = Side { kubeconfig: process.kubeconfig(), processes: process.ids(), objects };
        theirs.push(side.measure(ms(process.started_in)).await?);
    }
    let rows = ROWS.iter().enumerate().map(|(at, &(name, unit, target))| {
        let median_of = |rounds: &[RoundFigures]| median(rounds.iter().map(|round| round[at]).collect());
        ReportRow::beside(name, unit, [median_of(&ours), median_of(&theirs)], target)
    });
    report::print(&rows.collect::<Vec<_>>(), "kube-apiserver", as_json);
    Ok(())
}

/// One of the two servers.
struct Side<'process> {
    kubeconfig: &'process Path,
    /// All processes whose time and memory count.
    processes: Vec<u32>,
    objects: usize,
}

impl Side<'_> {
    /// Measures everything once, on an empty store.
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    async fn measure(&self, started_ms: f64) -> Outcome<RoundFigures> {
        let load = LoadGenerator::new(client_of(self.kubeconfig).await?);
        load.namespace().await?;
        tokio::time::sleep(REST).await;
        let begun = self.processor_seconds()?;
        let create = load.create(CLIENTS, self.objects, "many").await?.per_second;
        let created = self.processor_seconds()?;
        let gets = self.objects * GETS_PER_OBJECT;
        let get = load.get(CLIENTS, gets, self.objects).await?.per_second;
        let got = self.processor_seconds()?;
        let [list, by_label, paged] = self.lists()?;
        let listed = self.processor_seconds()?;
        let events = load.watch(&client_of(self.kubeconfig).await?, WATCHERS, WATCHED_UPDATES).await?;
        let watched = self.processor_seconds()?;
        let delete = load.delete(CLIENTS, self.objects).await?.per_second;
        let deleted = self.processor_seconds()?;
        let each = |seconds: f64, count: usize| seconds * 1e6 / count as f64;
        Ok([
            started_ms,
            create,
            each(created - begun, self.objects),
            get,
            each(got - created, gets),
            list,
            by_label,
            paged,
            events,
            each(watched - listed, LoadGenerator::watch_events(WATCHERS, WATCHED_UPDATES)),
            delete,
            each(deleted - watched, self.objects),
            deleted - begun,
            self.memory_mb()?,
        ])
    }

    /// Measures lists in milliseconds: all, by label, and paged. They are read by one thread, as `super::lists` explains.
    fn lists(&self) -> Outcome<[f64; 3]> {
        tokio::task::block_in_place(|| {
            let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            alone.block_on(async {
                let load = LoadGenerator::new(client_of(self.kubeconfig).await?);
                let (all, _) = load.list("").await?;
                let (by_label, _) = load.list("labelSelector=shard%3D7").await?;
                Ok([ms(all), ms(by_label), ms(load.pages(500).await?)])
            })
        })
    }

    fn processor_seconds(&self) -> Outcome<f64> {
        self.processes.iter().map(|&process| processor_seconds_of(&process.to_string())).sum()
    }

    fn memory_mb(&self) -> Outcome<f64> {
        let kilobytes: Outcome<f64> = self.processes.iter().map(|&process| resident_kilobytes(process)).sum();
        Ok(kilobytes? / 1024.0)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
