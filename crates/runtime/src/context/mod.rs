//! A reconciler reads from the cache and writes to the server through its context.
//!
//! Reads never wait: they are answered from the shared cache overlaid with our own writes. Writes are sent only if they
//! change something, carry the operator's field manager and an owner reference, are journaled, and are refused once the
//! lease is lost. Status changes are collected and written once, at the end.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use homeostat_core::{Entropy, Key};
use kube::Client;

mod annotation;
mod apply;
mod cache_reads;
mod condition;
mod create_and_patch;
mod delete_and_prune;
mod event;
mod failure_report;
mod finalizer_patches;
mod journal_writes;
mod json_requests;
mod object_ownership;
mod parent_report;
mod quarantine;
mod status;

pub(crate) use annotation::AnnotationChange;
pub use condition::{StandardStatus, condition};
pub use parent_report::Parent;
pub(crate) use quarantine::report_undecodable;
use status::StatusDraft;

use crate::cache::WritingRun;
use crate::fence::TenureClaim;
use crate::kind::object::{Object, downcast_object};
use crate::kind::{Kind, KindInfo};
use crate::queue::DispatchedKey;
use crate::shared::ControllerShared;

/// The context of one reconcile. Cheap to clone.
pub struct Context<K: Kind> {
    run: Arc<ReconcileRun>,
    /// `run.object` with its type.
    object: Arc<K>,
}

impl<K: Kind> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone(), object: self.object.clone() }
    }
}

/// One reconcile, without the type of its object: the inner part of a [`Context`].
pub(crate) struct ReconcileRun {
    controller: Arc<ControllerShared>,
    object: Arc<Object>,
    key: Key,
    /// The tenure under which it began.
    claim: TenureClaim,
    failures: u32,
    /// Whether its status may contain our report about an earlier run.
    may_say_failed: bool,
    draft: Mutex<StatusDraft>,
    /// The object after this run's last status write.
    written: Mutex<Option<Arc<Object>>>,
    /// Whether it recorded a warning about the object.
    has_warned: AtomicBool,
}

impl ReconcileRun {
    pub(crate) fn new(
        controller: Arc<ControllerShared>,
        object: Arc<Object>,
        work: &DispatchedKey,
        claim: TenureClaim,
    ) -> Arc<Self> {
        let may_say_failed = (work.failures > 0 || work.was_listed) && controller.tells_in_status();
        Arc::new(Self {
            failures: work.failures,
            may_say_failed,
            ..Self::blank(controller, object, work.key.clone(), claim)
        })
    }

    /// Creates a run outside any reconcile, with this tenure.
    pub(crate) fn detached(
        controller: Arc<ControllerShared>,
        object: Arc<Object>,
        key: Key,
        claim: TenureClaim,
    ) -> Arc<Self> {
        Arc::new(Self::blank(controller, object, key, claim))
    }

    fn blank(controller: Arc<ControllerShared>, object: Arc<Object>, key: Key, claim: TenureClaim) -> Self {
        Self {
            controller,
            object,
            key,
            claim,
            failures: 0,
            may_say_failed: false,
            draft: Mutex::default(),
            written: Mutex::default(),
            has_warned: AtomicBool::default(),
        }
    }

    /// Returns the same reconcile, continued with a newer state of the object and an empty draft of its status.
    pub(crate) fn renew(&self, object: Arc<Object>) -> Arc<Self> {
        let Self { controller, key, claim, failures, may_say_failed, .. } = self;
        Arc::new(Self {
            failures: *failures,
            may_say_failed: *may_say_failed,
            has_warned: AtomicBool::new(self.has_warned()),
            ..Self::blank(controller.clone(), object, key.clone(), claim.clone())
        })
    }

    /// Returns this run as a writer, as the caches identify it.
    pub(crate) fn writer(&self) -> WritingRun {
        WritingRun { source: self.controller.source.clone(), object: self.key.clone() }
    }

    pub(crate) fn controller(&self) -> &Arc<ControllerShared> {
        &self.controller
    }

    /// Returns the kind of the object.
    pub(crate) fn info(&self) -> &'static KindInfo {
        self.controller.cache.info()
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn client(&self) -> &Client {
        self.claim.client(&self.controller.operator.client)
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.controller.operator.clock.now()
    }
}

impl<K: Kind> Context<K> {
    /// Restores the type of a run of this kind.
    pub(crate) fn from_run(run: Arc<ReconcileRun>) -> Self {
        let object = downcast_object(run.object.clone());
        Self { run, object }
    }

    pub(crate) fn run(&self) -> &Arc<ReconcileRun> {
        &self.run
    }

    /// Returns the object being reconciled.
    pub fn object(&self) -> &Arc<K> {
        &self.object
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        &self.run.key
    }

    /// Returns whether this run is part of a plan. Worlds take this into account; a reconciler that calls an external
    /// system itself must not write to it in a plan.
    pub fn is_plan(&self) -> bool {
        self.run.controller.operator.planned_calls.is_some()
    }

    /// Returns how many runs in a row failed before this one.
    pub fn failures(&self) -> u32 {
        self.run.failures
    }

    /// Returns the client, for requests that the context does not cover. Writes sent with it do not appear in the
    /// cache. Once the operator loses the lease under which this reconcile began, they are refused, even in tasks that
    /// it started.
    pub fn client(&self) -> &Client {
        self.run.client()
    }

    /// Returns the operator's time.
    pub fn now(&self) -> jiff::Timestamp {
        self.run.now()
    }

    /// Returns the source of random values, such as passwords. With values from here, simulations repeat exactly.
    pub fn entropy(&self) -> &Entropy {
        &self.run.controller.operator.entropy
    }

    /// Returns the value of this type that was given to [`Operator::state`](crate::Operator::state). Declare it with
    /// [`Controller::needs_state`](crate::Controller::needs_state), so that a missing state is detected when the
    /// operator starts.
    ///
    /// # Panics
    /// If the operator has no state of this type, which is a bug in its `main`; the operator then exits with an error
    /// that names the type.
    pub fn state<S: Send + Sync + 'static>(&self) -> Arc<S> {
        let controller = &self.run.controller;
        controller.operator.states.expect_declared(&controller.source)
    }
}
