//! Bodies of requests: JSON is parsed as another parser parses it, and means the same when it is parsed as YAML.
//!
//! Input: `{"text": text, "value": any}`; the value is first serialized as JSON.

use homeostat_api::decode::{self, DuplicateKeyReport, TextFormat};
use serde_json::{Value, json};

use super::{text_of, with_plain_numbers};
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require, require_equal};

pub(crate) struct Bodies;

impl Target for Bodies {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let objects = corpus.objects.iter().step_by(5);
        let mut seeds: Vec<_> =
            objects.map(|object| json!({"text": object.to_string(), "value": object})).collect();
        for text in [
            "a: 1\nb: [x, 'y', \"z\"]\nc:\n- d: &anchor {e: f}\n- *anchor\n",
            "{\"a\": 1, \"a\": 2.50, \"b\": \"\\ud834\\udd1e\", \"c\": 1e3}",
            "---\nkind: Pod\n...\n",
            "? complex\n: - |\n    text\n  - >-\n    folded\n",
        ] {
            seeds.push(json!({"text": text, "value": null}));
        }
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "{", "}", "[", "]", ":", ": ", "\n", "\n- ", "\n  ", "\"", "'", "&a ", "*a", "<<: *a", "|", ">",
            "\\u", "\\ud800", "1e9", "-0", "0x1f", "~", "!!str ", "? ", "#", "---\n", "\t", "true", ".inf",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let text = text_of(input, "text");
        let written = input["value"].to_string();
        let found = read(&written, TextFormat::Json);
        require_equal(
            "a value that was written",
            &found.map(|value| with_plain_numbers(&value)),
            &Ok(with_plain_numbers(&input["value"])),
        )?;
        let (json, yaml) = (read(text, TextFormat::Json), read(text, TextFormat::Yaml));
        if let (Ok(found), Ok(expected)) = (&json, serde_json::from_str::<Value>(text)) {
            require_equal("JSON", &with_plain_numbers(found), &with_plain_numbers(&expected))?;
        }
        if let (Err(why), Ok(_)) = (&json, serde_json::from_str::<Value>(text)) {
            require(why.contains("depth") || why.contains("too large"), || {
                format!("JSON was refused: {why}")
            })?;
        }
        Ok(vec![outcome("json", &json), outcome("yaml", &yaml)])
    }
}

fn read(text: &str, format: TextFormat) -> Result<Value, String> {
    let read = |report| decode::body(text.as_bytes(), format, report).map(|body| body.value);
    let found = read(DuplicateKeyReport::Collect).map_err(|status| status.message);
    let plain = read(DuplicateKeyReport::Omit).map_err(|status| status.message);
    // Both must agree. A difference is returned as an error, which the comparison with other parsers then reports.
    if found.is_ok() == plain.is_ok() && found.as_ref().ok() == plain.as_ref().ok() {
        return plain;
    }
    Err(format!("reading with and without a report of duplicate keys differs: {found:?} {plain:?}"))
}

fn outcome(format: &str, read: &Result<Value, String>) -> String {
    match read {
        Ok(value) => format!("{format} {}", super::merge_patch::shape(value, 2)),
        Err(why) => format!("{format} {why}"),
    }
}
