//! What all controllers of an operator stand on: one client, the shared caches, the journal, time and chance, the
//! user's state, the event recorder, the right to write and what was declared to be written.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::journal::Source;
use homeostat_core::{Clock, Entropy};
use kube::Client;
use tokio::sync::Notify;

use crate::caches::Caches;
use crate::declared::Declared;
use crate::error::Error;
use crate::events::Recorder;
use crate::fence::Fence;
use crate::journal::Journal;
use crate::watch::Scope;

/// The common ground.
pub(crate) struct Ground {
    /// The operator's name: field manager, lease, finalizer prefix, event source.
    pub(crate) name: Source,
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) scope: Scope,
    pub(crate) journal: Journal,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) states: States,
    pub(crate) recorder: Recorder,
    pub(crate) fence: Fence,
    pub(crate) declared: Declared,
}

impl Ground {
    /// The namespace that a name without one means: the only one the operator works in, otherwise the client's own.
    pub(crate) fn home_namespace(&self) -> String {
        self.scope.namespace.clone().unwrap_or_else(|| self.client.default_namespace().to_owned())
    }
}

/// The user's shared values, one per type.
#[derive(Clone, Default)]
pub(crate) struct States {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    missing: Arc<Missing>,
}

/// The first value that was asked for and is not there. No retry gives it, so the operator ends over it.
#[derive(Default)]
struct Missing {
    words: OnceLock<String>,
    found: Notify,
}

impl States {
    pub(crate) fn insert<S: Send + Sync + 'static>(&mut self, state: S) {
        self.values.insert(TypeId::of::<S>(), Arc::new(state));
    }

    /// The value of this type, which the operator's `main` must have given.
    pub(crate) fn expect<S: Send + Sync + 'static>(&self) -> Arc<S> {
        let state = self.values.get(&TypeId::of::<S>()).and_then(|state| state.clone().downcast().ok());
        state.unwrap_or_else(|| {
            let name = std::any::type_name::<S>();
            let words = format!("the operator has no state of type {name}: give it one with Operator::state");
            self.missing.words.get_or_init(|| words.clone());
            self.missing.found.notify_one();
            panic!("{words}")
        })
    }

    /// Was a value asked for that is not there?
    pub(crate) fn is_one_missing(&self) -> bool {
        self.missing.words.get().is_some()
    }

    /// Waits until a value is asked for that is not there.
    pub(crate) async fn find_missing(&self) {
        self.missing.found.notified().await;
    }

    /// Fails if a value was asked for that is not there.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        match self.missing.words.get() {
            Some(words) => Err(Error::Invalid(words.clone())),
            None => Ok(()),
        }
    }
}
