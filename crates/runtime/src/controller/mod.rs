//! Describes one controller: what it reconciles, what else it depends on, and how it behaves. Nothing happens until the
//! operator runs.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::Stream;

pub(crate) mod assemble;
pub(crate) mod cleanup_finalizer;
pub(crate) mod reconcile_once;
mod wait_for_current_caches;
mod wait_for_current_object;
pub(crate) mod world_health;

pub use assemble::BuiltController;
use assemble::{ControllerDescription, TriggerStream};
use cleanup_finalizer::Cleanup;
use reconcile_once::ReconcileFunction;

use crate::action::Action;
use crate::context::{Context, ReconcileRun};
use crate::fault::Result;
use crate::kind::object::Object;
use crate::kind::{Kind, Metadata, ObjectName, info};
use crate::queue::Backoff;
use crate::relations::predicate::Predicate;
use crate::relations::{Relation, Selector, indexes, owns, reads, references, selects, targets, watches};
use crate::rights::required_rules::{GET, PATCH, READ, Rule, WRITE, WRITE_ONLY};
use crate::shared::user_values::StateType;

/// A builder for a controller of `K`. [`reconcile`](Self::reconcile) completes it.
#[must_use = "a controller does nothing until it is completed with reconcile and given to an operator"]
pub struct Controller<K: Kind> {
    description: ControllerDescription,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Controller<K> {
    /// Creates a controller named after its kind.
    #[expect(
        clippy::new_without_default,
        reason = "a controller without any settings is not a useful default"
    )]
    pub fn new() -> Self {
        Self { description: ControllerDescription::new(info::<K>()), kind: PhantomData }
    }

    /// Gives it another name, for a second controller of the same kind. The name is part of the finalizer and of
    /// metrics.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.description.name = name.into();
        self
    }

    /// Reconciles only objects that match this label selector; others are not even loaded.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.description.labels = Some(selector.into());
        self
    }

    /// Reconciles only after these changes to the object itself. Its first appearance and its deletion always count.
    pub fn when(mut self, predicate: Predicate<K>) -> Self {
        self.description.predicate = Some(predicate.erased());
        self
    }

    /// Lets only these changes to related objects of kind `T` trigger a reconcile, whatever the relation to `T` is:
    /// [`owns`](Self::owns), [`watches`](Self::watches), [`references`](Self::references) or
    /// [`selects`](Self::selects). An object that appears, disappears, or starts or stops concerning one of ours always
    /// triggers a reconcile. If there are several filters for a kind, all of them must pass.
    ///
    /// It may be called before or after the relation is declared. Without a relation to `T`, the operator refuses to
    /// start.
    pub fn filter<T: Kind>(mut self, predicate: Predicate<T>) -> Self {
        self.description.options.filter(info::<T>(), predicate.erased());
        self
    }

    /// Keeps only the metadata of objects of kind `T` in memory; use it for kinds that the reconciler writes but never
    /// reads. The metadata can be read as [`Metadata<T>`](Metadata).
    ///
    /// It may be called before or after the relation is declared. Without a relation to `T`, or if the function of a
    /// relation takes a whole `&T`, the operator refuses to start.
    pub fn metadata_only<T: Kind>(mut self) -> Self
    where
        Metadata<T>: Kind,
    {
        self.description.options.keep_only_metadata(info::<T>(), info::<Metadata<T>>());
        self
    }

    /// Follows objects of kind `T` that our object owns: a change triggers both the previous and the new owners.
    pub fn owns<T: Kind>(self) -> Self {
        self.owning().relate(owns::owns(info::<T>())).allow(Rule::on::<T>("", WRITE))
    }

    /// Follows objects of kind `T`; `map` returns those of our objects that a changed object concerns, and is called
    /// with its old and its new state.
    pub fn watches<T: Kind, I>(self, map: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item: Into<ObjectName>>,
    {
        self.relate(watches::watches(info::<T>(), targets(map))).allow(Rule::on::<T>("", READ))
    }

    /// Follows objects of kind `T` that our object refers to by name: when one appears, changes or disappears, our
    /// object is reconciled.
    pub fn references<T: Kind, I>(self, names: impl Fn(&K) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item: Into<ObjectName>>,
    {
        self.relate(references::references(info::<T>(), targets(names))).allow(Rule::on::<T>("", READ))
    }

    /// Follows objects of kind `T` that our object's label selector matches, whether or not it owns them: in its
    /// namespace, if both kinds are namespaced. The selector is k8s-openapi's or `homeostat_core`'s: `.selects::<Pod,
    /// _>(|set| Some(set.spec.selector.clone()))`.
    pub fn selects<T: Kind, S: Selector>(
        self,
        selector: impl Fn(&K) -> Option<S> + Clone + Send + Sync + 'static,
    ) -> Self {
        let selector =
            Arc::new(move |object: &Object| selector(object.as_type()).map(Selector::into_selector));
        self.relate(selects::selects(info::<T>(), selector)).allow(Rule::on::<T>("", READ))
    }

    /// Follows objects of kind `T` that the reconciler reads; they do not trigger reconciles.
    pub fn reads<T: Kind>(self) -> Self {
        self.relate(reads(info::<T>())).allow(Rule::on::<T>("", READ))
    }

    /// Declares that the reconciler writes objects of kind `T` but does not read them: it gets the permissions but no
    /// watch.
    pub fn writes<T: Kind>(self) -> Self {
        self.owning().allow(Rule::on::<T>("", WRITE_ONLY))
    }

    /// Declares that the reconciler writes the status of objects of kind `T` ([`Context::patch_status`]). A custom main
    /// kind needs no such declaration; without it, not even a terminal fault is written to the status of Kubernetes'
    /// own kinds.
    pub fn writes_status<T: Kind>(self) -> Self {
        self.allow(Rule::on::<T>("/status", PATCH))
    }

    /// Declares that our objects report into the status of parents of kind `P` ([`Context::report`]).
    pub fn reports_to<P: Kind>(self) -> Self {
        self.allow(Rule::on::<P>("/status", PATCH)).allow(Rule::on::<P>("", GET))
    }

    /// Removes the finalizer that an earlier version with a cleanup left on objects, now that there is no cleanup. This
    /// needs the permission to patch the objects.
    pub fn releases_finalizer(self) -> Self {
        self.writing_metadata()
    }

    /// Declares that the reconciler calls [`cx.state::<S>()`](Context::state), once for each type: an operator that was
    /// not given such a state then refuses to start.
    ///
    /// Without it, a missing state is detected only when the first run requests it, which stops the operator. The types
    /// that a function requests are known only in its body, so they have to be named here; using an undeclared state is
    /// logged as a warning.
    pub fn needs_state<S: Send + Sync + 'static>(mut self) -> Self {
        self.description.needed_states.push(StateType::new::<S>());
        self
    }

    /// Keeps an index of the objects of kind `T` by the values found in each, read with [`Context::indexed`]. The type
    /// of the value identifies the index, so each index needs its own type.
    pub fn index<T: Kind, V, I>(self, values: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        V: std::hash::Hash + Eq + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.relate(indexes::<T, V, I>(values)).allow(Rule::on::<T>("", READ))
    }

    /// Reconciles the objects that a stream from outside the cluster names. A name without a namespace refers to the
    /// operator's own namespace: the one it is bound to ([`Operator::namespace`](crate::Operator::namespace)), or else
    /// that of its kubeconfig or Pod. `name` appears in explanations.
    pub fn on(
        mut self,
        name: impl Into<Cow<'static, str>>,
        stream: impl Stream<Item: Into<ObjectName>> + Send + 'static,
    ) -> Self {
        self.description
            .streams
            .push(TriggerStream { name: name.into(), targets: stream.map(Into::into).boxed() });
        self
    }

    /// Sets how many objects are reconciled concurrently (32 by default).
    pub fn concurrency(mut self, limit: usize) -> Self {
        self.description.concurrency = limit.max(1);
        self
    }

    /// Sets how many objects of one namespace are reconciled concurrently (unlimited by default).
    pub fn per_namespace(mut self, limit: u32) -> Self {
        self.description.config.per_namespace = Some(limit.max(1));
        self
    }

    /// Sets the pauses before failed reconciles are retried (1 s, 2 s, 4 s … 5 min by default).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.description.config.backoff = backoff;
        self
    }

    /// Sets the period after which an object is reconciled without any cause (10 h by default); `None` switches it off.
    pub fn resync(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.description.config.resync = period.into();
        self
    }

    /// Calls `cleanup` before the object is removed. With it, every object carries our finalizer; a cleanup that
    /// returns `await_change` counts as done.
    pub fn cleanup<F, Fut>(self, cleanup: F) -> Self
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        self.cleanup_if(|_| true, cleanup)
    }

    /// Like [`cleanup`](Self::cleanup), but only for the objects that need it; the others carry no finalizer.
    pub fn cleanup_if<F, Fut>(
        mut self,
        is_needed: impl Fn(&K) -> bool + Send + Sync + 'static,
        cleanup: F,
    ) -> Self
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        let is_needed = Arc::new(move |object: &Object| is_needed(object.as_type()));
        self.description.clean_up(Cleanup { call: erase_function(cleanup), is_needed });
        self
    }

    /// Reconciles objects that are being deleted as well, without adding a finalizer: for kinds whose objects the
    /// controller itself removes, as a node removes its Pods.
    pub fn to_the_end(mut self) -> Self {
        self.description.is_called_to_the_end = true;
        self
    }

    /// Lets it act only once its caches show the state that the server had when this process started or acquired its
    /// lease.
    ///
    /// A reconciler usually corrects its actions later if they were based on an old state. Use this where it cannot,
    /// for example because an unnecessary Pod would already have run. Handlers always start this way.
    pub fn starts_fresh(mut self) -> Self {
        self.description.starts_fresh = true;
        self
    }

    /// Names a condition that the reconcile function maintains and that must become false when the object cannot be
    /// decoded.
    pub(crate) fn with_dependent_condition(mut self, condition: &'static str) -> Self {
        self.description.dependent_condition = Some(condition);
        self
    }

    /// Completes the controller with its reconcile function.
    pub fn reconcile<F, Fut>(self, reconcile: F) -> BuiltController
    where
        F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action>> + Send + 'static,
    {
        self.description.complete(erase_function(reconcile))
    }

    pub(crate) fn describe(self) -> ControllerDescription {
        self.description
    }

    /// Declares that the object becomes the owner of other objects.
    fn owning(mut self) -> Self {
        self.description.writes.owns = true;
        self
    }

    /// Declares that the object carries our finalizer or annotations.
    pub(crate) fn writing_metadata(mut self) -> Self {
        self.description.write_metadata();
        self
    }

    pub(crate) fn allow(mut self, rule: Rule) -> Self {
        self.description.allow(rule);
        self
    }

    pub(crate) fn relate(mut self, relation: Relation) -> Self {
        self.description.relate(relation);
        self
    }
}

fn erase_function<K, F, Fut>(function: F) -> ReconcileFunction
where
    K: Kind,
    F: Fn(Arc<K>, Context<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action>> + Send + 'static,
{
    Arc::new(move |run: Arc<ReconcileRun>| {
        let context = Context::<K>::from_run(run);
        Box::pin(function(context.object().clone(), context))
    })
}
