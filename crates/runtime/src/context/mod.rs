//! What a reconciler holds while it runs: read from the cache, write through the context.
//!
//! Reads never wait: they are answered from the shared cache with our own writes laid over it. Writes are sent only
//! when they change something, carry the operator's field manager and an owner reference, are journaled, and are
//! refused when the lease is lost. Status is collected and written once, at the end.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use homeostat_core::Key;
use kube::Client;

mod annotation;
mod apply;
mod condemn;
mod condition;
mod create;
mod event;
mod finalizer;
mod memo;
mod note;
mod prune;
mod raw;
mod read;
mod report;
mod standing;
mod status;
mod tell;

pub(crate) use annotation::Annotation;
pub(crate) use condemn::condemn;
pub use condition::{StatusBase, condition};
pub(crate) use memo::Memo;
pub use report::Parent;
use status::Draft;

use crate::cache::Writer;
use crate::engine::Engine;
use crate::fence::Claim;
use crate::kind::Kind;
use crate::queue::Work;

/// The context of one reconcile. Cheap to clone.
pub struct Context<K: Kind>(Arc<Run<K>>);

impl<K: Kind> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Run<K: Kind> {
    engine: Arc<Engine<K>>,
    object: Arc<K>,
    key: Key,
    /// The right under which it was begun.
    claim: Claim,
    failures: u32,
    /// Its status may hold our verdict on a former run.
    may_be_condemned: bool,
    draft: Mutex<Draft>,
    /// The object as the last write of its status in this run left it.
    written: Mutex<Option<Arc<K>>>,
    /// It left a warning on the object.
    has_warned: AtomicBool,
}

impl<K: Kind> Run<K> {
    fn new(engine: Arc<Engine<K>>, object: Arc<K>, key: Key, claim: Claim) -> Self {
        Self {
            engine,
            object,
            key,
            claim,
            failures: 0,
            may_be_condemned: false,
            draft: Mutex::default(),
            written: Mutex::default(),
            has_warned: AtomicBool::default(),
        }
    }
}

impl<K: Kind> Context<K> {
    pub(crate) fn new(engine: Arc<Engine<K>>, object: Arc<K>, work: &Work, claim: Claim) -> Self {
        let may_be_condemned = (work.failures > 0 || work.was_listed) && engine.tells_in_status();
        Self(Arc::new(Run {
            failures: work.failures,
            may_be_condemned,
            ..Run::new(engine, object, work.key.clone(), claim)
        }))
    }

    /// A context outside any reconcile, under this right.
    pub(crate) fn detached(engine: Arc<Engine<K>>, object: Arc<K>, key: Key, claim: Claim) -> Self {
        Self(Arc::new(Run::new(engine, object, key, claim)))
    }

    /// The same reconcile, gone on with a newer state of the object and nothing collected.
    pub(crate) fn renew(&self, object: Arc<K>) -> Self {
        let Run { engine, key, claim, failures, may_be_condemned, .. } = &*self.0;
        Self(Arc::new(Run {
            engine: engine.clone(),
            object,
            key: key.clone(),
            claim: claim.clone(),
            failures: *failures,
            may_be_condemned: *may_be_condemned,
            draft: Mutex::default(),
            written: Mutex::default(),
            has_warned: AtomicBool::new(self.has_warned()),
        }))
    }

    /// This run, as the caches know it.
    pub(crate) fn writer(&self) -> Writer {
        Writer { source: self.0.engine.source.clone(), object: self.0.key.clone() }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<K>> {
        &self.0.engine
    }

    /// The object being reconciled.
    pub fn object(&self) -> &Arc<K> {
        &self.0.object
    }

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Failed runs in a row before this one.
    pub fn failures(&self) -> u32 {
        self.0.failures
    }

    /// The client, for what the context does not do. Writes made with it are not in the cache. When the operator loses
    /// the lease under which this reconcile began, they are refused, also in tasks that it started.
    pub fn client(&self) -> &Client {
        self.0.claim.client(&self.0.engine.ground.client)
    }

    /// The time, as the operator sees it.
    pub fn now(&self) -> jiff::Timestamp {
        self.0.engine.ground.clock.now()
    }

    /// The value given to [`Operator::state`](crate::Operator::state).
    ///
    /// # Panics
    /// When the operator has no state of this type, which is a bug in its `main`: then the operator ends with an error that
    /// names the type.
    pub fn state<S: Send + Sync + 'static>(&self) -> Arc<S> {
        self.0.engine.ground.states.expect()
    }
}
