//! What an API outside Kubernetes must offer to be kept equal to desired state: say what is wanted, list, get, create,
//! update, delete. Everything else (when, how often, whose, in which order, what after a crash) is up to the runtime.
//!
//! **Names are chosen by us**: `want` names each thing, and the name leads to the same thing for ever. Where the API
//! gives out ids of its own, keep our name in a field of the thing and the id in [`World::Have`].

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

/// What a call to the outside returns.
pub type Answer<T> = std::result::Result<T, Failure>;

/// One sort of thing that lives outside Kubernetes.
pub trait World: Send + Sync + 'static {
    /// The kind whose objects say what is wanted.
    type Kind: Kind;
    /// A thing as it should be. With [`Ownership::Records`](super::Ownership::Records) it is written into the record
    /// as JSON, so keep secrets out of it.
    type Want: Serialize + DeserializeOwned + Send + Sync;
    /// A thing as it is, with whatever `update` and `delete` need to reach it.
    type Have: Serialize + Send + Sync;

    /// What people call this world, in metrics, events and errors: `shapes`.
    const NAME: &'static str;

    /// Returns the things this object wants, by name. Pure: the same object wants the same things. An error says that
    /// the object makes no sense; its things are then left as they are.
    fn want(&self, object: &Self::Kind) -> Result<BTreeMap<String, Self::Want>>;

    /// Returns the fields in which the thing is not as wanted; none when it is. By default compares the JSON of both.
    fn diff(&self, want: &Self::Want, have: &Self::Have) -> Vec<Difference> {
        compare(want, have)
    }

    /// Returns the mark that `create` or `update` left on the thing, for [`Ownership::Tags`](super::Ownership::Tags).
    /// Read it with [`Mark::read`]: then a text that is no mark is taken for another manager's, and the thing is never
    /// touched.
    fn mark(&self, have: &Self::Have) -> Option<Mark> {
        let _ = have;
        None
    }

    /// Returns a page of everything there is, ours and others'. `from` is the former page's `next`.
    fn list(&self, from: Option<&str>) -> impl Future<Output = Answer<Page<Self::Have>>> + Send;

    /// Returns the thing of this name, as fresh as the API can tell.
    fn get(&self, name: &str) -> impl Future<Output = Answer<Option<Self::Have>>> + Send;

    /// Creates the thing; fails with [`Failure::Exists`] when the name is taken. The future may be dropped at any
    /// moment, and then the thing may or may not have been created.
    fn create(&self, name: &str, want: &Self::Want, mark: &Mark) -> impl Future<Output = Answer<()>> + Send;

    /// Changes the thing to what is wanted, and puts the mark on it where the API can carry one.
    fn update(&self, name: &str, change: Change<'_, Self>) -> impl Future<Output = Answer<()>> + Send;

    /// Deletes the thing. It is no failure if it is gone already.
    fn delete(&self, name: &str, have: &Self::Have) -> impl Future<Output = Answer<()>> + Send;

    /// Returns a stream of changes, if the API can report them. It is opened again when it ends or fails, and a full
    /// pass follows, because what happened in between is unknown. Without it, there is only polling.
    fn watch(&self) -> Option<BoxStream<'static, Answer<Push>>> {
        None
    }
}

/// What an update is made of.
pub struct Change<'a, W: World + ?Sized> {
    /// The thing as it was read a moment ago.
    pub have: &'a W::Have,
    /// The thing as it should be.
    pub want: &'a W::Want,
    /// Whose it is from now on.
    pub mark: &'a Mark,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// Names and things.
    pub things: Vec<(String, T)>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}

/// What the API reports by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// The thing of this name was created, changed or deleted.
    Changed(String),
    /// Something happened that cannot be named: look at everything.
    Unknown,
}
