//! What Kubernetes does per built-in kind. The generic verbs call in here: [`strategy`] says how to treat a kind,
//! [`names`] what may be called what.
//!
//! **Invariant:** everything here is a pure function of the objects it is given; nothing reads or writes the store.

pub mod names;
pub mod strategy;
