//! Writes the kubeconfig, which tells clients where the server is and who they are. It contains a secret, so its mode
//! is 0600.
//!
//! **Invariant:** other entries in the file stay unchanged, or nothing is written.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_api::decode::{self, DuplicateKeyReport, TextFormat};

use serde_json::{Map, Value};

use super::{Error, files};

/// The name of the cluster, user and context in the file.
const NAME: &str = "homeostat";
const DEFAULT_NAMESPACE: &str = "default";

/// The lists of named entries in the file.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// Boolean fields. Every other field outside of extensions is a string.
const SWITCHES: [&str; 4] =
    ["colors", "disable-compression", "insecure-skip-tls-verify", "provideClusterInfo"];
/// The field in which programs keep their own data.
const EXTENSIONS: &str = "extensions";

/// Writes the file as a whole or not at all, readable only by its owner. Everything else in it stays: other clusters,
/// users and contexts, and a namespace chosen for our context.
pub fn write(path: &Path, server: &str, ca_pem: &str, token: &str) -> Result<(), Error> {
    let ours = text(server, ca_pem, token);
    // Follows a link, unless it is dangling.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |source| Error::File { path: path.clone(), source };
    // There is nothing to keep from a pipe or a missing file.
    let found = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => std::fs::read_to_string(path).map_err(failed)?,
        _ => String::new(),
    };
    let merged = merge_entries(&found, &ours).map_err(|why| {
        let what_to_do = "correct it or name another file with --kubeconfig";
        failed(std::io::Error::other(format!("{why}, so nothing can be added to it; {what_to_do}")))
    })?;
    files::write_private(path, merged.unwrap_or(ours).as_bytes())
}

/// Replaces the certificate authority of our server, in a file that still names it. Everything else stays: the user may
/// have chosen another context since the start, or another file.
pub(super) fn renew_authority(path: &Path, server: &str, ca_pem: &str) -> Result<(), Error> {
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Ok(found) = std::fs::read_to_string(path) else { return Ok(()) };
    match with_authority(&found, server, ca_pem) {
        Some(renewed) => files::write_private(path, renewed.as_bytes()),
        None => Ok(()),
    }
}

/// Returns `found` with another certificate authority of our server; `None` if it does not name it.
fn with_authority(found: &str, server: &str, ca_pem: &str) -> Option<String> {
    let mut config = parse_kubeconfig(found).ok()?;
    check_scalars("", &config).ok()?;
    let mut clusters = config["clusters"].as_array_mut()?.iter_mut();
    let ours = clusters.find(|entry| entry["name"] == NAME && entry["cluster"]["server"] == server)?;
    let before = ours["cluster"]["certificate-authority-data"].take();
    let renewed = STANDARD.encode(ca_pem);
    let before = before.as_str().filter(|before| !before.is_empty() && found.matches(before).count() == 1);
    // The text stays as it was written, comments included, if the certificate is one piece of it.
    if let Some(before) = before {
        return Some(found.replace(before, &renewed));
    }
    ours["cluster"]["certificate-authority-data"] = renewed.into();
    serde_saphyr::to_string(&config).ok()
}

/// Returns `found` with our current entries; `None` if it contains no others.
fn merge_entries(found: &str, ours: &str) -> Result<Option<String>, String> {
    let (mut kept, mut fresh) = (parse_kubeconfig(found)?, parse_kubeconfig(ours)?);
    if kept.is_null() {
        return Ok(None);
    }
    let is_kubeconfig = |fields: &Map<String, Value>| {
        fields
            .get("kind")
            .map_or(LISTS.iter().any(|list| fields.contains_key(*list)), |kind| kind == "Config")
    };
    check_scalars("", &kept)?;
    let fields =
        kept.as_object_mut().filter(|fields| is_kubeconfig(fields)).ok_or("it is not a kubeconfig")?;
    let chosen = our_namespace(fields.get("contexts"));
    fresh["contexts"][0]["context"]["namespace"] = chosen;
    for (name, value) in fresh.as_object().into_iter().flatten() {
        let Some(ours) = value.as_array() else {
            fields.insert(name.clone(), value.clone());
            continue;
        };
        let mut entries = match fields.remove(name) {
            Some(Value::Array(entries)) => entries,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(format!("its {name} are not a list")),
        };
        entries.retain(|entry| entry["name"] != NAME);
        entries.extend(ours.iter().cloned());
        fields.insert(name.clone(), Value::Array(entries));
    }
    if kept == parse_kubeconfig(ours)? {
        return Ok(None);
    }
    serde_saphyr::to_string(&kept).map(Some).map_err(|error| error.to_string())
}

/// Parses the first document, as kubectl does. Refuses the file if content would be lost.
fn parse_kubeconfig(text: &str) -> Result<Value, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    let is_separator = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let is_before =
        |line: &&str| line.trim().is_empty() || line.starts_with(['#', '%']) || is_separator(line);
    if text.lines().skip_while(is_before).any(is_separator) {
        return Err("it has more than one document".to_owned());
    }
    let decoded = decode::body(text.as_bytes(), TextFormat::Yaml, DuplicateKeyReport::Collect)
        .map_err(|status| status.message)?;
    match decoded.duplicates.first() {
        Some(twice) => Err(format!("it has {twice} twice")),
        None => Ok(decoded.value),
    }
}

/// Refuses unquoted strings that parse as a number or a boolean, since they would be written back as such.
fn check_scalars(name: &str, value: &Value) -> Result<(), String> {
    let is_wrong = match value {
        Value::Number(_) => true,
        Value::Bool(_) => !SWITCHES.contains(&name),
        _ => false,
    };
    match value {
        _ if is_wrong => Err(format!("its {name} must be a text and has no quotes")),
        // Any value is allowed there.
        _ if name == EXTENSIONS => Ok(()),
        Value::Array(values) => values.iter().try_for_each(|value| check_scalars(name, value)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| check_scalars(name, value)),
        _ => Ok(()),
    }
}

