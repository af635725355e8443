//! Extracts the parts of a response that are compared: the body of a reply, the events of a watch.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::compare::ABSENT;
use super::normalise::Context;
use super::paths::{find, get, parse_path, plain, remove};
use super::run::Run;
use super::scenario::{Extent, Step};
use super::wire::{Outgoing, Reply, Stream, content_type};

/// The limit for the events of a watch, unless the step sets another.
const WATCH_LIMIT: Duration = Duration::from_secs(8);
/// How long a watch is observed for further events after it has shown all recorded events.
pub(crate) const EXTRA_LIMIT: Duration = Duration::from_millis(350);
/// The pause between two checks of the clock.
const LOOK: Duration = Duration::from_millis(50);
/// The magic of a protobuf response.
const PROTOBUF: &[u8] = b"k8s\0";

impl<'a> Run<'a> {
    pub(super) fn normalised_body(
        &mut self,
        step: &Step,
        path: &str,
        reply: &Reply,
    ) -> Result<Value, String> {
        if let Some(document) = reply.document.as_ref().filter(|_| !step.as_text) {
            let normalised = self.normaliser.document(document, &Self::context(path));
            return self.trim(step, normalised);
        }
        if let Some(envelope) = reply.data.strip_prefix(PROTOBUF) {
            return Ok(format!("<protobuf {}>", protobuf_type(envelope).join(" ")).into());
        }
        let Ok(text) = std::str::from_utf8(&reply.data) else { return Ok("<binary>".into()) };
        if step.as_text {
            return Ok(json!({"lines": text.trim_end_matches('\n').split('\n').count()}));
        }
        let text = self.normaliser.texts.answer(text);
        Ok(if reply.content_type().contains("yaml") { json!({"yamlText": text}) } else { text.into() })
    }

    /// Removes the values that the step ignores and picks those that it names. A refusal is kept whole.
    pub(super) fn trim(&mut self, step: &Step, mut document: Value) -> Result<Value, String> {
        for path in step.ignore.iter().chain(&self.scenario.ignore) {
            remove(&mut document, &parse_path(path));
        }
        let Some(pick) = &step.pick else { return Ok(document) };
        let mut picked = Map::new();
        let mut is_nothing = true;
        for (name, place) in pick {
            let path = self.normaliser.texts.text(&self.substitute(place)?);
            let found = find(&document, &parse_path(&path));
            is_nothing &= found.is_empty();
            let value = match (place.contains("[*]"), found.first()) {
                (true, _) => found.into_iter().cloned().collect(),
                (false, Some(value)) => (*value).clone(),
                (false, None) => ABSENT.into(),
            };
            picked.insert(name.clone(), value);
        }
        let is_refused = document["kind"] == "Status" && document["status"] == "Failure";
        Ok(if is_refused && is_nothing { document } else { picked.into() })
    }

    pub(super) async fn watch(&mut self, step: &'a Step) -> Result<Value, String> {
        let path = self.substitute(&step.path)?;
        let limit = step.timeout.map_or(WATCH_LIMIT, Duration::from_secs_f64);
        let outgoing = Outgoing { method: "GET", path: &path, headers: self.headers(step)?, body: None };
        let mut stream = self.target.open(&outgoing, limit).await?;
        if stream.status != 200 {
            self.steps(&step.steps).await;
            let reply = stream.whole().await;
            return self.answer(step, &path, &reply);
        }
        let mut lines = Vec::new();
        let until = Instant::now() + limit;
        while kept(step, &lines).len() < step.r#await.unwrap_or_default() && Instant::now() < until {
            lines.extend(stream.line(LOOK).await);
        }
        self.steps(&step.steps).await;
        collect(step, &mut stream, &mut lines, limit).await;
        let events = self.events(step, &path, kept(step, &lines))?;
        let media = content_type(&stream.headers);
        let mut out = json!({"status": stream.status, "contentType": media, "events": events});
        if step.until == "closed" {
            out["closed"] = stream.is_closed.into();
        }
        Ok(out)
    }

    fn events(&mut self, step: &Step, path: &str, events: Vec<Value>) -> Result<Value, String> {
        let mut normalised = Vec::new();
        for event in events {
            for (variable, place) in &step.capture {
                if let Some(value) = get(&event, place) {
                    self.variables.insert(variable.clone(), plain(value));
                }
            }
            let is_bookmark = event["type"] == "BOOKMARK";
            let context = Context { is_bookmark, scope: Self::context(path).scope, ..Context::default() };
            let object = self.normaliser.document(&event["object"], &context);
            let object = self.trim(step, object)?;
            normalised.push(match step.compare {
                Extent::Types => event["type"].clone(),
                _ => json!({"type": event["type"], "object": object}),
            });
        }
        Ok(normalised.into())
    }
}

/// Reads events until all recorded ones have arrived and no more follow, or until the server ends the watch.
async fn collect(step: &Step, stream: &mut Stream, lines: &mut Vec<Vec<u8>>, limit: Duration) {
    let recorded = step.expect.as_ref().and_then(|expect| expect["events"].as_array()).map_or(0, Vec::len);
    let until = Instant::now() + limit;
    let mut last = Instant::now();
    while Instant::now() < until {
        match stream.line(LOOK).await {
            Some(line) => {
                lines.push(line);
                last = Instant::now();
            }
            None if stream.is_closed => return,
            None => {}
        }
        let has_all = kept(step, lines).len() >= recorded;
        if step.until != "closed" && has_all && last.elapsed() > EXTRA_LIMIT {
            return;
        }
    }
}

/// Returns the events that count. Bookmarks depend on timing, except for the one that ends the initial list.
fn kept(step: &Step, lines: &[Vec<u8>]) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    for line in lines {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            events.push(json!({"type": "<unparsable>", "object": String::from_utf8_lossy(line)}));
            continue;
        };
        let ends_list = event["object"]["metadata"]["annotations"].get("k8s.io/initial-events-end").is_some();
        if event["type"] == "BOOKMARK" && !ends_list {
            let follows_another = events.last().is_some_and(|last| last["type"] == "BOOKMARK");
            if step.bookmarks.as_deref() != Some("collapse") || follows_another {
                continue;
            }
        }
        events.push(event);
    }
    events
}

/// Returns apiVersion and kind from the envelope of a protobuf response.
fn protobuf_type(envelope: &[u8]) -> Vec<String> {
    read_protobuf_type(envelope).unwrap_or_else(|| vec!["?".to_owned()])
}

fn read_protobuf_type(data: &[u8]) -> Option<Vec<String>> {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let mut number = 0;
        for shift in (0..).step_by(7).take(9) {
            let byte = *data.get(*at)?;
            *at += 1;
            number |= usize::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    };
    varint(&mut at)?;
    let end = varint(&mut at)? + at;
    let mut texts = Vec::new();
    while at < end {
        varint(&mut at)?;
        let length = varint(&mut at)?;
        texts.push(String::from_utf8(data.get(at..at + length)?.to_vec()).ok()?);
        at += length;
    }
    Some(texts)
}
