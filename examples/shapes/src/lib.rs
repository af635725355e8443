//! Assume that there is a cloud API for shapes. This wraps it into a declarative system: the cluster has a `Shape`
//! object for every shape that should exist, and an operator keeps both equal, in both directions.
//!
//! [`server`] is the cloud: a real HTTP server that knows nothing of Kubernetes, with switches to break it and a page
//! that shows what happens. [`client`] calls its API, [`shapes_world`] makes that API a
//! [`World`](homeostat::world::World), and [`operator()`] is the rest.

pub mod api;
pub mod client;
mod operator;
pub mod server;
mod shape;
pub mod shapes_world;

pub use operator::{Mode, Options, Share, operator, operator_of};
pub use shape::{Form, Shape, ShapeSpec, ShapeStatus};
