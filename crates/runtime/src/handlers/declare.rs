//! Declares handlers: one method per kind of handler, each with an id and a function. Options are declared in
//! `options`.

use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agenda::Role;
use super::authored_state::{essence_of, revive};
use super::daemons::{Daemon, DaemonCall, GRACE};
use super::declared_handlers::{DeclaredHandler, DeclaredHandlers, HandlerFunction, HandlerInput, Lens};
use super::diff::{Diff, FieldUpdate, changes};
use super::handler_context::{HandlerContext, value_of};
use super::listeners::{Listener, ListenerCall, RawEvent};
use super::options::{self, HandlerDeclared, NothingDeclared, TimerDeclared};
use super::record_store::SECRET_VERBS;
use super::retry_policy::RetryPolicy;
use super::runner::HandlerRunner;
use super::timer::Schedule;
use crate::controller::Controller;
use crate::controller::assemble::{BuiltController, ControllerDescription};
use crate::controller::cleanup_finalizer::Cleanup;
use crate::controller::reconcile_once::ReconcileFunction;
use crate::fault::Result;
use crate::kind::object::{Object, downcast_object};
use crate::kind::{Kind, KindInfo};
use crate::queue::Backoff;
use crate::relations::{Relation, indexes};
use crate::rights::rule::{READ, Rule};
use crate::shared::user_values::StateType;

/// The handlers of a kind. Each has an id, under which its progress is recorded in the objects: a handler with a new id
/// is a new handler and runs once for every existing object.
///
/// `L` is the kind of the last declaration; options such as [`retries`](Handlers::retries) apply to it.
#[must_use = "handlers do nothing until they complete a controller"]
pub struct Handlers<K: Kind, L = NothingDeclared> {
    pub(super) plan: DeclaredHandlers,
    /// The kinds that the controller must watch for them.
    wires: Vec<(Relation, Rule)>,
    needed_states: Vec<StateType>,
    last: PhantomData<fn() -> (K, L)>,
}

impl<K: Kind> Handlers<K> {
    /// Creates an empty set of handlers.
    #[expect(
        clippy::new_without_default,
        reason = "handlers that nothing was asked of are not a useful default"
    )]
    pub fn new() -> Self {
        Self {
            plan: DeclaredHandlers::new(),
            wires: Vec::new(),
            needed_states: Vec::new(),
            last: PhantomData,
        }
    }
}

