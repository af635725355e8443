//! Implements the semantics of the Kubernetes API as pure functions on objects: no storage, no sockets, no tasks.
//!
//! Reading order, from the bottom up: [`field`] and [`status`] (errors and refusals), [`object`], [`names`] and
//! [`metadata`] (the parts that all objects share), [`decode`] (from text to an object), [`schema`] (the structure of
//! an object), [`printing`] (table cells), [`resource`] (a served kind is one row) and [`kinds`] (the built-in kinds,
//! one file each), [`crd`] (kinds added by definitions), [`encode`], [`convert`] and [`protobuf`] (from an object to
//! bytes), [`patch`] (patches and server-side apply), then the forms in which everything is served: [`negotiate`],
//! [`response_forms`], [`discovery`], [`openapi`].

pub mod convert;
pub mod crd;
pub mod decode;
pub mod discovery;
pub mod encode;
pub mod field;
pub mod kinds;
pub mod metadata;
pub mod names;
pub mod negotiate;
pub mod object;
pub mod openapi;
pub mod ordered;
pub mod patch;
pub mod printing;
pub mod protobuf;
pub mod resource;
pub mod response_forms;
pub mod schema;
pub mod status;
pub mod storage_identity;
pub mod user_identity;
