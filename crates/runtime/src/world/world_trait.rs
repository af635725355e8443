//! Defines the contract of an API outside Kubernetes whose resources are kept in their desired state: compute the spec
//! of each resource, list, get, create, update, delete. Everything else (when, how often, ownership, order, recovery
//! after a crash) is up to the runtime.
//!
//! **Names are chosen by us**: `want` names each external resource, and the name always refers to the same resource. If
//! the API assigns its own ids, keep our name in a field of the resource and the id in [`World::Have`].

use std::collections::BTreeMap;
use std::future::Future;

use futures::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::difference::{Difference, compare};
use super::failure::Failure;
use super::owner_mark::Mark;
use crate::fault::Result;
use crate::kind::Kind;

/// The result of a call to the external API.
pub type Answer<T> = std::result::Result<T, Failure>;

/// One kind of external resource, which exists outside Kubernetes.
pub trait World: Send + Sync + 'static {
    /// The kind whose objects declare the desired state.
    type Kind: Kind;
    /// The desired state of a resource. With [`Ownership::Records`](super::Ownership::Records) it is written into the
    /// record as JSON, so keep secrets out of it.
    type Want: Serialize + DeserializeOwned + Send + Sync;
    /// The actual state of a resource, including whatever `update` and `delete` need to address it.
    type Have: Serialize + Send + Sync;

    /// The name of this world in metrics, events and errors: `shapes`.
    const NAME: &'static str;

    /// Returns the resources that this object desires, by name. This must be pure: the same object always desires the
    /// same resources. An error means that the object is invalid; its resources are then left unchanged.
    fn want(&self, object: &Self::Kind) -> Result<BTreeMap<String, Self::Want>>;

    /// Returns the fields in which the resource differs from the desired state. By default, this compares the JSON of
    /// both.
    fn diff(&self, want: &Self::Want, have: &Self::Have) -> Vec<Difference> {
        compare(want, have)
    }

    /// Returns the mark that `create` or `update` left on the resource, for
    /// [`Ownership::Tags`](super::Ownership::Tags). Read it with [`Mark::read`]: a text that is not a mark then counts
    /// as another manager's, and the resource is never touched.
    fn mark(&self, have: &Self::Have) -> Option<Mark> {
        let _ = have;
        None
    }

    /// Returns a page of all resources, ours and others'. `from` is the previous page's `next`.
    fn list(&self, from: Option<&str>) -> impl Future<Output = Answer<Page<Self::Have>>> + Send;

    /// Returns the resource with this name, as fresh as the API can provide it.
    fn get(&self, name: &str) -> impl Future<Output = Answer<Option<Self::Have>>> + Send;

    /// Creates the resource; fails with [`Failure::Exists`] if the name is taken. The future may be dropped at any
    /// moment, in which case the resource may or may not have been created.
    fn create(&self, name: &str, want: &Self::Want, mark: &Mark) -> impl Future<Output = Answer<()>> + Send;

    /// Changes the resource to its desired state, and puts the mark on it if the API supports that.
    fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> impl Future<Output = Answer<()>> + Send;

    /// Deletes the resource. It is not a failure if it is already gone.
    fn delete(&self, name: &str, have: &Self::Have) -> impl Future<Output = Answer<()>> + Send;

    /// Returns a stream of changes, if the API can report them. It is reopened when it ends or fails, and a full pass
    /// follows, because changes may have been missed in the meantime. Without a stream, there is only polling.
    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        None
    }
}

/// The input of an update.
pub struct UpdateRequest<'a, W: World + ?Sized> {
    /// The resource as it was just read.
    pub have: &'a W::Have,
    /// The desired state.
    pub want: &'a W::Want,
    /// The mark that identifies its owner from now on.
    pub mark: &'a Mark,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The names and resources.
    pub resources: Vec<(String, T)>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<String>,
}

/// A change that the API reports on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushedChange {
    /// The resource with this name was created, changed or deleted.
    Changed(String),
    /// An unspecified change: everything is checked.
    Unknown,
}
