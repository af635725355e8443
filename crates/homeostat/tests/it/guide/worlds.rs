//! The Rust of the page on wrapping an API. Compiled, not run.

#![expect(dead_code, reason = "what the guide shows is compiled and not called")]

use std::collections::BTreeMap;

use homeostat::prelude::*;
use homeostat::world::{Answer, Failure, Mark, Outside, Page, UpdateRequest, World};

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Shape", namespaced)]
struct ShapeSpec {
    color: String,
}

#[derive(Serialize)]
struct CloudShape {
    color: String,
    labels: BTreeMap<String, String>,
}

struct Cloud {
    url: String,
}

impl Cloud {
    fn new(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    fn unreachable<T>(&self) -> Answer<T> {
        Err(Failure::refused(format!("{} is an example", self.url)))
    }
}

#[rustfmt::skip]
#[expect(unused_variables, reason = "the parameters are shown")]
impl World for Cloud {
    type Kind = Shape;
    type Want = ShapeSpec;
    type Have = CloudShape;
    const NAME: &'static str = "shapes";

    fn want(&self, shape: &Shape) -> Result<BTreeMap<String, ShapeSpec>> {
        Ok([(shape.name_any(), shape.spec.clone())].into())
    }
    fn mark(&self, have: &CloudShape) -> Option<Mark> { have.labels.get("owner").map(|text| Mark::read(text)) }

    async fn list(&self, from: Option<&str>) -> Answer<Page<CloudShape>> {
        self.unreachable()
    }
    async fn get(&self, name: &str) -> Answer<Option<CloudShape>> {
        self.unreachable()
    }
    async fn create(&self, name: &str, want: &ShapeSpec, mark: &Mark) -> Answer<()> {
        self.unreachable()
    }
    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        self.unreachable()
    }
    async fn delete(&self, name: &str, have: &CloudShape) -> Answer<()> {
        self.unreachable()
    }
}

async fn run(url: &str) -> Result<(), Error> {
    let shapes = Outside::new(Cloud::new(url)).poll(Duration::from_secs(60));
    homeostat::run(Operator::new("shapes.demo.dev").crd::<Shape>().control(shapes.control())).await
}
