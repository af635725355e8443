//! Operators as users run them: in their own process, with `homeostat up` in another, TLS between them, and stock
//! kubectl. These tests see only the API, the admin pages, the log and journal files.
//!
//! Waits are for conditions, with a limit. Processes are killed by their handle when a test ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod command_line;
mod deployed;
mod failed_start;
mod guide;
mod operator;
mod plan;
mod programs;
mod replicas;
mod testing;
