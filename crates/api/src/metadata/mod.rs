//! Handles the `metadata` that all objects share.

pub mod validate;
