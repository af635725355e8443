//! Turns one scenario's responses into documents that are the same on every run.
//!
//! Versions of objects keep their value (see [`ServedVersion`]); versions of lists and bookmarks only need to be as new
//! as those served before. Lists whose order means nothing (managedFields, causes, verbs, conditions of definitions and
//! namespaces) are sorted; managedFields are dropped unless the scenario compares them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::compare::CUT;
use super::texts::{TextNormaliser, TokenFamily};
use super::versions::{ServedVersion, number};

/// The length to which messages are cut.
pub(crate) const MESSAGE_CHARACTERS_MAX: usize = 400;
/// Longer bases of generated names are cut so that the name fits into 63 characters.
const BASE_CHARACTERS_MAX: usize = 58;
const AGE_COLUMNS: [&str; 4] = ["Age", "Created At", "Last Seen", "First Seen"];

static SUFFIX: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[a-z0-9]{5}$").unwrap());
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[0-9a-f.:]+$").unwrap());
pub(super) static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(<invalid>|(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?)$").unwrap());

/// The context on which the meaning of a response depends.
#[derive(Clone, Default)]
pub(crate) struct Context {
    /// Group and resource of the request.
    pub(crate) scope: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) is_bookmark: bool,
    pub(crate) sorts_conditions: bool,
}

pub(crate) struct Normaliser {
    pub(crate) texts: TextNormaliser,
    keeps_managed_fields: bool,
    /// The creation time first served for each uid.
    created: BTreeMap<String, String>,
    /// The newest version served of each resource.
    newest: BTreeMap<String, u64>,
    /// The list version that each continue token was served with.
    pages: BTreeMap<String, Value>,
}

impl Normaliser {
    pub(crate) fn new(texts: TextNormaliser, keeps_managed_fields: bool) -> Self {
        let (created, newest, pages) = Default::default();
        Self { texts, keeps_managed_fields, created, newest, pages }
    }

    /// Normalises a document.
    pub(crate) fn document(&mut self, document: &Value, context: &Context) -> Value {
        self.learn_names(document);
        self.walk(document, context, "")
    }

    fn learn_names(&mut self, node: &Value) {
        match node {
            Value::Object(map) => {
                let text = |key: &str| map.get(key).and_then(Value::as_str);
                if let (Some(base), Some(name)) = (text("generateName"), text("name")) {
                    let base: String = base.chars().take(BASE_CHARACTERS_MAX).collect();
                    let suffix = name.strip_prefix(&base).filter(|_| !base.is_empty());
                    if suffix.is_some_and(|suffix| SUFFIX.is_match(suffix)) {
                        self.texts.token(TokenFamily::GeneratedName, name);
                    }
                }
                map.values().for_each(|value| self.learn_names(value));
            }
            Value::Array(list) => list.iter().for_each(|value| self.learn_names(value)),
            _ => {}
        }
    }

    fn walk(&mut self, node: &Value, context: &Context, key: &str) -> Value {
        match node {
            Value::String(text) => self.text(text, key).into(),
            Value::Array(list) => list.iter().map(|value| self.walk(value, context, key)).collect(),
            Value::Number(port) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                let is_allocated = port.as_i64().is_some_and(|port| (30_000..=32_767).contains(&port));
                if is_allocated {
                    self.texts.token(TokenFamily::Port, &port.to_string()).into()
                } else {
                    node.clone()
                }
            }
            Value::Object(map) => self.object(map, context, key),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, key: &str) -> String {
        let is_address = matches!(key, "clusterIP" | "clusterIPs") && ADDRESS.is_match(text);
        if is_address || self.texts.is_known(TokenFamily::Address, text) {
            return self.texts.token(TokenFamily::Address, text);
        }
        self.texts.text(text)
    }

    fn object(&mut self, map: &Map<String, Value>, context: &Context, key: &str) -> Value {
        let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
        let mut changed = map.clone();
        if kind == "Table" && map.contains_key("columnDefinitions") {
            hide_ages(&mut changed);
        }
        if matches!(kind, "APIResourceList" | "APIGroupDiscoveryList" | "APIResource") {
            sort_words_of(&mut changed);
        }
        let mut out = Map::new();
        for (name, value) in &changed {
            let normalised = match (name.as_str(), value) {
                ("metadata", Value::Object(metadata)) => self.metadata(metadata, &changed, context),
                ("causes", Value::Array(causes)) if !map.contains_key("status") => {
                    let causes = causes.iter().map(|cause| self.walk(cause, context, name));
                    sorted(causes.collect(), |cause| {
                        ["field", "reason", "message"].map(|key| word(&cause[key]))
                    })
                }
                ("conditions", Value::Array(conditions)) if key == "status" && context.sorts_conditions => {
                    let conditions = conditions.iter().map(|condition| self.walk(condition, context, name));
                    sorted(conditions.collect(), |condition| word(&condition["type"]))
                }
                ("message", Value::String(text)) if map.contains_key("reason") || kind == "Status" => {
                    cut(&self.texts.text(text)).into()
                }
                ("status", _) if matches!(kind, "CustomResourceDefinition" | "Namespace") => {
                    let context = Context { sorts_conditions: true, ..context.clone() };
                    self.walk(value, &context, name)
                }
                _ => self.walk(value, context, name),
            };
            out.insert(self.texts.text(name), normalised);
        }
        out.into()
    }

