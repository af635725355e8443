//! The operator under the simulator, with the cloud as a map in memory: whatever goes wrong, the cloud has the shapes
//! that the objects desire, and nothing is left of deleted ones.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use homeostat::sim::{Budget, Outside, Simulation, edit};
use homeostat::world::{Answer, Failure};
use homeostat_example_shapes::api::{CloudShape, Event, Shapes};
use homeostat_example_shapes::shapes_world::ShapesApi;
use homeostat_example_shapes::{Form, Mode, Options, Shape, ShapeSpec, operator_of};

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 60, seconds: 3600 };

type CloudState = BTreeMap<String, CloudShape>;

/// The cloud in memory.
struct Twin(Outside<CloudState>);

impl ShapesApi for Twin {
    async fn list(&self, _: Option<&str>) -> Answer<Shapes> {
        let shapes = self.0.read("list", |sky| sky.values().cloned().collect()).await?;
        Ok(Shapes { shapes, next: None })
    }

    async fn get(&self, name: &str) -> Answer<Option<CloudShape>> {
        let wanted = name.to_owned();
        Ok(self.0.read(format!("get {name}"), move |sky| sky.get(&wanted).cloned()).await?)
    }

    async fn create(&self, shape: CloudShape) -> Answer<()> {
        let create = self.0.write(format!("create {}", shape.name), move |sky| {
            let is_new = !sky.contains_key(&shape.name);
            sky.entry(shape.name.clone()).or_insert(shape);
            is_new
        });
        if create.await? { Ok(()) } else { Err(Failure::Exists) }
    }

    async fn update(&self, shape: CloudShape) -> Answer<()> {
        let update = self.0.write(format!("update {}", shape.name), move |sky| {
            let is_there = sky.contains_key(&shape.name);
            if is_there {
                sky.insert(shape.name.clone(), shape);
            }
            is_there
        });
        if update.await? { Ok(()) } else { Err(Failure::refused("the cloud has no such shape")) }
    }

    async fn delete(&self, name: &str) -> Answer<()> {
        let unwanted = name.to_owned();
        self.0.write(format!("delete {name}"), move |sky| drop(sky.remove(&unwanted))).await?;
        Ok(())
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<Event>>> {
        None
    }
}

fn shape(name: &str) -> Shape {
    Shape::new(name, ShapeSpec { form: Form::Circle, color: "red".to_owned() })
}

#[track_caller]
fn check(ownership: Mode) {
    let make = move |sky: Outside<CloudState>| {
        let options = Options { ownership, ..Options::default() };
        operator_of(Twin(sky), &options)
    };
    Simulation::with_outside(CloudState::new(), make)
        .given(shape("k8s-sun"))
        .then(edit::<Shape>("k8s-sun", |shape| shape.spec.color = "gold".into()))
        .eventually(|cluster| cluster.outside().contains("gold"))
        .budget(BUDGET)
        .check();
}

#[test]
fn shapes_known_by_their_tags_survive() {
    check(Mode::Tags);
}

#[test]
fn shapes_known_by_their_prefix_survive() {
    check(Mode::Prefix);
}

#[test]
fn shapes_known_by_records_survive() {
    check(Mode::Records);
}
