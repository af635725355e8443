//! The flags of the audit log, with the same names as in kube-apiserver.

use std::path::{Path, PathBuf};

use homeostat::embedded::{AuditLog, AuditPolicy, RotationLimits};
use homeostat_core::Clock;

/// Where and how the audit log is written.
#[derive(clap::Args)]
#[command(next_help_heading = "Audit log")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags are named after the fields, and they are kube-apiserver's"
)]
pub(crate) struct AuditFlags {
    /// File with a Policy of audit.k8s.io/v1: which requests are logged
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,

    /// Log to write; - is stdout
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,

    /// Start a new file at this size in megabytes; 0 means never
    #[arg(long, value_name = "MB", default_value_t = 100)]
    audit_log_maxsize: u64,

    /// Keep at most this many old files; 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    audit_log_maxbackup: usize,

    /// Keep old files for at most this many days; 0 keeps them forever
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
}

impl AuditFlags {
    /// Opens the log that the flags ask for.
    pub(crate) fn open(&self) -> Result<Option<AuditLog>, String> {
        let Some(file) = &self.audit_policy_file else { return Ok(None) };
        let told = |why: String| format!("cannot use --audit-policy-file {}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
        let policy = AuditPolicy::parse(&text).map_err(told)?;
        let Some(path) = &self.audit_log_path else {
            tracing::warn!("--audit-policy-file has no effect without --audit-log-path");
            return Ok(None);
        };
        let limits = RotationLimits {
            size_mib_max: self.audit_log_maxsize,
            backups_max: self.audit_log_maxbackup,
            age_days_max: self.audit_log_maxage,
        };
        AuditLog::open(policy, path, limits, Clock::system())
            .map(Some)
            .map_err(|error| cannot_open(path, &error))
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> String {
    format!("cannot open --audit-log-path {}: {error}", path.display())
}