impl<K: Kind, L> Handlers<K, L> {
    /// Calls `handler` once for each object, the first time its filters match.
    pub fn on_create<F, Fut, R>(self, id: impl Into<String>, handler: F) -> Handlers<K, HandlerDeclared>
    where
        F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        self.handler(id, Role::Create, None, simple(handler))
    }

    /// Calls `handler` when spec, labels or annotations differ from those it last finished with, and passes it the
    /// difference.
    pub fn on_update<F, Fut, R>(self, id: impl Into<String>, handler: F) -> Handlers<K, HandlerDeclared>
    where
        F: Fn(Diff<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        let call: HandlerFunction = Arc::new(move |occasion, turn| {
            let running = handler(difference(occasion, turn.info()), HandlerContext::from_state(turn));
            Box::pin(async move { value_of(&running.await?) })
        });
        self.handler(id, Role::Update, None, call)
    }

    /// Calls `handler` when this field differs from the value it last finished with. Any field can be followed,
    /// including those of the status. The handler gets the old and the new value. On the first call there is no old
    /// value, and an empty field does not count as a change.
    pub fn on_field<V, F, Fut, R>(
        self,
        id: impl Into<String>,
        field: impl Fn(&K) -> V + Send + Sync + 'static,
        handler: F,
    ) -> Handlers<K, HandlerDeclared>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
        F: Fn(FieldUpdate<V>, Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        let field = Arc::new(field);
        let read = field.clone();
        let lens: Lens =
            Arc::new(move |object| serde_json::to_value(read(object.as_type())).unwrap_or_default());
        let call: HandlerFunction = Arc::new(move |HandlerInput { object, before }, turn| {
            let object = downcast_object::<K>(object);
            let old = before.and_then(|value| serde_json::from_value(value).ok());
            let running =
                handler(FieldUpdate { old, new: field(&object) }, object, HandlerContext::from_state(turn));
            Box::pin(async move { value_of(&running.await?) })
        });
        self.handler(id, Role::Field, Some(lens), call)
    }

    /// Calls `handler` when the object is being deleted. The object has our finalizer while the filters of this handler
    /// match, and is removed when all such handlers have finished or given up.
    pub fn on_delete<F, Fut, R>(self, id: impl Into<String>, handler: F) -> Handlers<K, HandlerDeclared>
    where
        F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        self.handler(id, Role::Delete, None, simple(handler))
    }

    /// Calls `handler` once per process and object if the object was handled before this process took it over: use it
    /// to restore state that exists only in memory.
    pub fn on_resume<F, Fut, R>(self, id: impl Into<String>, handler: F) -> Handlers<K, HandlerDeclared>
    where
        F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        self.handler(id, Role::Resume, None, simple(handler))
    }

    /// Calls `handler` repeatedly while the object exists and the filters match: use it for changes that no event
    /// reports. `interval` is the time from the end of one call to the start of the next.
    pub fn every<F, Fut>(
        self,
        id: impl Into<String>,
        interval: Duration,
        handler: F,
    ) -> Handlers<K, TimerDeclared>
    where
        F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let schedule = Schedule { interval, is_sharp: false, idle: None, initial_delay: Duration::ZERO };
        self.handler(id, Role::Timer(schedule), None, simple(handler)).now()
    }

    /// Runs a task for each object while it exists and the filters match, and asks it to stop with
    /// [`HandlerContext::stop`]: use it for what blocks, such as a long poll. A task that succeeds is not started
    /// again, but one that fails is; one that fails with a [`terminal`](crate::terminal) fault is started again when
    /// the object is edited.
    pub fn daemon<F, Fut>(mut self, id: impl Into<String>, daemon: F) -> Handlers<K, options::DaemonDeclared>
    where
        F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let call: DaemonCall = Arc::new(move |turn| {
            let turn = HandlerContext::<K>::from_state(turn);
            Box::pin(daemon(turn.object().clone(), turn))
        });
        let (filters, backoff) = (Vec::new(), Backoff::default());
        self.plan.daemons.push(Daemon { id: id.into(), filters, backoff, grace: GRACE, call });
        self.now()
    }

    /// Calls `handler` with every change that the watch reports, in order for each object, without progress, retries or
    /// any guarantee across restarts. If the operator does not need the objects for anything else, none of them is kept
    /// in memory, and the watch waits for slow handlers.
    pub fn on_event<F, Fut>(
        mut self,
        id: impl Into<String>,
        listener: F,
    ) -> Handlers<K, options::ListenerDeclared>
    where
        F: Fn(RawEvent<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let call: ListenerCall = Arc::new(move |event, turn| {
            let event = RawEvent { change: event.change, object: downcast_object(event.object) };
            Box::pin(listener(event, HandlerContext::from_state(turn)))
        });
        self.plan.listeners.push(Listener { id: id.into(), filters: Vec::new(), call });
        self.now()
    }

    /// Maintains an index of the objects of kind `T`: `entries` returns keys and values for each object, and
    /// [`HandlerContext::lookup`] reads them. An index is identified by the type of its key, so use a different type
    /// for each.
    pub fn index<T: Kind, Q, R, I>(mut self, values: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        Q: Hash + Eq + Send + Sync + 'static,
        R: 'static,
        I: IntoIterator<Item = (Q, R)>,
    {
        let values = Arc::new(values);
        let keys = values.clone();
        self.plan.lookups.insert::<T, Q, R>(Arc::new(move |object| values(object).into_iter().collect()));
        let index =
            indexes(move |object: &T| keys(object).into_iter().map(|(key, _)| key).collect::<Vec<Q>>());
        self.wires.push((index, Rule::on::<T>("", READ)));
        self
    }

    /// Declares that a handler calls [`cx.state::<S>()`](crate::Context::state), once for each type: an operator
    /// without such a state then refuses to start, as with [`Controller::needs_state`](crate::Controller::needs_state).
    pub fn needs_state<S: Send + Sync + 'static>(mut self) -> Self {
        self.needed_states.push(StateType::new::<S>());
        self
    }

    fn handler(
        mut self,
        id: impl Into<String>,
        role: Role,
        lens: Option<Lens>,
        call: HandlerFunction,
    ) -> Handlers<K, HandlerDeclared> {
        let entry = DeclaredHandler {
            id: id.into(),
            role,
            filters: Vec::new(),
            policy: RetryPolicy::default(),
            lens,
            call,
        };
        self.plan.entries.push(entry);
        self.now()
    }

    /// Returns the same handlers with another marker for the last declaration.
    fn now<M>(self) -> Handlers<K, M> {
        let Self { plan, wires, needed_states, .. } = self;
        Handlers { plan, wires, needed_states, last: PhantomData }
    }

    /// Returns the controller that runs these handlers.
    fn complete(self, controller: Controller<K>) -> BuiltController {
        let mut controller = controller.describe();
        controller.needed_states.extend(self.needed_states);
        complete(self.plan, self.wires, controller)
    }
}

