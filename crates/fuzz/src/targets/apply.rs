//! Server-side apply to built-in objects: applying twice changes nothing, managed fields survive a write that changes
//! nothing, a second manager with the same values has no conflict, and its fields stay when the first gives them up.
//!
//! Input: `{"object": object of a built-in kind, "config": object}`; the configuration gets the kind of the object.

use homeostat_api::patch::apply::{FieldManager, apply, merge_configuration, track_update};
use homeostat_api::resource::Resource;
use homeostat_api::schema;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::BuiltInKinds;
use super::merge_patch::shape;
use crate::corpus::Corpus;
use crate::target::{Features, Target, Violation, require_equal};

pub(crate) struct Applies(BuiltInKinds);

impl Applies {
    pub(crate) fn new() -> Self {
        Self(BuiltInKinds::new())
    }
}

impl Target for Applies {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let built_in = |object: &&Value| self.0.row_of(object).is_some();
        let applied = corpus.applied.iter().filter(built_in);
        let with_itself = applied.clone().map(|config| json!({"object": config, "config": config}));
        let objects: Vec<_> = corpus.objects.iter().filter(built_in).collect();
        let mixed = applied.zip(objects.iter().step_by(3).cycle());
        let mixed = mixed.map(|(config, object)| json!({"object": object, "config": config}));
        let same = objects.iter().step_by(4).map(|object| json!({"object": object, "config": object}));
        with_itself.chain(mixed).chain(same).collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "metadata",
            "spec",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "containers",
            "name",
            "ports",
            "containerPort",
            "protocol",
            "env",
            "value",
            "template",
            "data",
            "k:{\"name\":\"a\"}",
            "f:spec",
            "v:\"a\"",
            ".",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (mut object, mut config) = (input["object"].clone(), input["config"].clone());
        let Some(row) = self.0.row_of(&object) else { return Ok(vec!["no kind".to_owned()]) };
        let schema = row.schema().expect("built-in kinds have schemas");
        schema::prune(&schema, &mut object, None);
        if let Err(why) = schema::decode(&schema, &mut object) {
            return Ok(vec![why]);
        }
        let (true, Some(metadata)) = (config.is_object(), object["metadata"].as_object()) else {
            return Ok(vec!["no object".to_owned()]);
        };
        let had_managers = metadata.contains_key("managedFields");
        for field in ["apiVersion", "kind"] {
            config[field] = object[field].clone();
        }
        let api_version = row.api_version();
        let writer = Writer { row, schema: &schema, api_version: &api_version };
        writer.track(None, &mut object, "creator");
        let applied = match writer.apply(&object, &config, "one", true) {
            Ok(applied) => applied,
            Err(why) => return Ok(vec![why]),
        };
        let managers = applied["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
        // An object without managers is not tracked: the next apply assigns the existing fields to a separate manager.
        if managers > 0 {
            writer.check(&applied, &config)?;
        }
        Ok(vec![format!("{} {had_managers} {managers} {}", row.kind, shape(&config, 0)), shape(&object, 1)])
    }
}

struct Writer<'a> {
    row: &'a Resource,
    schema: &'a schema::Schema,
    api_version: &'a str,
}

impl Writer<'_> {
    fn manager<'a>(&'a self, name: &'a str) -> FieldManager<'a> {
        let (api_version, kind) = (self.api_version, &*self.row.kind);
        FieldManager { name, api_version, kind, subresource: "", time: Timestamp::UNIX_EPOCH }
    }

    fn track(&self, live: Option<&Value>, new: &mut Value, name: &str) {
        track_update(Some(self.schema), live, new, &self.manager(name), &[]);
    }

    fn apply(&self, live: &Value, config: &Value, name: &str, force: bool) -> Result<Value, String> {
        apply(Some(self.schema), Some(live), config, &self.manager(name), force, &[])
            .map_err(|status| status.message)
    }

    fn check(&self, applied: &Value, config: &Value) -> Result<(), Violation> {
        require_equal("applied twice", &self.apply(applied, config, "one", false), &Ok(applied.clone()))?;
        let mut merged = applied.clone();
        merge_configuration(self.row, &mut merged, config);
        require_equal("merged once more", &merged, applied)?;
        let mut written = applied.clone();
        self.track(Some(applied), &mut written, "another");
        require_equal("written without a change", &written, applied)?;
        let second = self.apply(applied, config, "two", false)?;
        require_equal("applied by another", &without_managers(&second), &without_managers(applied))?;
        let nothing = json!({"apiVersion": config["apiVersion"], "kind": config["kind"],
            "metadata": {"name": applied["metadata"]["name"]}});
        // A name that is not a string is refused.
        let Ok(given_up) = self.apply(&second, &nothing, "one", true) else { return Ok(()) };
        require_equal("given up by one of two", &without_managers(&given_up), &without_managers(&second))
    }
}

fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}
