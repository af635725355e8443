//! PostgreSQL's own client, if it is installed: it proves that a database responds.

use std::path::{Path, PathBuf};

use tokio::process::Command;

/// The user that queries a database.
pub(super) struct DatabaseLogin {
    pub(super) name: String,
    pub(super) password: String,
}

/// Finds `psql`, in the path or where Debian puts it.
pub(super) fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let hidden = versions.map(|version| version.path().join("bin"));
    let found = std::env::split_paths(&path).chain(hidden).map(|folder| folder.join("psql"));
    found.into_iter().find(|program| program.is_file())
}

/// Runs a query on the database at this endpoint and returns the result.
pub(super) async fn query(
    program: &Path,
    endpoint: &str,
    login: &DatabaseLogin,
    sql: &str,
) -> Result<String, String> {
    let (host, port) = endpoint.split_once(':').ok_or("the database has no endpoint")?;
    let output = Command::new(program)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--host", host, "--port", port])
        .args(["--username", &login.name, "--dbname", &login.name, "--command", sql])
        .env("PGPASSWORD", &login.password)
        .env("PGCONNECT_TIMEOUT", "5")
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
