//! Parses scenario files: requests and kubectl commands, each with kube-apiserver's response.
//!
//! **Invariant:** every word in a file has a meaning here; an unknown one is refused, so that no expectation is
//! overlooked. `README.md` beside this file describes the format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) area: String,
    /// 1: every operator needs it, 2: common, 3: exotic.
    #[serde(rename = "tier")]
    _tier: u8,
    #[serde(rename = "description")]
    _description: String,
    pub(crate) steps: Vec<Step>,
    #[serde(default = "one")]
    pub(crate) namespaces: usize,
    /// Paths to delete at the end.
    #[serde(default)]
    pub(crate) cleanup: Vec<String>,
    /// Whether managedFields are compared.
    #[serde(default)]
    pub(crate) managed_fields: bool,
    #[serde(default)]
    pub(crate) ignore: Vec<String>,
    /// Seconds for the whole scenario.
    pub(crate) timeout: Option<f64>,
    /// Whether it waited long when it was recorded.
    #[serde(default, rename = "slow")]
    _slow: bool,
    /// Whether the controllers of Deployments and similar kinds would change the responses.
    #[serde(default)]
    pub(crate) alone: bool,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    #[default]
    Request,
    Poll,
    Watch,
    Kubectl,
    Sleep,
}

/// How much of a response is compared.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Extent {
    #[default]
    Full,
    Status,
    Types,
    #[serde(rename = "rc")]
    ExitCode,
    None,
}

/// A long text put into a body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Padding {
    pub(crate) at: String,
    pub(crate) bytes: usize,
}

/// The arguments of a command: words, or a text that is split at spaces.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Arguments {
    Words(Vec<String>),
    Text(String),
}

impl Default for Arguments {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

impl Arguments {
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Self::Words(words) => words.clone(),
            Self::Text(text) => {
                assert!(
                    !text.contains(['"', '\'', '\\']),
                    "write quoted arguments as a list of words: {text}"
                );
                text.split_whitespace().map(ToOwned::to_owned).collect()
            }
        }
    }
}

/// A step has the fields of its operation; those of other operations keep their defaults.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) op: Operation,
    pub(crate) method: Option<String>,
    pub(crate) path: String,
    /// `None` removes a header that is sent by default.
    pub(crate) headers: BTreeMap<String, Option<String>>,
    #[serde(deserialize_with = "present")]
    pub(crate) body: Option<Value>,
    pub(crate) raw: Option<String>,
    pub(crate) b64: Option<String>,
    pub(crate) raw_repeat: Option<(String, String, usize, String)>,
    pub(crate) pad: Option<Padding>,
    pub(crate) r#type: Option<String>,
    pub(crate) capture: BTreeMap<String, String>,
    pub(crate) ignore: Vec<String>,
    pub(crate) pick: Option<BTreeMap<String, String>>,
    pub(crate) compare: Extent,
    /// Whether the following steps are meaningless if it fails.
    pub(crate) setup: bool,
    pub(crate) timeout: Option<f64>,
    /// The condition of a poll; `closed` for a watch; `exit` for a command.
    pub(crate) until: Value,
    pub(crate) r#await: Option<usize>,
    pub(crate) bookmarks: Option<String>,
    pub(crate) as_text: bool,
    pub(crate) args: Arguments,
    pub(crate) stdin: Option<Value>,
    pub(crate) files: BTreeMap<String, Value>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) subst: Vec<(String, String)>,
    pub(crate) grep: Option<String>,
    pub(crate) sort: bool,
    pub(crate) seconds: f64,
    /// Steps that run during a watch or a command.
    pub(crate) steps: Vec<Step>,
    #[serde(deserialize_with = "present")]
    pub(crate) expect: Option<Value>,
}

fn one() -> usize {
    1
}

/// Distinguishes `null` from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Scenario {
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }
}

/// Returns the folder with a folder for each area.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/scenarios")
}

/// Reads the scenarios of an area, in the order of their names.
pub(crate) fn load_area(area: &str) -> Vec<Scenario> {
    let folder = folder().join(area);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| load(path)).collect()
}

fn load(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).unwrap();
    let scenario: Scenario =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let place = path.strip_prefix(folder()).unwrap().with_extension("");
    assert_eq!(Path::new(&scenario.full_name()), place, "a scenario has the name of its file");
    scenario
}