fn complete(
    plan: DeclaredHandlers,
    wires: Vec<(Relation, Rule)>,
    mut controller: ControllerDescription,
) -> BuiltController {
    plan.verify(&controller.info.kind);
    let runner = Arc::new(HandlerRunner::new(plan));
    for (relation, rule) in wires {
        controller.relate(relation);
        controller.allow(rule);
    }
    controller.relate(runner.follow_main_kind());
    // A handler recorded as finished does not correct what it did to an old state.
    controller.starts_fresh = runner.plan.keeps_records();
    if runner.plan.keeps_records() {
        controller.write_metadata();
        controller.allow(Rule::on::<Secret>("", SECRET_VERBS));
    }
    runner.companions().into_iter().for_each(|companion| controller.accompany(companion));
    if runner.plan.has_deletions() {
        let holding = runner.clone();
        let is_needed = Arc::new(move |object: &Object| holding.plan.must_hold(object));
        controller.clean_up(Cleanup { call: as_reconcile_function(runner.clone()), is_needed });
    }
    if runner.plan.only_listens() {
        controller.only_listen();
    }
    controller.complete(as_reconcile_function(runner))
}

/// Returns a function that runs the handlers, as a reconcile or cleanup function.
fn as_reconcile_function(runner: Arc<HandlerRunner>) -> ReconcileFunction {
    Arc::new(move |run| {
        let runner = runner.clone();
        Box::pin(async move { runner.handle(run).await })
    })
}

impl<K: Kind> Controller<K> {
    /// Completes the controller with handlers instead of a reconcile function. `on_delete` handlers replace its
    /// cleanup.
    pub fn handlers<L>(self, handlers: Handlers<K, L>) -> BuiltController {
        handlers.complete(self)
    }
}

impl<K: Kind, L> From<Handlers<K, L>> for BuiltController {
    fn from(handlers: Handlers<K, L>) -> Self {
        handlers.complete(Controller::new())
    }
}

fn simple<K, F, Fut, R>(handler: F) -> HandlerFunction
where
    K: Kind,
    F: Fn(Arc<K>, HandlerContext<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R>> + Send + 'static,
    R: Serialize + 'static,
{
    Arc::new(move |occasion, turn| {
        let running = handler(downcast_object(occasion.object), HandlerContext::from_state(turn));
        Box::pin(async move { value_of(&running.await?) })
    })
}

fn difference<K: Kind>(occasion: HandlerInput, info: &KindInfo) -> Diff<K> {
    let HandlerInput { object, before } = occasion;
    let nothing = json!({});
    let changes = changes(before.as_ref().unwrap_or(&nothing), &essence_of(&*object));
    let old =
        before.as_ref().and_then(|essence: &Value| revive(info, essence, &*object)).map(downcast_object);
    Diff { old, new: downcast_object(object), changes }
}
