//! The initial corpus: requests and answers that were recorded from a real kube-apiserver
//! (`crates/apiserver/tests/recorded`), sorted by type.
//!
//! It is read from the source tree, in the order of the file names, so that every run begins with the same corpus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// The placeholders in recorded answers, and the values that replace them.
const PLACEHOLDERS: [(&str, &str); 5] = [
    ("${ns}", "default"),
    ("${ns2}", "other"),
    ("${id}", "x1"),
    ("<time>", "2026-01-02T03:04:05Z"),
    ("<uid:1>", "5c0d9b6e-7a3f-4c50-9a51-0d6f4b8f2a11"),
];

/// The maximum length of a word in the dictionary: longer texts are rarely keys, operators or values that matter.
const WORD_BYTES_MAX: usize = 40;

/// Recorded material.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    /// Objects that were sent or answered.
    pub(crate) objects: Vec<Value>,
    pub(crate) json_patches: Vec<Value>,
    pub(crate) merge_patches: Vec<Value>,
    pub(crate) strategic_patches: Vec<Value>,
    pub(crate) applied: Vec<Value>,
    /// Selectors of labels and fields.
    pub(crate) selectors: Vec<String>,
    /// Methods and paths with their queries.
    pub(crate) paths: Vec<(String, String)>,
    /// Keys and short texts from all recorded material.
    pub(crate) words: Vec<String>,
}

impl Corpus {
    /// Reads the recorded scenarios; the corpus is empty if the source tree does not exist.
    pub(crate) fn load() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver/tests/recorded/scenarios");
        let mut corpus = Self::default();
        let mut words = BTreeSet::new();
        for file in files_below(&folder) {
            let Ok(mut text) = std::fs::read_to_string(&file) else { continue };
            for (placeholder, value) in PLACEHOLDERS {
                text = text.replace(placeholder, value);
            }
            let Ok(scenario) = serde_json::from_str::<Value>(&text) else { continue };
            corpus.add_steps(&scenario);
            add_words(&scenario["steps"], &mut words);
        }
        corpus.words = words.into_iter().collect();
        corpus
    }

    fn add_steps(&mut self, holder: &Value) {
        for step in holder["steps"].as_array().into_iter().flatten() {
            self.add_request(step);
            self.add_object(&step["expect"]["body"]);
            self.add_steps(step);
        }
    }

    fn add_request(&mut self, step: &Value) {
        let Some(path) = step["path"].as_str() else { return };
        let method = step["method"].as_str().unwrap_or("GET");
        self.paths.push((method.to_owned(), path.to_owned()));
        for (name, value) in path.split_once('?').into_iter().flat_map(|(_, query)| parameters(query)) {
            if matches!(&*name, "labelSelector" | "fieldSelector") {
                self.selectors.push(value);
            }
        }
        let body = &step["body"];
        match step["type"].as_str() {
            _ if body.is_null() => {}
            Some("json") => self.json_patches.push(body.clone()),
            Some("merge") => self.merge_patches.push(body.clone()),
            Some("strategic") => self.strategic_patches.push(body.clone()),
            Some("apply") => self.applied.push(body.clone()),
            _ => self.add_object(body),
        }
    }

    fn add_object(&mut self, object: &Value) {
        if object["kind"].is_string() && object["apiVersion"].is_string() && object["kind"] != "Status" {
            self.objects.push(object.clone());
        }
    }

    /// Returns the objects of a kind.
    pub(crate) fn objects_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == *kind)
    }
}

/// Returns the decoded parameters of a query.
fn parameters(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter_map(|part| part.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn add_words(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                add_word(name, words);
                add_words(field, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_words(item, words)),
        Value::String(text) => add_word(text, words),
        _ => {}
    }
}

fn add_word(text: &str, words: &mut BTreeSet<String>) {
    if text.len() <= WORD_BYTES_MAX {
        words.insert(text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_input_was_recorded() {
        let corpus = Corpus::load();
        let counts = [
            corpus.objects.len(),
            corpus.json_patches.len(),
            corpus.merge_patches.len(),
            corpus.strategic_patches.len(),
            corpus.applied.len(),
            corpus.selectors.len(),
            corpus.paths.len(),
            corpus.words.len(),
        ];
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
        assert!(corpus.objects_of("CustomResourceDefinition").count() > 10);
    }
}
