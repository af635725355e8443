//! What Kubernetes does per built-in kind. The generic verbs call in here, in this order: [`strategy`] says how to treat
//! a kind, [`mod@defaults`] what absent fields become, [`prepare`] what the server puts in itself, [`validate`] what is
//! wrong, [`service`] which addresses and ports Services get. [`subresource`] has the endpoints below an object,
//! [`selectable`] the fields selectors may name, [`events`] and [`autoscaling`] the kinds with two faces, [`names`] what
//! may be called what.
//!
//! **Invariant:** everything here is a function of the objects it is given; nothing reads or writes the store.

pub mod autoscaling;
pub mod defaults;
pub mod events;
mod fill;
pub mod names;
mod pem;
pub mod prepare;
mod quantity;
pub mod selectable;
pub mod service;
pub mod strategy;
pub mod subresource;
pub mod validate;
pub(crate) mod warnings;
