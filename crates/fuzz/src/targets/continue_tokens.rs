//! Continue tokens: a modified token is refused or continues the same list. It never shows an object of another
//! namespace or resource, and its pages end without repeating an object.
//!
//! Input: `{"list": number, "token": fields or text, "limit": number}`; `v`, `at` and `rv` are filled in if absent.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use homeostat_core::Clock;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::server::FuzzServer;
use crate::target::{Features, Target, Violation, require, require_equal};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
/// How many objects each list of one namespace has.
const OBJECTS: usize = 5;
/// The lists: path, kind, and the namespace if the list is limited to one.
const LISTS: [(&str, &str, Option<&str>); 4] = [
    ("/api/v1/namespaces/b/configmaps", "ConfigMapList", Some("b")),
    ("/api/v1/namespaces/b/secrets", "SecretList", Some("b")),
    ("/api/v1/configmaps", "ConfigMapList", None),
    ("/api/v1/namespaces", "NamespaceList", None),
];

pub(crate) struct ContinueTokens {
    server: FuzzServer,
    revision: u64,
}

impl ContinueTokens {
    pub(crate) fn new() -> Self {
        let server = FuzzServer::start();
        for namespace in NAMESPACES {
            server.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
            for number in 0..OBJECTS {
                let object = json!({"metadata": {"name": format!("{namespace}{number}")}});
                server.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object);
                server.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &object);
            }
        }
        let list = server.ask("GET", LISTS[0].0, &Value::Null).expect("a fixed path");
        let revision = list.body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        Self { server, revision: revision.expect("lists have versions") }
    }

    fn text(&self, token: &Value) -> String {
        let mut fields = match token {
            Value::String(text) => return text.clone(),
            Value::Object(fields) => fields.clone(),
            other => return URL_SAFE_NO_PAD.encode(other.to_string()),
        };
        fields.entry("v").or_insert_with(|| "meta.k8s.io/v1".into());
        fields.entry("rv").or_insert_with(|| self.revision.into());
        fields.entry("at").or_insert_with(|| Clock::system().now().as_second().into());
        URL_SAFE_NO_PAD.encode(Value::Object(fields).to_string())
    }
}

impl Target for ContinueTokens {
    fn seeds(&self, _: &Corpus) -> Vec<Value> {
        let starts = ["b1\0", "b/b1\0", "a\0", "/b1\0", "../a/a1\0", "b1", "\0", "b/b1/x\0"];
        let lists = (0..LISTS.len()).flat_map(|list| starts.map(|start| (list, start)));
        let seed = |(list, start)| json!({"list": list, "limit": 2, "token": {"start": start}});
        let mut seeds: Vec<_> = lists.map(seed).collect();
        let text = self.text(&json!({"start": "b1\0", "left": 3, "rv": self.revision}));
        seeds.push(json!({"list": 0, "limit": 2, "token": text}));
        seeds
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "start",
            "v",
            "rv",
            "at",
            "left",
            "meta.k8s.io/v1",
            "a",
            "b",
            "c",
            "a/",
            "b/",
            "b0",
            "b1",
            "b4",
            "../",
            "/",
            "\0",
            "default",
            "/registry/configmaps/",
            "secrets/",
            "ä",
            "\u{10ffff}",
        ]
    }

    fn run(&mut self, input: &Value) -> Result<Features, Violation> {
        let chosen = input["list"].as_u64().unwrap_or_default();
        let (path, kind, namespace) = LISTS[usize::try_from(chosen).unwrap_or_default() % LISTS.len()];
        let limit = input["limit"].as_u64().unwrap_or(2).clamp(1, 10);
        let mut token = self.text(&input["token"]);
        let (mut names, mut pages, mut features) = (BTreeSet::new(), 0, Vec::new());
        loop {
            let encoded = utf8_percent_encode(&token, NON_ALPHANUMERIC);
            let target = format!("{path}?limit={limit}&continue={encoded}");
            let Some(answer) = self.server.ask("GET", &target, &Value::Null) else { break };
            if answer.code != 200 {
                // Like kube-apiserver, 504 answers a token with a resourceVersion in the future.
                let is_future = answer.code == 504 && answer.body["reason"] == "Timeout";
                require(is_future || matches!(answer.code, 400 | 410), || {
                    format!("code {}: {}", answer.code, answer.body)
                })?;
                features.push(answer.body["message"].as_str().unwrap_or_default().to_owned());
                break;
            }
            require_equal("the kind of the list", &answer.body["kind"].as_str(), &Some(kind))?;
            for item in answer.body["items"].as_array().into_iter().flatten() {
                check_item(item, namespace, &mut names)?;
            }
            pages += 1;
            require(pages <= 64, || "the pages do not end".to_owned())?;
            answer.body["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut token);
            let left = answer.body["metadata"]["remainingItemCount"].as_i64();
            features.push(format!("page {} {}", !token.is_empty(), left.is_some()));
            if token.is_empty() {
                break;
            }
        }
        features.push(format!("{} {}", "i".repeat(names.len()), "p".repeat(pages)));
        Ok(features)
    }
}

fn check_item(item: &Value, namespace: Option<&str>, names: &mut BTreeSet<String>) -> Result<(), Violation> {
    let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default();
    if let Some(namespace) = namespace {
        require_equal("the namespace of an item", &text("namespace"), &namespace)?;
    }
    let name = format!("{}/{}", text("namespace"), text("name"));
    require(names.insert(name.clone()), || format!("an item twice: {name}"))
}
