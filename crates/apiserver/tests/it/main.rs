//! The server from outside: one binary, one module per subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod definitions;
mod keeping;
mod kinds;
mod lists;
mod objects;
mod patches;
mod plane;
mod rights;
mod serve;
