//! The server from outside: one binary, one module per subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod adversarial;
mod cluster_kinds;
mod definition_ends;
mod definitions;
mod forms;
mod granting;
mod keeping;
mod kinds;
mod large_policies;
mod limits;
mod lists;
mod matrix;
mod migration;
mod names;
mod objects;
mod patched_types;
mod patches;
mod paths;
mod plane;
mod rights;
mod serve;
mod signing;
mod takeover;
mod unread;
mod writes;
