//! Implements `why KIND NAME`, which explains an object on the command line, whether it belongs to this operator or to
//! another one.
//!
//! `collect_evidence` reads the evidence, `homeostat-explain` turns it into an explanation, and this file prints it.
//! This module never writes to the cluster.

use std::io::{self, Write};
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_core::Clock;
use homeostat_explain::{Explanation, Health, explain, render};
use kube::Client;

mod admin_client;
mod announcement;
mod api_reads;
mod ask_failure;
mod collect_evidence;
mod collect_related;
mod journals;
mod local_listener;
mod operator_request;
mod operators_client;
mod pod_proxy;
mod references;
mod served_kinds;

use collect_evidence::{Credentials, WhyQuestion, collect};
pub use operators_client::{OPERATORS_MAX, OperatorsClient};

use crate::error::Error;

/// The pause between two reads with `--watch`.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The object to explain, and the form of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyOptions {
    /// The kind: `deploy`, `Deployment`, `deployments.apps`.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// Its namespace; by default the kubeconfig's.
    pub namespace: Option<String>,
    /// Prints JSON.
    pub json: bool,
    /// Continues and prints again whenever something changes.
    pub watch: bool,
}

impl WhyOptions {
    /// Parses one word of `KIND NAME` or `KIND/NAME` from the command line.
    ///
    /// # Errors
    /// Fails if there is one word too many, and names it.
    pub fn set_word(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('/') {
            Some((kind, name)) if self.kind.is_empty() => {
                (self.kind, self.name) = (kind.to_owned(), name.to_owned());
            }
            None if self.kind.is_empty() => word.clone_into(&mut self.kind),
            None if self.name.is_empty() => word.clone_into(&mut self.name),
            _ => return Err(format!("unexpected argument {word}")),
        }
        Ok(())
    }

    /// Checks that it names an object.
    ///
    /// # Errors
    /// Fails if something is missing, and names it.
    pub fn check(&self) -> Result<(), String> {
        match (self.kind.is_empty(), self.name.is_empty()) {
            (false, false) => Ok(()),
            _ => Err("why needs a kind and a name, as in: why deployment web".to_owned()),
        }
    }
}

/// A client that explains objects in a cluster; its token identifies the caller to operators.
pub struct WhyClient {
    client: Client,
    credentials: Credentials,
    clock: Clock,
}

impl WhyClient {
    /// Creates it for a client; operators that run as other processes respond only if there is a token.
    pub fn new(client: Client, token: Option<String>) -> Self {
        Self { client, credentials: Credentials { token }, clock: Clock::system() }
    }

    /// Explains an object.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, or has no such kind.
    pub fn explain(&self, options: &WhyOptions) -> BoxFuture<'_, Result<Explanation, Error>> {
        let WhyOptions { kind, name, namespace, .. } = options.clone();
        let question = WhyQuestion { kind, name, namespace };
        // The future is boxed here, so that it is compiled here and not in every operator.
        Box::pin(async move {
            let evidence = collect(&self.client, &self.credentials, &question, self.clock).await?;
            Ok(explain(&evidence))
        })
    }

    /// Explains an object to standard output, once or until it is interrupted.
    ///
    /// # Errors
    /// Fails like [`explain`](Self::explain), and if there is no such object.
    pub async fn print(&self, options: &WhyOptions) -> Result<(), Error> {
        let mut shown = None;
        loop {
            let explanation = self.explain(options).await?;
            let news = what_counts(&explanation);
            let is_absent = explanation.health == Health::Absent;
            // If an object does not exist, the error already contains the first line.
            let is_told = is_absent && explanation.timeline.is_empty() && !options.json && !options.watch;
            if !is_told && shown.as_ref() != Some(&news) {
                let text = answer_text(&explanation, options.json);
                let separator = if shown.is_some() && !options.json { "\n---\n" } else { "" };
                write_out(&format!("{separator}{text}"))?;
                shown = Some(news);
            }
            if !options.watch {
                let what = explanation.summary.first().map(|line| line.trim_end_matches('.').to_owned());
                let what = what.unwrap_or(explanation.subject);
                return if is_absent { Err(Error::NotThere { what }) } else { Ok(()) };
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Returns the part of an explanation that is printed again when it changes: everything except elapsed times.
fn what_counts(explanation: &Explanation) -> String {
    let Explanation { health, causes, timeline, gaps, .. } = explanation;
    let codes: Vec<_> = causes.iter().map(|cause| (cause.code, &cause.about)).collect();
    serde_json::json!([health, codes, timeline, gaps]).to_string()
}

fn answer_text(explanation: &Explanation, is_json: bool) -> String {
    if is_json {
        let text = serde_json::to_string_pretty(explanation).unwrap_or_default();
        return text + "\n";
    }
    render(explanation)
}

fn write_out(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Local { what: "cannot write to standard output".to_owned(), source })
        }
        _ => Ok(()),
    }
}