    fn metadata(
        &mut self,
        metadata: &Map<String, Value>,
        owner: &Map<String, Value>,
        context: &Context,
    ) -> Value {
        let mut out = Map::new();
        for (name, value) in metadata {
            let normalised = match (name.as_str(), value) {
                ("managedFields", Value::Array(_)) if !self.keeps_managed_fields => continue,
                ("managedFields", Value::Array(entries)) => {
                    let entries = entries.iter().map(|entry| self.walk(entry, context, name));
                    sorted(entries.collect(), |entry| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|key| entry[key].to_string())
                    })
                }
                ("resourceVersion", Value::String(version)) if !version.is_empty() => {
                    self.version(version, owner, context).into()
                }
                ("creationTimestamp", Value::String(time)) => {
                    let uid = metadata.get("uid").map(word).unwrap_or_default();
                    let is_first = self.created.entry(uid).or_insert_with(|| time.clone()) == time;
                    let text = self.texts.text(time);
                    if is_first { text.into() } else { format!("<changed>{text}").into() }
                }
                ("continue", Value::String(token)) if !token.is_empty() => {
                    let version = metadata.get("resourceVersion").cloned().unwrap_or_default();
                    self.pages.insert(token.clone(), version);
                    "<continue>".into()
                }
                ("annotations", Value::Object(annotations)) => {
                    let walked = annotations
                        .iter()
                        .map(|(key, value)| (self.texts.text(key), self.walk(value, context, key)));
                    Value::Object(walked.collect())
                }
                _ => self.walk(value, context, name),
            };
            out.insert(self.texts.text(name), normalised);
        }
        out.into()
    }

    fn version(&mut self, version: &str, owner: &Map<String, Value>, context: &Context) -> String {
        let kind = owner.get("kind").map(word).unwrap_or_default();
        if owner.get("items").is_some_and(Value::is_array) || kind == "Table" || kind.ends_with("List") {
            return self.list_version(version, owner, context);
        }
        let newest = self.newest.entry(context.scope.clone()).or_default();
        if context.is_bookmark {
            return fresh(version, *newest);
        }
        *newest = number(version).unwrap_or_default().max(*newest);
        ServedVersion { scope: context.scope.clone(), text: version.to_owned() }.write()
    }

    fn list_version(&self, version: &str, owner: &Map<String, Value>, context: &Context) -> String {
        let asked = |key: &str| context.query.get(key).map(String::as_str).unwrap_or_default();
        let related = |is_same: bool, relation: &str| {
            if is_same { format!("<listrv:{relation}>") } else { "<listrv:other>".to_owned() }
        };
        if !asked("continue").is_empty() {
            let of_token = self.pages.get(asked("continue"));
            return related(of_token.is_some_and(|known| known == version), "page");
        }
        if asked("resourceVersionMatch") == "Exact" {
            return related(version == asked("resourceVersion"), "requested");
        }
        let elements = |key: &str| owner.get(key).and_then(Value::as_array).into_iter().flatten();
        let objects = elements("items").chain(elements("rows").map(|row| &row["object"]));
        let versions = objects.filter_map(|object| number(object["metadata"]["resourceVersion"].as_str()?));
        let mut newest = versions.max().unwrap_or_default();
        if asked("resourceVersion").is_empty() {
            newest = newest.max(self.newest.get(&context.scope).copied().unwrap_or_default());
        }
        fresh(version, newest)
    }
}

/// Returns whether a version is at least as new as those served before.
fn fresh(version: &str, newest: u64) -> String {
    match number(version) {
        None => "<listrv:not-a-number>",
        Some(number) if number >= newest => "<listrv>",
        Some(_) => "<listrv:behind>",
    }
    .to_owned()
}

/// Returns the message as it was recorded, which is only its start if it is long.
pub(crate) fn cut(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        None => message.to_owned(),
        Some((end, _)) => format!("{}{CUT}", &message[..end]),
    }
}

fn sorted<K: Ord>(mut values: Vec<Value>, key: impl Fn(&Value) -> K) -> Value {
    values.sort_by_key(key);
    values.into()
}

/// Returns a text without quotes, with `null` ordered as in the recording.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Hides ages and leaves out the descriptions of columns.
fn hide_ages(table: &mut Map<String, Value>) {
    let columns = table.get_mut("columnDefinitions").and_then(Value::as_array_mut).into_iter().flatten();
    let mut ages = Vec::new();
    for (index, column) in columns.enumerate() {
        let name = column["name"].as_str().unwrap_or_default();
        if column["type"] == "date" || AGE_COLUMNS.contains(&name) {
            ages.push(index);
        }
        if let Some(column) = column.as_object_mut() {
            column.remove("description");
        }
    }
    for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        for index in &ages {
            if let Some(cell) = row.get_mut("cells").and_then(|cells| cells.get_mut(*index))
                && cell.as_str().is_some_and(|text| AGE.is_match(text))
            {
                *cell = "<age>".into();
            }
        }
    }
}

fn sort_words(node: &mut Value) {
    match node {
        Value::Object(map) => sort_words_of(map),
        Value::Array(list) => list.iter_mut().for_each(sort_words),
        _ => {}
    }
}

/// Sorts verbs, short names and categories, whose order means nothing.
fn sort_words_of(map: &mut Map<String, Value>) {
    for (key, value) in map {
        match value {
            Value::Array(list)
                if matches!(key.as_str(), "verbs" | "shortNames" | "categories")
                    && list.iter().all(Value::is_string) =>
            {
                list.sort_by_key(word);
            }
            other => sort_words(other),
        }
    }
}
