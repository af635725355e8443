//! Serves `/healthz`, `/livez`, `/readyz` and `/version`, with kube-apiserver's wording.
//!
//! **Invariant:** the reason for a failed check is shown only on the check's own path, never in the summary, which
//! anyone may read. The caller runs the checks.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::request::Query;

/// The Kubernetes release whose API this is.
const KUBERNETES: &str = "v1.36.4";
/// The probes; each runs all checks.
const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];
/// The check that every probe includes: the server responds at all.
pub(crate) const PING: HealthCheck<'static> = HealthCheck { name: "ping", failure: None };

/// The check that the store accepts writes, under the name that monitoring tools expect.
pub(crate) const STORE: &str = "etcd";

/// The outcome of one check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HealthCheck<'a> {
    /// Its name, as in `/readyz/<name>`.
    pub(crate) name: &'a str,
    /// Why it failed, if it did.
    pub(crate) failure: Option<&'a str>,
}

/// A plain-text response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeAnswer {
    /// HTTP status code.
    pub(crate) code: u16,
    /// The body; its type is `text/plain; charset=utf-8`, with `X-Content-Type-Options: nosniff`.
    pub(crate) text: String,
}

/// Answers a probe: `path` is `/healthz`, `/livez`, `/readyz` or one of them followed by a check's name. Returns
/// `None` for any other path.
pub(crate) fn probe(path: &str, query: &Query, checks: &[HealthCheck<'_>]) -> Option<ProbeAnswer> {
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let probe = parts.next().filter(|probe| PROBES.contains(probe))?;
    match parts.next() {
        None | Some("") => Some(answer_summary(probe, query, checks)),
        Some(name) => checks.iter().find(|check| check.name == name).map(answer_single),
    }
}

/// Returns whether the path is that of a probe, or of one of its checks.
pub(crate) fn is_probe(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.split('/').next())
        .is_some_and(|first| PROBES.contains(&first))
}

/// Returns the content of `/metrics/slis`: how each check of each probe ends now. How often each ended how is not
/// counted.
pub(crate) fn indicators(checks: &[HealthCheck<'_>]) -> String {
    let mut text = String::from(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n",
    );
    let mut sorted = checks.to_vec();
    sorted.sort_unstable_by_key(|check| check.name);
    for HealthCheck { name, failure } in sorted {
        for probe in PROBES {
            let passed = u8::from(failure.is_none());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "kubernetes_healthcheck{{name={name:?},type={probe:?}}} {passed}");
        }
    }
    text
}

/// Returns the version of Kubernetes whose API is served: `v1.36.4`.
pub fn kubernetes_version() -> &'static str {
    KUBERNETES
}

/// Returns the content of `/version`.
pub(crate) fn version() -> Value {
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

/// Returns the platform in Go's notation, which clients compare with their own.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    format!("{system}/{architecture}")
}

fn answer_single(check: &HealthCheck<'_>) -> ProbeAnswer {
    match check.failure {
        None => ProbeAnswer { code: 200, text: "ok".into() },
        Some(why) => ProbeAnswer { code: 500, text: format!("internal server error: {why}\n") },
    }
}

fn answer_summary(probe: &str, query: &Query, checks: &[HealthCheck<'_>]) -> ProbeAnswer {
    let excluded: Vec<_> = query.all("exclude").collect();
    let is_excluded = |check: &HealthCheck<'_>| excluded.contains(&check.name);
    let mut lines: String = checks.iter().map(|check| check_line(check, is_excluded(check))).collect();
    let mut unknown: Vec<_> =
        excluded.iter().filter(|name| !checks.iter().any(|check| check.name == **name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        let names = unknown.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
        lines.push_str("warn: some health checks cannot be excluded: no matches for ");
        lines.push_str(&names);
        lines.push('\n');
    }
    if checks.iter().any(|check| check.failure.is_some() && !is_excluded(check)) {
        return ProbeAnswer { code: 500, text: format!("{lines}{probe} check failed\n") };
    }
    let is_verbose = query.has("verbose");
    ProbeAnswer {
        code: 200,
        text: if is_verbose { format!("{lines}{probe} check passed\n") } else { "ok".into() },
    }
}

fn check_line(check: &HealthCheck<'_>, is_excluded: bool) -> String {
    match (is_excluded, check.failure) {
        (true, _) => format!("[+]{} excluded: ok\n", check.name),
        (false, None) => format!("[+]{} ok\n", check.name),
        (false, Some(_)) => format!("[-]{} failed: reason withheld\n", check.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE_DOWN: HealthCheck<'static> = HealthCheck { name: "store", failure: Some("disk is full") };

    #[track_caller]
    fn check(path: &str, query: &str, checks: &[HealthCheck<'_>], expected: Option<(u16, &str)>) {
        let got = probe(path, &Query::parse(Some(query)), checks).map(|answer| (answer.code, answer.text));
        assert_eq!(got, expected.map(|(code, text)| (code, text.to_owned())), "{path}?{query}");
    }

    #[test]
    fn indicators_tell_the_outcome_of_each_check() {
        let text = indicators(&[PING, STORE_DOWN]);
        let lines = text.lines().skip(2).collect::<Vec<_>>();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], r#"kubernetes_healthcheck{name="ping",type="healthz"} 1"#);
        assert_eq!(lines[5], r#"kubernetes_healthcheck{name="store",type="readyz"} 0"#);
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
    fn a_failure_is_described_only_on_its_own_path() {
        let failed = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
        check("/readyz", "", &[PING, STORE_DOWN], Some((500, failed)));
        let alone = Some((500, "internal server error: disk is full\n"));
        check("/readyz/store", "", &[PING, STORE_DOWN], alone);
    }

    #[test]
    fn checks_can_be_excluded() {
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
