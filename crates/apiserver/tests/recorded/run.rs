//! Carries out one scenario: creates namespaces, runs its steps in order, then cleans up.
//!
//! A step that cannot be carried out (a variable that was never captured, a condition that never held) fails like one
//! whose response differs; the steps after it still run, unless it is marked as their setup.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use homeostat_core::Entropy;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::compare::{Comparer, Difference};
use super::normalise::{Context, Normaliser};
use super::paths::{get, plain};
use super::scenario::{Extent, Operation, Scenario, Step};
use super::texts::TextNormaliser;
use super::wire::{Client, Outgoing, Reply, Target};

/// The limits for a response, a condition and the whole scenario, unless a step or the scenario sets others. Only a
/// failing scenario waits that long.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
const CONDITION_LIMIT: Duration = Duration::from_secs(30);
const SCENARIO_LIMIT: Duration = Duration::from_secs(90);
/// The pause between two checks of a condition: short at first, since most conditions hold immediately.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Letters of the name that makes a run unique.
const NAME_LETTERS: usize = 6;

const PATCHES: [(&str, &str); 4] = [
    ("json", "application/json-patch+json"),
    ("merge", "application/merge-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
    ("apply", "application/apply-patch+yaml"),
];

static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").unwrap());

/// The result of one scenario.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) steps: usize,
    /// The failures: the step and the problem with it.
    pub(crate) failures: Vec<(String, String)>,
    /// Steps that differ only in the text of a message, and how.
    pub(crate) soft: Vec<(String, String)>,
}

pub(crate) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) target: &'a Target,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) normaliser: Normaliser,
    /// The working folder of kubectl.
    pub(super) folder: Option<tempfile::TempDir>,
    client: Client,
    comparer: Comparer,
    outcome: Outcome,
    deadline: Instant,
}

impl<'a> Run<'a> {
    pub(crate) fn new(scenario: &'a Scenario, target: &'a Target) -> Self {
        let id = format!("q{}", Entropy::system().suffix(NAME_LETTERS));
        let (ns, ns2) = (format!("oracle-{id}"), format!("oracle-{id}x"));
        let url = format!("https://{}", target.authority);
        let mut names = vec![(ns2.clone(), "${ns2}".to_owned()), (ns.clone(), "${ns}".to_owned())];
        names.push((id.clone(), "${id}".to_owned()));
        names.extend([url, target.authority.clone()].map(|name| (name, "<server>".to_owned())));
        let variables = [("id", id), ("ns", ns), ("ns2", ns2)].map(|(name, value)| (name.to_owned(), value));
        let limit = scenario.timeout.map_or(SCENARIO_LIMIT, Duration::from_secs_f64);
        Self {
            scenario,
            target,
            variables: variables.into(),
            normaliser: Normaliser::new(TextNormaliser::new(names), scenario.managed_fields),
            folder: None,
            client: Client::default(),
            comparer: Comparer::default(),
            outcome: Outcome::default(),
            deadline: Instant::now() + limit,
        }
    }

    pub(crate) async fn execute(mut self) -> Outcome {
        match self.make_namespaces().await {
            Ok(()) => self.steps(&self.scenario.steps).await,
            Err(why) => self.fail_all(&self.scenario.steps, &format!("no namespace: {why}")),
        }
        self.clean_up().await;
        self.outcome
    }

    fn namespaces(&self) -> Vec<String> {
        ["ns", "ns2"][..self.scenario.namespaces].iter().map(|name| self.variables[*name].clone()).collect()
    }

    async fn make_namespaces(&mut self) -> Result<(), String> {
        for name in self.namespaces() {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let reply = self.send_plain("POST", "/api/v1/namespaces", "application/json", Some(body)).await?;
            if reply.status != 201 {
                return Err(format!("creating {name} answered {}", reply.status));
            }
        }
        Ok(())
    }

    /// Deletes the objects that the scenario names, and its namespaces. Objects that are already gone are fine.
    async fn clean_up(&mut self) {
        for path in &self.scenario.cleanup {
            let Ok(path) = self.substitute(path) else { continue };
            let options = json!({"gracePeriodSeconds": 0});
            let deleted = self.send_plain("DELETE", &path, "application/json", Some(options)).await;
            let document = deleted.ok().and_then(|reply| reply.document).unwrap_or_default();
            let ends_by_itself =
                matches!(document["kind"].as_str(), Some("CustomResourceDefinition" | "Namespace"));
            if document["metadata"]["finalizers"].is_array() && !ends_by_itself {
                let release = json!({"metadata": {"finalizers": null}});
                let _ = self.send_plain("PATCH", &path, "application/merge-patch+json", Some(release)).await;
            }
        }
        for name in self.namespaces() {
            let _ = self.send_plain("DELETE", &format!("/api/v1/namespaces/{name}"), "", None).await;
        }
    }