/// Returns the namespace of our context among these.
fn our_namespace(contexts: Option<&Value>) -> Value {
    let ours = contexts.and_then(Value::as_array).into_iter().flatten().find(|entry| entry["name"] == NAME);
    let namespace = ours.map(|entry| entry["context"]["namespace"].clone());
    namespace.filter(Value::is_string).unwrap_or_else(|| DEFAULT_NAMESPACE.into())
}

/// Returns the text of the file. The administrator is identified by a token: it works with every client and costs no
/// signature per connection, and a request without it is anonymous, which a certificate would prevent.
pub fn text(server: &str, ca_pem: &str, token: &str) -> String {
    text_of(server, ca_pem, &format!("token: {token}"))
}

/// Returns a kubeconfig with a certificate and its key, both PEM.
pub fn text_with_certificate(server: &str, ca_pem: &str, certificate: &str, key: &str) -> String {
    let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
    text_of(server, ca_pem, &format!("client-certificate-data: {certificate}\n    client-key-data: {key}"))
}

/// Returns the URL of our server in a kubeconfig, if there is one.
pub fn server_in(text: &str) -> Option<String> {
    let config = parse_kubeconfig(text).ok()?;
    let ours = config["clusters"].as_array()?.iter().find(|entry| entry["name"] == NAME)?;
    ours["cluster"]["server"].as_str().map(ToOwned::to_owned)
}

fn text_of(server: &str, ca_pem: &str, user: &str) -> String {
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
    {user}
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
    fn a_new_authority_changes_nothing_else() {
        let fresh = text("https://new", "old ca", "token");
        let renewed = with_authority(&fresh, "https://new", "new ca").expect("it names the server");
        assert_eq!(renewed, text("https://new", "new ca", "token"));
        assert_eq!(with_authority(&fresh, "https://other", "new ca"), None);
        assert_eq!(with_authority("", "https://new", "new ca"), None);
        let chosen = OTHERS.replace("server: 'https://old'", "server: 'https://new'");
        let renewed = with_authority(&chosen, "https://new", "new ca").expect("it names the server");
        let renewed: Value = serde_saphyr::from_str(&renewed).unwrap();
        assert_eq!(renewed["current-context"], "prod", "the user's choice");
        assert_eq!(renewed["users"][0]["user"]["token"], "precious");
        let ours = &renewed["clusters"][1]["cluster"];
        assert_eq!(ours["certificate-authority-data"], STANDARD.encode("new ca"));
    }

    #[test]
    fn entries_of_others_stay() {
        let merged =
            merge_entries(OTHERS, &text("https://new", "ca", "token")).unwrap().expect("it is shared");
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
        let extensions =
            serde_json::json!([{"name": "x", "extension": {"a": true, "b": 1, "c": null, "d": "0777"}}]);
        let found = serde_json::json!({"kind": "Config", "users": users, "extensions": extensions});
        let merged = merge_entries(&found.to_string(), &text("https://new", "ca", "token")).unwrap().unwrap();
        let merged = parse_kubeconfig(&merged).unwrap();
        assert_eq!(merged["users"].as_array().unwrap()[..texts.len()], users);
        assert_eq!(merged["extensions"], extensions);
        let old = "clusters:\n- name: a\n  cluster: {server: 'x', insecure-skip-tls-verify: yes}\n";
        let merged = merge_entries(old, &text("https://new", "ca", "token")).unwrap().unwrap();
        let cluster = &parse_kubeconfig(&merged).unwrap()["clusters"][0]["cluster"];
        assert_eq!(cluster["insecure-skip-tls-verify"], true, "as kubectl reads it: {merged}");
        let alone = "kind: Config\nclusters: []\nusers: null\npreferences: {colors: true}\n";
        let merged =
            merge_entries(alone, &text("https://new", "ca", "token")).unwrap().expect("there is more in it");
        assert_eq!(parse_kubeconfig(&merged).unwrap()["preferences"]["colors"], true);
    }

    #[test]
    fn a_link_stays_a_link_and_an_unusable_file_stays_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, OTHERS).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, "https://new", "ca", "token").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let written = std::fs::read_to_string(&real).unwrap();
        assert!(written.contains("precious") && written.contains("https://new"), "{written}");
        std::fs::write(&real, "kind: Deployment\n").unwrap();
        let refusal = write(&link, "https://new", "ca", "token").unwrap_err().to_string();
        assert!(refusal.contains("--kubeconfig") && !refusal.contains("remove"), "{refusal}");
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "kind: Deployment\n");
    }

    #[test]
    fn a_file_with_only_our_entries_is_rewritten() {
        let ours = text("https://new", "ca", "token");
        for found in ["", "\n", "# nothing\n", "null", &text("https://old", "ca", "token"), &ours] {
            assert_eq!(merge_entries(found, &ours).unwrap(), None, "{found}");
        }
        let moved = ours.replace("namespace: default", "namespace: mine");
        assert!(merge_entries(&moved, &ours).unwrap().expect("it was changed").contains("mine"));
        let broken = [
            "just text",
            "a: [",
            "- a",
            "kind: Deployment",
            "a: b",
            "kind: Config\n---\nkind: Config",
            "kind: Config\nkind: Config",
            "kind: Config\nclusters: x",
            "users: [{name: a, user: {token: 0123}}]",
            "users: [{name: a, user: {token: y}}]",
        ];
        for broken in broken {
            assert!(merge_entries(broken, &ours).is_err(), "{broken}");
        }
    }
}
