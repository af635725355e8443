//! What all objects share: their `metadata`.

pub mod validate;
