//! The cloud's API as a world: what a shape should be, what it is, and whose. [`client`](crate::client) does the HTTP.

use std::collections::BTreeMap;
use std::future::Future;

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use homeostat::kube::ResourceExt;
use homeostat::runtime::Result;
use homeostat::world::{Answer, Difference, Mark, Page, PushedChange, UpdateRequest, World};

use crate::api::{CloudShape, Event, Shapes};
use crate::shape::{Shape, ShapeSpec};

/// The label that carries our mark.
const OWNER: &str = "owner";

/// The calls of the cloud's API. Tests stand in for the cloud behind it.
pub trait ShapesApi: Send + Sync + 'static {
    /// Returns a page of all shapes; `from` is the `next` of the page before.
    fn list(&self, from: Option<&str>) -> impl Future<Output = Answer<Shapes>> + Send;

    /// Returns the shape with this name.
    fn get(&self, name: &str) -> impl Future<Output = Answer<Option<CloudShape>>> + Send;

    /// Creates a shape; fails with [`Failure::Exists`](homeostat::world::Failure::Exists) if the name is taken.
    fn create(&self, shape: CloudShape) -> impl Future<Output = Answer<()>> + Send;

    /// Replaces the shape with this name.
    fn update(&self, shape: CloudShape) -> impl Future<Output = Answer<()>> + Send;

    /// Deletes the shape with this name, if there is one.
    fn delete(&self, name: &str) -> impl Future<Output = Answer<()>> + Send;

    /// Returns a stream of changes, if there is one.
    fn watch(&self) -> Option<BoxStream<'static, Answer<Event>>>;
}

/// The cloud behind its API.
#[derive(Clone, Debug)]
pub struct Cloud<A>(pub A);

impl<A: ShapesApi> World for Cloud<A> {
    type Kind = Shape;
    type Want = ShapeSpec;
    type Have = CloudShape;
    const NAME: &'static str = "shapes";

    fn want(&self, shape: &Shape) -> Result<BTreeMap<String, ShapeSpec>> {
        Ok([(shape.name_any(), shape.spec.clone())].into())
    }

    fn diff(&self, want: &ShapeSpec, have: &CloudShape) -> Vec<Difference> {
        let mut differences = Vec::new();
        if want.form != have.form {
            let [want, have] = [want.form, have.form].map(|form| format!("{form:?}").to_lowercase());
            differences.push(Difference::new("/type", want, have));
        }
        if want.color != have.color {
            differences.push(Difference::new("/color", &want.color, &have.color));
        }
        differences
    }

    fn mark(&self, have: &CloudShape) -> Option<Mark> {
        have.labels.get(OWNER).map(|text| Mark::read(text))
    }

    async fn list(&self, from: Option<&str>) -> Answer<Page<CloudShape>> {
        let page = self.0.list(from).await?;
        let resources = page.shapes.into_iter().map(|shape| (shape.name.clone(), shape)).collect();
        Ok(Page { resources, next: page.next })
    }

    async fn get(&self, name: &str) -> Answer<Option<CloudShape>> {
        self.0.get(name).await
    }

    async fn create(&self, name: &str, want: &ShapeSpec, mark: &Mark) -> Answer<()> {
        let labels = [(OWNER.to_owned(), mark.to_string())].into();
        self.0.create(shape(name, want, labels)).await
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        let mut labels = change.have.labels.clone();
        labels.insert(OWNER.to_owned(), change.mark.to_string());
        self.0.update(shape(name, change.want, labels)).await
    }

    async fn delete(&self, name: &str, _: &CloudShape) -> Answer<()> {
        self.0.delete(name).await
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        let changes = self.0.watch()?;
        Some(changes.map_ok(|event| PushedChange::Changed(event.name)).boxed())
    }
}

fn shape(name: &str, want: &ShapeSpec, labels: BTreeMap<String, String>) -> CloudShape {
    CloudShape { name: name.to_owned(), form: want.form, color: want.color.clone(), labels }
}
