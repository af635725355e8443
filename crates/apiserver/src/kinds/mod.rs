//! What Kubernetes does per built-in kind. The generic verbs call in here: [`strategy`] says how to treat a kind,
//! [`names`] what may be called what, [`mod@defaults`] what absent fields become, [`prepare`]
//! what the server puts in itself, [`service`] which addresses and ports Services get.
//!
//! **Invariant:** everything here is a pure function of the objects it is given; nothing reads or writes the store.

pub mod autoscaling;
pub mod defaults;
pub mod events;
mod fill;
pub mod names;
pub mod prepare;
mod quantity;
pub mod selectable;
pub mod service;
pub mod strategy;
pub mod subresource;
pub mod validate;
