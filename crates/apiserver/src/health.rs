//! `/healthz`, `/livez`, `/readyz` and `/version`, as kube-apiserver words them.
//!
//! **Invariant:** why a check failed is told only on the check's own path, never in the summary, which anyone may
//! read. Running the checks is the caller's part.

use serde_json::{Value, json};

use crate::negotiate::parameters;

/// The Kubernetes release whose API this is.
const KUBERNETES: &str = "v1.36.4";
/// What every probe offers: the server answers at all.
pub const PING: Check<'static> = Check { name: "ping", failure: None };

/// The check that the store takes writes, under the name monitoring asks for.
pub const STORE: &str = "etcd";

/// The outcome of one check.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Its name, as in `/readyz/<name>`.
    pub name: &'a str,
    /// Why it failed, if it did.
    pub failure: Option<&'a str>,
}

/// An answer in plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// The body; its type is `text/plain; charset=utf-8`, with `X-Content-Type-Options: nosniff`.
    pub text: String,
}

/// Answers a probe: `path` is `/healthz`, `/livez`, `/readyz` or one of them with a check's name. `None`: no such
/// path.
pub fn probe(path: &str, query: &str, checks: &[Check<'_>]) -> Option<Answer> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let probe = parts.next().filter(|probe| matches!(*probe, "healthz" | "livez" | "readyz"))?;
    match parts.next() {
        None | Some("") => Some(summary(probe, query, checks)),
        Some(name) => checks.iter().find(|check| check.name == name).map(single),
    }
}

/// What `/version` says.
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": format!("{KUBERNETES}+homeostat.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": platform(),
    })
}

/// In Go's words, which clients compare with their own.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    format!("{system}/{architecture}")
}

fn single(check: &Check<'_>) -> Answer {
    match check.failure {
        None => Answer { code: 200, text: "ok".into() },
        Some(why) => Answer { code: 500, text: format!("internal server error: {why}\n") },
    }
}

fn summary(probe: &str, query: &str, checks: &[Check<'_>]) -> Answer {
    let excluded: Vec<_> =
        parameters(query).filter(|(key, _)| key == "exclude").map(|(_, name)| name).collect();
    let is_excluded = |check: &Check<'_>| excluded.iter().any(|name| name == check.name);
    let mut lines: String = checks.iter().map(|check| line(check, is_excluded(check))).collect();
    let mut unknown: Vec<_> =
        excluded.iter().filter(|name| !checks.iter().any(|check| check.name == &***name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        let names = unknown.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
        lines.push_str("warn: some health checks cannot be excluded: no matches for ");
        lines.push_str(&names);
        lines.push('\n');
    }
    if checks.iter().any(|check| check.failure.is_some() && !is_excluded(check)) {
        return Answer { code: 500, text: format!("{lines}{probe} check failed\n") };
    }
    let is_verbose = parameters(query).any(|(key, _)| key == "verbose");
    Answer {
        code: 200,
        text: if is_verbose { format!("{lines}{probe} check passed\n") } else { "ok".into() },
    }
}

fn line(check: &Check<'_>, is_excluded: bool) -> String {
    match (is_excluded, check.failure) {
        (true, _) => format!("[+]{} excluded: ok\n", check.name),
        (false, None) => format!("[+]{} ok\n", check.name),
        (false, Some(_)) => format!("[-]{} failed: reason withheld\n", check.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE_DOWN: Check<'static> = Check { name: "store", failure: Some("disk is full") };

    #[track_caller]
    fn check(path: &str, query: &str, checks: &[Check<'_>], expected: Option<(u16, &str)>) {
        let got = probe(path, query, checks).map(|answer| (answer.code, answer.text));
        assert_eq!(got, expected.map(|(code, text)| (code, text.to_owned())), "{path}?{query}");
    }

    #[test]
    fn probes_answer_as_recorded() {
        check("/healthz", "", &[PING], Some((200, "ok")));
        check("/livez", "", &[PING], Some((200, "ok")));
        check("/readyz", "", &[PING], Some((200, "ok")));
        check("/healthz/ping", "", &[PING], Some((200, "ok")));
        check("/healthz/nope", "", &[PING], None);
        check("/livez", "verbose", &[PING], Some((200, "[+]ping ok\nlivez check passed\n")));
    }

    #[test]
    fn a_failure_is_told_in_full_only_on_its_own_path() {
        let failed = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
        check("/readyz", "", &[PING, STORE_DOWN], Some((500, failed)));
        let alone = Some((500, "internal server error: disk is full\n"));
        check("/readyz/store", "", &[PING, STORE_DOWN], alone);
    }

    #[test]
    fn checks_can_be_left_out() {
        let passed = "[+]ping ok\n[+]store excluded: ok\nreadyz check passed\n";
        check("/readyz", "verbose=1&exclude=store", &[PING, STORE_DOWN], Some((200, passed)));
        let warned = "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"b\",\"c\"\n\
                      readyz check passed\n";
        check("/readyz", "exclude=c&exclude=b&verbose", &[PING], Some((200, warned)));
    }

    #[test]
    fn the_version_is_the_one_the_api_follows() {
        let version = version();
        assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
        assert!(version["gitVersion"].as_str().is_some_and(|text| text.starts_with("v1.36.4+homeostat.")));
    }
}
