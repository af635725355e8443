//! Decides which objects to reconcile after a change: each relation turns changes to one kind into triggers for
//! another.
//!
//! One file per relation: [`main_object`] (the object itself), [`owns`] (owner references, old and new), [`watches`] (a
//! user-defined mapping, applied to the old and new state), [`references`] (objects that the object names, through a
//! reverse index), [`selects`] (objects that its label selector matches). All of them compare old and new state, so a
//! dropped owner or mapping triggers once more.
//!
//! Mappings and predicates are the user's code: one that panics is reported and does not keep others from seeing the
//! change.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::{Change, Entry};
use tokio::sync::watch;

mod follow_options;
pub(crate) mod main_object;
pub(crate) mod owns;
pub(crate) mod predicate;
pub(crate) mod references;
pub(crate) mod selects;
pub(crate) mod watches;

pub(crate) use follow_options::{FollowedKind, Options};
use predicate::ChangeTest;
pub use predicate::{Predicate, changed};
pub use selects::Selector;

use crate::cache::caches::Caches;
use crate::cache::{Cache, Freshness, ObjectCache, ObjectDelta};
use crate::kind::object::Object;
use crate::kind::{Kind, KindInfo, ObjectName, info};
use crate::panics::catch_panic;
use crate::queue::Urgency;
use crate::shared::LastApplied;
use crate::watch::Scope;
use crate::workers::controller_queue::ControllerQueue;

/// The parts that a relation is connected to.
pub(crate) struct RelationContext<'a> {
    pub(crate) caches: &'a Caches,
    /// The scope in which the other kind is watched.
    pub(crate) scope: &'a Scope,
    pub(crate) main: &'a ObjectCache,
    pub(crate) queue: &'a ControllerQueue,
    pub(crate) last_applied: &'a Arc<LastApplied>,
}

impl RelationContext<'_> {
    /// Returns the cache of another kind.
    fn declare(&self, info: &'static KindInfo) -> ObjectCache {
        self.caches.declare(info, self.scope)
    }
}

/// A relation of a controller to another kind, as declared.
pub(crate) struct Relation {
    /// The other kind, and how the relation uses it; `None` if it follows only the main kind.
    pub(crate) other: Option<RelatedKind>,
    pub(crate) connect: ConnectRelation,
}

/// Connects another kind to a controller; returns how fresh the other kind's cache is.
pub(crate) type ConnectRelation =
    Box<dyn FnOnce(&RelationContext<'_>, FollowedKind) -> watch::Receiver<Freshness> + Send>;

/// The other kind of a relation, and how the relation uses its objects.
#[derive(Clone, Copy)]
pub(crate) struct RelatedKind {
    pub(crate) info: &'static KindInfo,
    /// The builder's method, for messages.
    pub(crate) method: &'static str,
    /// Whether the user's code reads whole objects, so that their metadata is not enough.
    pub(crate) reads_whole: bool,
    /// Whether its changes trigger reconciles.
    pub(crate) triggers: bool,
}

impl Relation {
    /// Returns a relation whose triggers need only the metadata of the other kind.
    fn by_metadata(info: &'static KindInfo, method: &'static str, connect: ConnectRelation) -> Self {
        Self { other: Some(RelatedKind { info, method, reads_whole: false, triggers: true }), connect }
    }
}

/// Returns the objects that an object names, or that a change to it concerns.
pub(crate) type Targets = Box<dyn Fn(&Object) -> Vec<ObjectName> + Send + Sync>;

/// Erases the type of a user's function that names objects.
pub(crate) fn targets<T: Kind, I>(names: impl Fn(&T) -> I + Send + Sync + 'static) -> Targets
where
    I: IntoIterator<Item: Into<ObjectName>>,
{
    Box::new(move |object| names(object.as_type()).into_iter().map(Into::into).collect())
}

/// Returns our objects that a change triggers. A change after which an object starts or stops concerning one of ours
/// always triggers it; any other change does so only if it passes the filter.
fn triggered<'a>(
    old: &'a BTreeSet<Key>,
    new: &'a BTreeSet<Key>,
    passes_filter: bool,
) -> impl Iterator<Item = &'a Key> {
    old.union(new).filter(move |key| passes_filter || old.contains(*key) != new.contains(*key))
}

/// Returns how urgent a change to another object is for ours.
fn urgency(delta: &ObjectDelta, queue: &ControllerQueue, ours: &Key) -> Urgency {
    match delta.change {
        Change::Listed => Urgency::Background,
        _ if delta.is_echo_for(queue.source(), ours) => Urgency::Echo,
        _ => Urgency::Event,
    }
}

/// Returns whether the change matters. A change on which the predicate panics does: an unnecessary run does less harm
/// than a missing one.
fn passes(test: Option<&ChangeTest>, delta: &ObjectDelta, queue: &ControllerQueue) -> bool {
    let Some(test) = test else { return true };
    let test = || test.passes(delta.old.as_deref(), delta.new.as_deref());
    guarded("a predicate", &delta.key, queue, test).unwrap_or(true)
}

/// Calls a user function for this object; returns `None` if it panicked, which is reported.
fn guarded<T>(
    function: &'static str,
    object: &Key,
    queue: &ControllerQueue,
    call: impl FnOnce() -> T,
) -> Option<T> {
    let told = |message: String| {
        let controller = queue.source();
        tracing::error!(%controller, %object, function, message, "the operator's code panicked on this object");
        let entry = Entry::Panicked { object: object.clone(), function: function.into(), message };
        queue.journal().record(controller, entry);
    };
    catch_panic(call).map_err(told).ok()
}

/// Relates a kind that is read through an index; it does not trigger reconciles.
pub(crate) fn indexes<T: Kind, V, I>(values: impl Fn(&T) -> I + Send + Sync + 'static) -> Relation
where
    V: std::hash::Hash + Eq + Send + Sync + 'static,
    I: IntoIterator<Item = V>,
{
    let connect: ConnectRelation = Box::new(move |wire, _| {
        let cache = Cache::<T>::from_erased(wire.declare(info::<T>()));
        wire.caches.keep_index(wire.scope, cache.index(values));
        cache.watch_freshness()
    });
    let other = RelatedKind { info: info::<T>(), method: "index", reads_whole: true, triggers: false };
    Relation { other: Some(other), connect }
}

/// Relates a kind that is only read; it does not trigger reconciles.
pub(crate) fn reads(info: &'static KindInfo) -> Relation {
    let connect: ConnectRelation = Box::new(|wire, followed| wire.declare(followed.info).watch_freshness());
    let other = RelatedKind { info, method: "reads", reads_whole: false, triggers: false };
    Relation { other: Some(other), connect }
}
