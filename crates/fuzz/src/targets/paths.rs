//! Paths and queries: a path that core parses can be printed and parsed again, the server answers every request without
//! an internal error, and both interpret a path in the same way.
//!
//! Input: `{"method": text, "path": text, "query": text}`. Only GET is asked with rights, so that nothing changes.

use homeostat_core::{RequestTarget, RequestVerb};
use serde_json::{Value, json};

use super::text_of;
use crate::corpus::Corpus;
use crate::server::{Answer, FuzzServer};
use crate::target::{Features, Target, Violation, require, require_equal};

pub(crate) struct Paths(FuzzServer);

impl Paths {
    pub(crate) fn new() -> Self {
        let server = FuzzServer::start();
        for name in ["one", "two"] {
            let object = json!({"metadata": {"name": name, "labels": {"a": name}}, "data": {"k": "v"}});
            server.create("/api/v1/namespaces/default/configmaps", &object);
        }
        Self(server)
    }

    fn check_answer(answer: &Answer) -> Result<String, Violation> {
        // Expected are 504 for a resourceVersion in the future, and 500 without a reason, which kube-apiserver also
        // returns.
        let is_known = match answer.code {
            500 => answer.body["reason"].is_null(),
            504 => answer.body["reason"] == "Timeout",
            code => code < 500,
        };
        require(is_known, || format!("code {}: {}", answer.code, answer.body))?;
        if answer.body["kind"] == "Status" && answer.code >= 400 {
            require_equal(
                "the code of the Status",
                &answer.body["code"].as_u64(),
                &Some(u64::from(answer.code)),
            )?;
        }
        let text = |name: &str| answer.body[name].as_str().unwrap_or_default().to_owned();
        let kind = answer.headers.get("content-type").map_or(String::new(), |kind| format!("{kind:?}"));
        Ok(format!("{} {} {} {}", answer.code, text("kind"), text("reason"), kind.replace('"', ""))
            + &text("message"))
    }
}

impl Target for Paths {
    fn seeds(&self, corpus: &Corpus) -> Vec<Value> {
        let mut seeds = Vec::new();
        for (method, target) in corpus.paths.iter().step_by(3) {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            seeds.push(json!({"method": method, "path": path, "query": query}));
        }
        for path in [
            "/api",
            "/apis",
            "/version",
            "/openapi/v2",
            "/openapi/v3",
            "/healthz",
            "/metrics",
            "/api/v1/watch/pods",
        ] {
            seeds.push(json!({"method": "GET", "path": path, "query": ""}));
        }
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "/api",
            "/apis",
            "/v1",
            "/namespaces",
            "/default",
            "/configmaps",
            "/one",
            "/status",
            "/scale",
            "/watch",
            "/apps",
            "/deployments",
            "/",
            "//",
            "%2F",
            "%",
            "%00",
            "%ff",
            "..",
            "/proxy",
            "/log",
            "GET",
            "HEAD",
            "OPTIONS",
            "labelSelector=",
            "fieldSelector=",
            "metadata.name%3Done",
            "limit=",
            "&",
            "=",
            "watch=1",
            "timeoutSeconds=1",
            "resourceVersion=",
            "0",
            "-1",
            "resourceVersionMatch=Exact",
            "continue=",
            "dryRun=All",
            "pretty=true",
            "fieldManager=",
            "allowWatchBookmarks=true",
            "sendInitialEvents=true",
            "99999999999999999999",
            "includeObject=None",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let (method, path, query) =
            (text_of(input, "method"), text_of(input, "path"), text_of(input, "query"));
        let parsed = RequestTarget::parse(method, path, query, b"");
        let printed = parsed.as_ref().and_then(|target| printed(target, path));
        if let (Some(target), Some(printed)) = (&parsed, &printed) {
            let again = RequestTarget::parse(method, printed, query, b"");
            require_equal("printed and parsed", &again.as_ref(), &Some(target))?;
        }
        let mut features = vec![format!("{:?}", parsed.map(|target| target.verb))];
        let whole = |path: &str| if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        if !path.starts_with('/') {
            return Ok(features);
        }
        if let Some(answer) = self.0.ask("GET", &whole(path), &Value::Null) {
            features.push(Self::check_answer(&answer)?);
            if let Some(printed) = printed.filter(|printed| printed != path && is_plain(path)) {
                let other = self.0.ask("GET", &whole(&printed), &Value::Null);
                let other = other.ok_or_else(|| format!("printed as no path: {printed}"))?;
                require_equal("the code for the printed path", &other.code, &answer.code)?;
            }
        }
        if let Some(answer) = self.0.ask_as_nobody(method, &whole(path)) {
            features.push(format!("nobody {}", Self::check_answer(&answer)?));
        }
        Ok(features)
    }
}

/// Prints a target as a path; `None` if the path says more than the target.
fn printed(target: &RequestTarget, path: &str) -> Option<String> {
    let version = path.trim_matches('/').split('/').nth(if target.group.is_empty() { 1 } else { 2 })?;
    let root = if target.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", target.group) };
    let namespace =
        if target.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", target.namespace) };
    let rest = [&*target.plural, &target.name, &target.subresource];
    let rest: Vec<_> = rest.into_iter().take_while(|part| !part.is_empty()).collect();
    let printed = format!("{root}/{version}{namespace}/{}", rest.join("/"));
    let is_whole = printed.split('/').count() == path.trim_matches('/').split('/').count() + 1;
    (is_whole && target.verb != RequestVerb::Create).then_some(printed)
}

/// Returns whether a path has no escapes and no empty first segment, which only the server interprets.
fn is_plain(path: &str) -> bool {
    !path.starts_with("//") && !path.contains('%')
}
