//! The server from outside: one binary, one module per subject.

mod serve;
