//! The file that tells clients where the server is and who they are. Holds a secret: 0600.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use serde_json::{Map, Value};

use super::{Error, files};
use crate::decode::{self, Media};

/// The name of cluster, user and context in the file.
const NAME: &str = "homeostat";
const DEFAULT_NAMESPACE: &str = "default";

/// The lists of named things in the file.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// Writes the file: whole or not at all, readable by its owner only. What else is in it stays: other clusters, users and
/// contexts, and a namespace that was chosen for ours.
pub fn write(path: &Path, server: &str, ca_pem: &str, token: &str) -> Result<(), Error> {
    let ours = text(server, ca_pem, token);
    let broken = |error: &dyn std::fmt::Display| Error::broken(&path.display().to_string(), error);
    // Of a pipe or what is not there, nothing is kept.
    let found = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => std::fs::read_to_string(path).map_err(|error| broken(&error))?,
        _ => String::new(),
    };
    let merged = merge(&found, &ours).map_err(|error| broken(&error))?;
    files::write_private(path, merged.unwrap_or(ours).as_bytes())
}

/// `found` with our entries as they are now; `None` when there is nothing else in it.
fn merge(found: &str, ours: &str) -> Result<Option<String>, String> {
    if found.trim().is_empty() {
        return Ok(None);
    }
    let (mut kept, fresh) = (read(found)?, read(ours)?);
    let is_kubeconfig = |fields: &Map<String, Value>| {
        fields
            .get("kind")
            .map_or(LISTS.iter().any(|list| fields.contains_key(*list)), |kind| kind == "Config")
    };
    let Some(fields) = kept.as_object_mut().filter(|fields| is_kubeconfig(fields)) else {
        return Err("it is no kubeconfig".to_owned());
    };
    let chosen = namespace(fields.get("contexts"));
    let mut is_shared = chosen != namespace(fresh.get("contexts"));
    for list in LISTS {
        let mut entries = fields.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        entries.retain(|entry| entry["name"] != NAME);
        is_shared |= !entries.is_empty();
        entries.extend(fresh[list].as_array().into_iter().flatten().cloned());
        fields.insert(list.to_owned(), Value::Array(entries));
    }
    for (name, value) in fresh.as_object().into_iter().flatten() {
        if !LISTS.contains(&name.as_str()) {
            fields.insert(name.clone(), value.clone());
        }
    }
    let contexts = fields.get_mut("contexts").and_then(Value::as_array_mut).into_iter().flatten();
    for ours in contexts.filter(|entry| entry["name"] == NAME) {
        ours["context"]["namespace"] = chosen.clone();
    }
    if is_shared {
        serde_saphyr::to_string(&kept).map(Some).map_err(|error| error.to_string())
    } else {
        Ok(None)
    }
}

/// As kubectl reads it.
fn read(text: &str) -> Result<Value, String> {
    let decoded = decode::body(text.as_bytes(), Media::Yaml, false);
    decoded.map(|decoded| decoded.value).map_err(|status| status.message)
}

/// The namespace of our context among these.
fn namespace(contexts: Option<&Value>) -> Value {
    let ours = contexts.and_then(Value::as_array).into_iter().flatten().find(|entry| entry["name"] == NAME);
    let namespace = ours.map(|entry| entry["context"]["namespace"].clone());
    namespace.filter(Value::is_string).unwrap_or_else(|| DEFAULT_NAMESPACE.into())
}

/// The file's text. The administrator is named by a token: it works with every client, costs no signature per
/// connection, and a request without it is anonymous, which a certificate would prevent.
pub fn text(server: &str, ca_pem: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    format!(
        "\
apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {NAME}
  user:
    token: {token}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
    namespace: {DEFAULT_NAMESPACE}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "
apiVersion: v1
kind: Config
current-context: prod
preferences: {}
clusters:
- {name: prod, cluster: {server: 'https://prod'}}
- {name: homeostat, cluster: {server: 'https://old'}}
users:
- {name: prod, user: {token: precious}}
contexts:
- {name: prod, context: {cluster: prod, user: prod}}
- {name: homeostat, context: {cluster: homeostat, user: homeostat, namespace: mine}}
";

    #[test]
    fn what_others_have_in_the_file_stays() {
        let merged = merge(OTHERS, &text("https://new", "ca", "token")).unwrap().expect("it is shared");
        let merged: Value = serde_saphyr::from_str(&merged).unwrap();
        let names = |list: &str| {
            let entries = merged[list].as_array().unwrap();
            entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for list in LISTS {
            assert_eq!(names(list), ["prod", "homeostat"], "{list}");
        }
        assert_eq!(merged["users"][0]["user"]["token"], "precious");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://new");
        assert_eq!(merged["contexts"][1]["context"]["namespace"], "mine");
        assert_eq!(merged["current-context"], "homeostat");
    }

    #[test]
    fn no_value_of_others_changes() {
        let texts = [
            "yes",
            "No",
            "on",
            "y",
            "true",
            "null",
            "~",
            "",
            " a ",
            "0123",
            "0o17",
            "1e3",
            "0x1f",
            "1_000",
            "1:30",
            "-1",
            ".5",
            ".inf",
            "2001-01-01",
            "a: b",
            "a #b",
            "- a",
            "[a",
            "{a",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a",
            "\"a",
            "a\nb\n",
            "\ta",
            "\u{7f}ü\u{1f600}",
            "=",
            "<<",
        ];
        let users = texts.iter().map(|text| serde_json::json!({"name": text, "user": {"token": text}}));
        let users = users.collect::<Vec<_>>();
        let found = serde_json::json!({"kind": "Config", "users": users, "preferences": {"a": true, "b": 1, "c": null}});
        let merged = merge(&found.to_string(), &text("https://new", "ca", "token")).unwrap().unwrap();
        let merged = read(&merged).unwrap();
        assert_eq!(merged["users"].as_array().unwrap()[..texts.len()], users);
        assert_eq!(merged["preferences"], found["preferences"]);
        let old = "users:\n- name: a\n  user: {token: 'x', insecure: yes}\n";
        let merged = merge(old, &text("https://new", "ca", "token")).unwrap().unwrap();
        assert_eq!(
            read(&merged).unwrap()["users"][0]["user"]["insecure"],
            true,
            "as kubectl reads it: {merged}"
        );
    }

    #[test]
    fn a_file_of_ours_alone_is_written_anew() {
        let ours = text("https://new", "ca", "token");
        for found in ["", "\n", &text("https://old", "ca", "token"), &ours] {
            assert_eq!(merge(found, &ours).unwrap(), None, "{found}");
        }
        let moved = ours.replace("namespace: default", "namespace: mine");
        assert!(merge(&moved, &ours).unwrap().expect("it was changed").contains("mine"));
        for broken in ["just text", "a: [", "- a", "kind: Deployment", "a: 1"] {
            assert!(merge(broken, &ours).is_err(), "{broken}");
        }
    }
}
