//! Assume there is a cloud API to make shapes. This wraps it into a declarative system: a `Shape` object in the cluster
//! for every shape that should be, and an operator that keeps both equal, in both directions.
//!
//! [`server`] is the cloud: a real HTTP server that knows nothing of Kubernetes, with switches to break it and a page
//! that shows what happens. [`cloud`] makes its API a [`World`](homeostat::world::World). [`operator()`] is the rest.

pub mod api;
pub mod cloud;
mod operator;
pub mod server;
mod shape;

pub use operator::{Mode, Options, Share, operator};
pub use shape::{Form, Shape, ShapeSpec, ShapeStatus};
