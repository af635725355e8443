//! The cloud of the shapes example as a map in memory, which records all writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::stream::BoxStream;
use homeostat::runtime::PlannedVerb;
use homeostat::world::{Answer, Failure};
use homeostat_example_shapes::Form;
use homeostat_example_shapes::api::{CloudShape, Event, Shapes};
use homeostat_example_shapes::shapes_world::ShapesApi;

/// A write: the verb, the shape, and what it changed, in the words of a plan.
pub(super) type CloudWrite = (PlannedVerb, String, String);

/// The cloud in memory. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct RecordingCloud {
    shapes: Arc<Mutex<BTreeMap<String, CloudShape>>>,
    writes: Arc<Mutex<Vec<CloudWrite>>>,
}

impl RecordingCloud {
    /// Returns the writes since the last call.
    pub(super) fn take_writes(&self) -> Vec<CloudWrite> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    fn record(&self, verb: PlannedVerb, name: &str, changes: String) {
        self.writes.lock().unwrap().push((verb, name.to_owned(), changes));
    }
}

impl ShapesApi for RecordingCloud {
    async fn list(&self, _: Option<&str>) -> Answer<Shapes> {
        Ok(Shapes { shapes: self.shapes.lock().unwrap().values().cloned().collect(), next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<CloudShape>> {
        Ok(self.shapes.lock().unwrap().get(name).cloned())
    }

    async fn create(&self, shape: CloudShape) -> Answer<()> {
        if self.shapes.lock().unwrap().contains_key(&shape.name) {
            return Err(Failure::Exists);
        }
        let CloudShape { name, form, color, .. } = &shape;
        self.record(PlannedVerb::Create, name, format!("color = {color:?}, type = {:?}", form_name(*form)));
        self.shapes.lock().unwrap().insert(shape.name.clone(), shape);
        Ok(())
    }

    async fn update(&self, shape: CloudShape) -> Answer<()> {
        let old = self.shapes.lock().unwrap().insert(shape.name.clone(), shape.clone());
        let old = old.expect("it was read before");
        let [forms, colors] =
            [[form_name(old.form), form_name(shape.form)], [old.color.clone(), shape.color.clone()]];
        let changed = [("type", forms), ("color", colors)].into_iter().filter(|(_, [old, new])| old != new);
        let changed: Vec<String> =
            changed.map(|(field, [old, new])| format!("{field} {old} → {new}")).collect();
        self.record(PlannedVerb::Update, &shape.name, changed.join(", "));
        Ok(())
    }

    async fn delete(&self, name: &str) -> Answer<()> {
        self.record(PlannedVerb::Delete, name, String::new());
        self.shapes.lock().unwrap().remove(name);
        Ok(())
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<Event>>> {
        None
    }
}

fn form_name(form: Form) -> String {
    format!("{form:?}").to_lowercase()
}