    async fn send_plain(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<Value>,
    ) -> Result<Reply, String> {
        let headers = body.iter().map(|_| ("content-type".to_owned(), Some(media.to_owned()))).collect();
        let body = body.map(|body| Bytes::from(body.to_string()));
        let outgoing = Outgoing { method, path, headers, body };
        self.client.send(self.target, &outgoing, ANSWER_LIMIT).await
    }

    /// Returns the text with the values of its variables.
    pub(super) fn substitute(&self, text: &str) -> Result<String, String> {
        let mut missing = None;
        let replaced = VARIABLE.replace_all(text, |found: &Captures<'_>| {
            self.variables.get(&found[1]).cloned().unwrap_or_else(|| {
                missing = Some(format!("the variable {} was never captured", &found[0]));
                String::new()
            })
        });
        let replaced = replaced.into_owned();
        missing.map_or(Ok(replaced), Err)
    }

    pub(super) fn substitute_in(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => self.substitute(text)?.into(),
            Value::Array(list) => {
                list.iter().map(|value| self.substitute_in(value)).collect::<Result<_, _>>()?
            }
            Value::Object(map) => {
                let entries =
                    map.iter().map(|(key, value)| Ok((self.substitute(key)?, self.substitute_in(value)?)));
                Value::Object(entries.collect::<Result<Map<_, _>, String>>()?)
            }
            other => other.clone(),
        })
    }

    /// Carries out steps; boxed, since a watch has nested steps.
    pub(super) fn steps<'b>(&'b mut self, steps: &'a [Step]) -> BoxFuture<'b, ()> {
        async move {
            for (index, step) in steps.iter().enumerate() {
                if Instant::now() > self.deadline {
                    return self.fail_all(&steps[index..], "not run: the scenario ran out of time");
                }
                let given = self.step(step).await;
                let is_right = self.settle(step, given);
                if step.setup && !is_right {
                    let why = format!("not run: step {}, which it builds on, failed", step.id);
                    return self.fail_all(&steps[index + 1..], &why);
                }
            }
        }
        .boxed()
    }

    fn fail_all(&mut self, steps: &[Step], why: &str) {
        for step in steps {
            self.fail_all(&step.steps, why);
            self.settle(step, Err(why.to_owned()));
        }
    }

    /// Compares the result of one step with the recording; returns whether they agree.
    fn settle(&mut self, step: &Step, given: Result<Value, String>) -> bool {
        let Some(recorded) = &step.expect else {
            if let Err(why) = &given {
                self.outcome.failures.push((step.id.clone(), why.clone()));
            }
            return given.is_ok();
        };
        self.outcome.steps += 1;
        let given = match given {
            Ok(given) => given,
            Err(why) => {
                self.outcome.failures.push((step.id.clone(), why));
                return false;
            }
        };
        let differences = self.comparer.compare(recorded, &given, &step.id);
        let (soft, hard): (Vec<Difference>, Vec<Difference>) =
            differences.into_iter().partition(|difference| difference.is_soft);
        let is_right = hard.is_empty();
        self.outcome.failures.extend(hard.iter().map(|found| (step.id.clone(), found.to_string())));
        self.outcome.soft.extend(soft.iter().map(|found| (step.id.clone(), found.to_string())));
        is_right
    }

    async fn step(&mut self, step: &'a Step) -> Result<Value, String> {
        match step.op {
            Operation::Sleep => {
                tokio::time::sleep(Duration::from_secs_f64(step.seconds)).await;
                Ok(Value::Null)
            }
            Operation::Request => {
                let limit = step.timeout.map_or(ANSWER_LIMIT, Duration::from_secs_f64);
                let (path, reply) = self.request(step, limit).await?;
                self.answer(step, &path, &reply)
            }
            Operation::Poll => self.poll(step).await,
            Operation::Watch => self.watch(step).await,
            Operation::Kubectl => self.kubectl(step).await,
        }
    }

    pub(super) fn headers(&self, step: &Step) -> Result<Vec<(String, Option<String>)>, String> {
        let substituted = step.headers.iter().map(|(name, value)| {
            Ok((name.to_lowercase(), value.as_ref().map(|value| self.substitute(value)).transpose()?))
        });
        substituted.collect()
    }

    async fn request(&mut self, step: &Step, limit: Duration) -> Result<(String, Reply), String> {
        let path = self.substitute(&step.path)?;
        let mut headers = self.headers(step)?;
        let body = self.body(step)?;
        let named = step
            .r#type
            .as_ref()
            .map(|name| PATCHES.iter().find(|(short, _)| short == name).map_or(&**name, |(_, media)| *media));
        let media = named.or_else(|| body.is_some().then_some("application/json"));
        if let Some(media) = media.filter(|_| headers.iter().all(|(name, _)| name != "content-type")) {
            headers.push(("content-type".to_owned(), Some(media.to_owned())));
        }
        let method = step.method.as_deref().unwrap_or("GET");
        let outgoing = Outgoing { method, path: &path, headers, body };
        let reply = self.client.send(self.target, &outgoing, limit).await?;
        Ok((path, reply))
    }

    fn body(&self, step: &Step) -> Result<Option<Bytes>, String> {
        if let Some(body) = &step.body {
            let mut body = self.substitute_in(body)?;
            if let Some(padding) = &step.pad {
                let place = padding.at.split('.').fold(&mut body, |node, key| &mut node[key]);
                *place = "x".repeat(padding.bytes).into();
            }
            return Ok(Some(body.to_string().into()));
        }
        if let Some(raw) = &step.raw {
            return Ok(Some(self.substitute(raw)?.into()));
        }
        if let Some((head, unit, times, tail)) = &step.raw_repeat {
            return Ok(Some(format!("{head}{}{tail}", unit.repeat(*times)).into()));
        }
        let bytes = step.b64.as_ref().map(|text| STANDARD.decode(text)).transpose();
        Ok(bytes.map_err(|error| error.to_string())?.map(Bytes::from))
    }

    pub(super) fn answer(&mut self, step: &Step, path: &str, reply: &Reply) -> Result<Value, String> {
        for (variable, place) in &step.capture {
            match reply
                .document
                .as_ref()
                .and_then(|document| get(document, place))
                .filter(|value| !value.is_null())
            {
                Some(value) => self.variables.insert(variable.clone(), plain(value)),
                None => self.variables.remove(variable),
            };
        }
        match step.compare {
            Extent::None => return Ok(Value::Null),
            Extent::Status => return Ok(json!({"status": reply.status})),
            Extent::Full | Extent::Types | Extent::ExitCode => {}
        }
        let mut out = json!({"status": reply.status, "contentType": reply.content_type()});
        let warnings: Vec<String> = reply
            .headers
            .get_all("warning")
            .iter()
            .map(|value| self.normaliser.texts.text(&String::from_utf8_lossy(value.as_bytes())))
            .collect();
        if !warnings.is_empty() {
            out["warnings"] = warnings.len().into();
            out["warningText"] = warnings.into();
        }
        out["body"] = self.normalised_body(step, path, reply)?;
        Ok(out)
    }

    async fn poll(&mut self, step: &Step) -> Result<Value, String> {
        let limit = step.timeout.map_or(CONDITION_LIMIT, Duration::from_secs_f64);
        let until = self.deadline.min(Instant::now() + limit);
        let condition = self.substitute_in(&step.until)?;
        let mut pause = LOOK_FIRST;
        loop {
            let (path, reply) = self.request(step, ANSWER_LIMIT).await?;
            if holds(&condition, &reply) {
                return self.answer(step, &path, &reply);
            }
            if Instant::now() > until {
                let last = String::from_utf8_lossy(&reply.data).chars().take(200).collect::<String>();
                return Err(format!(
                    "the condition {} did not hold within {limit:?}; the last answer was {} {last}",
                    step.until, reply.status
                ));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    pub(super) fn context(path: &str) -> Context {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Context { scope: scope(path), query: parse_query(query), ..Context::default() }
    }

    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn holds(condition: &Value, reply: &Reply) -> bool {
    if let Some(status) = condition.get("status") {
        return *status == reply.status;
    }
    let path = condition["path"].as_str().expect("a condition on a status or a path");
    let value =
        reply.document.as_ref().and_then(|document| get(document, path)).filter(|value| !value.is_null());
    if let Some(equals) = condition.get("equals") {
        return value == Some(equals);
    }
    if let Some(length) = condition.get("len") {
        return *length == value.and_then(Value::as_array).map_or(0, Vec::len);
    }
    let exists = condition.get("exists").and_then(Value::as_bool).expect("a condition that is known");
    value.is_some() == exists
}

/// Returns the group and resource that a path addresses; subresources share their parent's.
fn scope(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, mut rest) = match parts.as_slice() {
        ["api", rest @ ..] => ("", rest.get(1..).unwrap_or_default()),
        ["apis", group, rest @ ..] => (*group, rest.get(1..).unwrap_or_default()),
        _ => return path.to_owned(),
    };
    if let ["watch", below @ ..] = rest {
        rest = below;
    }
    if let ["namespaces", _, resource, ..] = rest
        && !matches!(*resource, "status" | "finalize")
    {
        rest = &rest[2..];
    }
    format!("{group}/{}", rest.first().unwrap_or(&""))
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decode(key), decode(value))).filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subresources_share_the_scope_of_their_parent() {
        let cases = [
            ("/api/v1/namespaces/a/pods/b/status", "/pods"),
            ("/api/v1/namespaces/a/status", "/namespaces"),
            ("/api/v1/namespaces", "/namespaces"),
            ("/api/v1/watch/namespaces/a/pods", "/pods"),
            ("/apis/apps/v1/deployments", "apps/deployments"),
            ("/version", "/version"),
        ];
        for (path, expected) in cases {
            assert_eq!(scope(path), expected, "{path}");
        }
    }
}
