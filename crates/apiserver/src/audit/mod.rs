//! The audit log records who requested what with which result, in one line of JSON for each stage of a request.
//!
//! Reading order: `policy` (which requests are logged, and in how much detail), `request_head` (what their heads say,
//! and requests that are refused early), `record` (what is known about one request), `body_text` (its bodies, with
//! `sorted_fields`), `log_writer` (the file) and `log_files` (its backups).
//!
//! **Invariant:** nothing in this module runs without an audit log. With one, a separate thread writes the lines, and
//! requests wait only while `BUFFER_BYTES_MAX` of lines are waiting for the disk.

mod body_text;
mod log_files;
mod log_writer;
mod policy;
mod record;
mod request_head;
mod sorted_fields;

pub use log_files::RotationLimits;
pub use log_writer::AuditLog;
pub use policy::AuditPolicy;
pub(crate) use record::AuditRecord;
pub(crate) use request_head::RefusalAudit;
