//! The targets, one file each: the form of their inputs, and what must hold.

pub(crate) mod admission_answers;
pub(crate) mod apply;
pub(crate) mod bodies;
pub(crate) mod cel;
pub(crate) mod continue_tokens;
pub(crate) mod crd_schemas;
pub(crate) mod json_patch;
pub(crate) mod merge_patch;
pub(crate) mod paths;
pub(crate) mod protobuf;
pub(crate) mod selectors;
pub(crate) mod strategic_patch;

use homeostat_api::kinds::built_in_rows;
use homeostat_api::resource::Resource;
use serde_json::Value;

use crate::target::TargetEntry;

/// All targets. Pure functions of their input come first; the last three send requests to a whole server.
pub(crate) const TARGETS: [TargetEntry; 12] = [
    TargetEntry {
        name: "selectors",
        about: "print and parse again; agree with a plain evaluation",
        make: || Box::new(selectors::Selectors),
    },
    TargetEntry {
        name: "bodies",
        about: "JSON as another parser reads it; JSON is YAML",
        make: || Box::new(bodies::Bodies),
    },
    TargetEntry {
        name: "json-patch",
        about: "as a plain implementation does it",
        make: || Box::new(json_patch::JsonPatches),
    },
    TargetEntry {
        name: "merge-patch",
        about: "as RFC 7386 does it",
        make: || Box::new(merge_patch::MergePatches),
    },
    TargetEntry {
        name: "strategic-patch",
        about: "an empty one changes nothing; without lists, a merge patch",
        make: || Box::new(strategic_patch::StrategicPatches::new()),
    },
    TargetEntry {
        name: "apply",
        about: "twice is once; managers survive; nothing of others is lost",
        make: || Box::new(apply::Applies::new()),
    },
    TargetEntry {
        name: "protobuf",
        about: "decode and encode are inverse; garbage costs little",
        make: || Box::new(protobuf::Protobuf::new()),
    },
    TargetEntry {
        name: "crd-schemas",
        about: "accepted schemas prune, default and validate stably",
        make: || Box::new(crd_schemas::CrdSchemas),
    },
    TargetEntry {
        name: "cel",
        about: "within the cost limit, and the same every time",
        make: || Box::new(cel::Cel),
    },
    TargetEntry {
        name: "paths",
        about: "print and parse again; both parsers agree; never 5xx",
        make: || Box::new(paths::Paths::new()),
    },
    TargetEntry {
        name: "continue-tokens",
        about: "changed ones never leave their list",
        make: || Box::new(continue_tokens::ContinueTokens::new()),
    },
    TargetEntry {
        name: "admission-answers",
        about: "a Status or a valid object, whatever a webhook says",
        make: || Box::new(admission_answers::AdmissionAnswers::new()),
    },
];

/// Returns the target with this name.
pub(crate) fn target_named(name: &str) -> Option<&'static TargetEntry> {
    TARGETS.iter().find(|entry| entry.name == name)
}

/// The built-in kinds, looked up by the `apiVersion` and `kind` of an object.
pub(crate) struct BuiltInKinds(Vec<Resource>);

impl BuiltInKinds {
    pub(crate) fn new() -> Self {
        Self(built_in_rows())
    }

    /// Returns the row of an object's kind.
    pub(crate) fn row_of(&self, object: &Value) -> Option<&Resource> {
        let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        self.0.iter().find(|row| *row.kind == *kind && row.api_version() == api_version)
    }
}

/// Returns the text of a field, empty if it has none.
pub(crate) fn text_of<'a>(input: &'a Value, name: &str) -> &'a str {
    input[name].as_str().unwrap_or_default()
}

/// Returns the value with whole numbers in one form: `1.0` and `1` are the same number.
pub(crate) fn with_plain_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(with_plain_numbers).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), with_plain_numbers(field))).collect()
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Entropy;

    use super::*;
    use crate::corpus::Corpus;
    use crate::mutate::Mutator;

    /// How many recorded inputs, and how many mutations of each, a test tries.
    const SEEDS: usize = 6;
    const MUTATIONS: usize = 4;

    #[test]
    fn every_target_holds_for_some_inputs_and_distinguishes_outcomes() {
        let corpus = Corpus::load();
        for entry in &TARGETS {
            let entropy = Entropy::seeded(1);
            let mutator = Mutator { entropy: &entropy, words: &corpus.words };
            let mut target = (entry.make)();
            let seeds = target.seeds(&corpus);
            let mut features = std::collections::BTreeSet::new();
            for seed in seeds.iter().step_by((seeds.len() / SEEDS).max(1)) {
                let mutations = std::iter::repeat_with(|| mutator.mutate(seed, seed)).take(MUTATIONS);
                for input in std::iter::once(seed.clone()).chain(mutations) {
                    features.extend(target.run(&input).unwrap_or_else(|why| panic!("{}: {why}", entry.name)));
                }
            }
            assert!(features.len() > 3, "{}: {features:?}", entry.name);
        }
    }
}
