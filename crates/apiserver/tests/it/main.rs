//! Tests the server from the outside: one binary, one module per subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod admission;
mod adversarial;
mod audit;
mod authorization;
mod background;
mod cluster_kinds;
mod compression;
mod conversion;
mod credential_reload;
mod credentials_by_controllers;
mod definition_deletion;
mod definition_takeover;
mod definitions;
mod escalation;
mod forms;
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
mod processor_time;
mod serve;
mod signing;
mod test_server;
mod unread_answers;
mod writes;
