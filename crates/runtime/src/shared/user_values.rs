//! Holds the values that `main` gives to the operator for its reconcilers, one per type.
//!
//! A type is known only inside the function that asks for it, so the operator cannot find out on its own which types
//! will be requested. A controller declares them instead, and a declared value that was not given is an error before
//! anything starts. A forgotten declaration does not go unnoticed: the first use of an undeclared value is logged as a
//! warning, and the first use of one that was not given stops the operator, because neither a retry nor another object
//! would find it.
//!
//! Two alternatives were rejected: values as parameters of the functions, which would require a second form of every
//! method that takes a function (closures of unknown arity have no inferred types), and a type parameter for the state,
//! which every `Context<K>` would carry.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use homeostat_core::journal::Source;
use tokio::sync::Notify;

use crate::error::Error;

/// The type of a value that a controller needs.
#[derive(Clone, Copy)]
pub(crate) struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    pub(crate) fn new<S: 'static>() -> Self {
        Self { id: TypeId::of::<S>(), name: std::any::type_name::<S>() }
    }
}

/// The values of an operator.
#[derive(Default)]
pub(crate) struct UserValues {
    values: HashMap<TypeId, StateValue>,
    missing: MissingState,
}

struct StateValue {
    value: Arc<dyn Any + Send + Sync>,
    /// Whether a controller declared it, or a warning about the missing declaration was logged.
    is_declared: AtomicBool,
}

/// The first requested value that the operator does not have.
#[derive(Default)]
struct MissingState {
    problem: OnceLock<String>,
    found: Notify,
}

impl UserValues {
    pub(crate) fn insert<S: Send + Sync + 'static>(&mut self, state: S) {
        let value = StateValue { value: Arc::new(state), is_declared: AtomicBool::new(false) };
        self.values.insert(TypeId::of::<S>(), value);
    }

    /// Records that a controller needs values of these types; fails if the operator lacks one.
    pub(crate) fn declare(&self, needed: &[StateType]) -> Result<(), String> {
        for state in needed {
            let given = self.values.get(&state.id).ok_or_else(|| {
                let name = state.name;
                format!("it needs a state of type {name}: give the operator one with Operator::state")
            })?;
            given.is_declared.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the value of this type to a reconciler of this controller. Warns once if no controller declared it.
    pub(crate) fn expect_declared<S: Send + Sync + 'static>(&self, controller: &Source) -> Arc<S> {
        let value = self.values.get(&TypeId::of::<S>());
        if value.is_some_and(|value| !value.is_declared.swap(true, Ordering::Relaxed)) {
            let name = short_name::<S>();
            tracing::warn!(
                %controller,
                "this controller uses a state that it does not declare: add .needs_state::<{name}>(), so that a missing one \
                 is found when the operator starts"
            );
        }
        self.expect()
    }

    /// Returns the value of this type.
    pub(crate) fn expect<S: Send + Sync + 'static>(&self) -> Arc<S> {
        let value = self.values.get(&TypeId::of::<S>()).map(|value| value.value.clone());
        value.and_then(|value| value.downcast().ok()).unwrap_or_else(|| {
            let (name, short) = (std::any::type_name::<S>(), short_name::<S>());
            let problem = format!(
                "the operator has no state of type {name}: give it one with Operator::state, and declare it with \
                 .needs_state::<{short}>() on the controller, so that this is found at the start"
            );
            self.missing.problem.get_or_init(|| problem.clone());
            self.missing.found.notify_one();
            panic!("{problem}")
        })
    }

    /// Returns whether a value was requested that the operator does not have.
    pub(crate) fn is_one_missing(&self) -> bool {
        self.missing.problem.get().is_some()
    }

    /// Waits until a value is requested that the operator does not have.
    pub(crate) async fn find_missing(&self) {
        self.missing.found.notified().await;
    }

    /// Fails if a value was requested that the operator does not have.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        match self.missing.problem.get() {
            Some(problem) => Err(Error::Invalid(problem.clone())),
            None => Ok(()),
        }
    }
}

/// Returns the name of a type without the path of its module.
fn short_name<S>() -> &'static str {
    let name = std::any::type_name::<S>();
    let path_end = name.find('<').unwrap_or(name.len());
    name[..path_end].rfind("::").map_or(name, |at| &name[at + 2..])
}
