//! Operators as people run them: their own process, `homeostat up` another, TLS between them, stock kubectl beside them.
//! Nothing here looks inside; whatever it learns comes from the API, the admin pages, the log or a journal file.
//!
//! Waits are for conditions, with a limit. Processes are killed by their handle when a test ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod command_line;
mod deployed;
mod guide;
mod operator;
mod programs;
mod replicas;
mod testing;
