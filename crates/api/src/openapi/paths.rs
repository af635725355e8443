//! Derives the paths of a document from the rows.
//!
//! Connections (exec, attach, port-forward, proxy) and the old watch paths are left out: no client looks them up.

use serde_json::{Map, Value, json};

use super::components::{DELETE_OPTIONS, KindName, PATCH, STATUS, list_name, reference};
use super::{base_path, parameters};
use crate::resource::{Resource, Subresource};

/// The encodings of responses.
const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The media types of patches that every kind supports.
const PATCHES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
/// The media type of patches that only built-in kinds support. kubectl uses this type wherever it is listed.
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Returns the paths of these rows.
pub(super) fn paths_of_rows<'a>(
    rows: impl Iterator<Item = &'a Resource>,
) -> impl Iterator<Item = (String, Value)> {
    rows.flat_map(items)
}

/// One operation of a path.
struct PathOperation<'a> {
    row: &'a Resource,
    kind: KindName<'a>,
    /// `list`, `create`, `read`, `replace`, `patch`, `delete`, `deleteCollection`.
    verb: &'static str,
    /// The value of `x-kubernetes-action`.
    action: &'static str,
    /// The end of the operation id: a subresource, or `ForAllNamespaces`.
    suffix: String,
    is_namespaced: bool,
}

fn items(row: &Resource) -> Vec<(String, Value)> {
    let base = format!("/{}", base_path(row));
    let collection = if row.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", row.plural)
    } else {
        format!("{base}/{}", row.plural)
    };
    let item = format!("{collection}/{{name}}");
    let mut items = vec![with_shared(collection.clone(), row, collection_operations(row))];
    if row.namespaced && row.allows("list") {
        let list = PathOperation::new(row, "list", "list").suffixed("ForAllNamespaces").anywhere();
        let everywhere = Map::from_iter([("get".to_owned(), list.list())]);
        items.push(with_shared(format!("{base}/{}", row.plural), row, everywhere));
    }
    items.push(with_shared(item.clone(), row, item_operations(row)));
    for sub in &row.subresources {
        items.push(with_shared(format!("{item}/{}", sub.name), row, subresource_operations(row, sub)));
    }
    items.retain(|(_, operations)| operations.as_object().is_some_and(|operations| operations.len() > 1));
    items
}

fn with_shared(path: String, row: &Resource, mut operations: Map<String, Value>) -> (String, Value) {
    let shared = parameters::shared(&path, &row.kind);
    operations.insert("parameters".into(), shared.into());
    (path, Value::Object(operations))
}

fn collection_operations(row: &Resource) -> Map<String, Value> {
    let mut operations = Map::new();
    if row.allows("list") {
        operations.insert("get".into(), PathOperation::new(row, "list", "list").list());
    }
    if row.allows("create") {
        operations.insert("post".into(), PathOperation::new(row, "create", "post").write());
    }
    if row.allows("deletecollection") {
        operations.insert(
            "delete".into(),
            PathOperation::new(row, "deleteCollection", "deletecollection").delete(),
        );
    }
    operations
}

fn item_operations(row: &Resource) -> Map<String, Value> {
    let mut operations = changes(row, &row.verbs, |verb, action| PathOperation::new(row, verb, action));
    if row.allows("delete") {
        operations.insert("delete".into(), PathOperation::new(row, "delete", "delete").delete());
    }
    operations
}

fn subresource_operations(row: &Resource, sub: &Subresource) -> Map<String, Value> {
    let kind = KindName::of_subresource(row, sub);
    if kind.schema_name(row).is_none() {
        return Map::new();
    }
    let make = |verb, action| {
        PathOperation { kind, ..PathOperation::new(row, verb, action) }.suffixed(&capitalized(&sub.name))
    };
    if &*sub.name == "log" {
        return Map::from_iter([("get".to_owned(), make("read", "get").text())]);
    }
    let mut operations = changes(row, &sub.verbs, make);
    if sub.verbs.iter().any(|verb| &**verb == "create") {
        operations.insert("post".into(), make("create", "post").write());
    }
    operations
}

/// Returns the operations that read, replace and patch one object.
fn changes<'a>(
    row: &Resource,
    verbs: &[Box<str>],
    make: impl Fn(&'static str, &'static str) -> PathOperation<'a>,
) -> Map<String, Value> {
    let allows = |verb: &str| verbs.iter().any(|one| &**one == verb);
    let mut operations = Map::new();
    if allows("get") {
        operations.insert("get".into(), make("read", "get").read());
    }
    if allows("update") {
        operations.insert("put".into(), make("replace", "put").write());
    }
    if allows("patch") {
        operations.insert("patch".into(), make("patch", "patch").patch(!row.is_custom()));
    }
    operations
}

impl<'a> PathOperation<'a> {
    fn new(row: &'a Resource, verb: &'static str, action: &'static str) -> Self {
        let kind = KindName::of(row);
        Self { row, kind, verb, action, suffix: String::new(), is_namespaced: row.namespaced }
    }

    fn suffixed(self, suffix: &str) -> Self {
        Self { suffix: suffix.to_owned(), ..self }
    }

    fn anywhere(self) -> Self {
        Self { is_namespaced: false, ..self }
    }

    /// Returns an id such as `listAppsV1NamespacedDeployment`.
    fn id(&self) -> String {
        let (verb, collection) = match self.verb {
            "deleteCollection" => ("delete", "Collection"),
            verb => (verb, ""),
        };
        let namespaced = if self.is_namespaced { "Namespaced" } else { "" };
        let (group, version) = (group_word(&self.row.group), capitalized(&self.row.version));
        format!("{verb}{group}{version}{collection}{namespaced}{}{}", self.row.kind, self.suffix)
    }

    fn finish(&self, parameters: &[Value], answers: &[(&str, &str)], schema: Option<&Value>) -> Value {
        let content = |schema: &Value| -> Map<String, Value> {
            MEDIA.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect()
        };
        let mut responses: Map<String, Value> = answers
            .iter()
            .map(|(code, description)| {
                let content = schema.map(content).unwrap_or_default();
                ((*code).to_owned(), json!({ "description": description, "content": content }))
            })
            .collect();
        responses.insert("401".into(), json!({ "description": "Unauthorized" }));
        let mut tag = group_word(&self.row.group);
        tag[..1].make_ascii_lowercase();
        let mut operation = json!({
            "description": format!("{} {}", self.verb, self.row.kind),
            "operationId": self.id(),
            "responses": responses,
            "tags": [format!("{tag}_{}", self.row.version)],
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": self.kind.to_json(),
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }

    fn own_schema(&self) -> Option<Value> {
        self.kind.schema_name(self.row).map(|name| reference(&name))
    }

    fn read(&self) -> Value {
        self.finish(&[], &[("200", "OK")], self.own_schema().as_ref())
    }

    fn text(&self) -> Value {
        self.finish(&[], &[("200", "OK")], Some(&json!({ "type": "string" })))
    }

    fn list(&self) -> Value {
        let schema = list_name(self.row).map(|name| reference(&name));
        self.finish(&parameters::query(&parameters::LIST), &[("200", "OK")], schema.as_ref())
    }

    fn write(&self) -> Value {
        let answers: &[_] = if self.verb == "create" {
            &[("200", "OK"), ("201", "Created"), ("202", "Accepted")]
        } else {
            &[("200", "OK"), ("201", "Created")]
        };
        let mut operation =
            self.finish(&parameters::query(&parameters::WRITE), answers, self.own_schema().as_ref());
        operation["requestBody"] =
            json!({ "content": { "*/*": { "schema": self.own_schema() } }, "required": true });
        operation
    }

    fn patch(&self, is_built_in: bool) -> Value {
        let answers = [("200", "OK"), ("201", "Created")];
        let mut operation =
            self.finish(&parameters::query(&parameters::PATCH), &answers, self.own_schema().as_ref());
        let content: Map<String, Value> = PATCHES
            .into_iter()
            .chain(is_built_in.then_some(STRATEGIC))
            .map(|media| (media.to_owned(), json!({ "schema": reference(PATCH) })))
            .collect();
        operation["requestBody"] = json!({ "content": content, "required": true });
        operation
    }

    fn delete(&self) -> Value {
        let parameters: &[_] =
            if self.verb == "delete" { &parameters::DELETE } else { &parameters::DELETE_COLLECTION };
        let answers: &[_] =
            if self.verb == "delete" { &[("200", "OK"), ("202", "Accepted")] } else { &[("200", "OK")] };
        let mut operation = self.finish(&parameters::query(parameters), answers, Some(&reference(STATUS)));
        operation["requestBody"] = json!({ "content": { "*/*": { "schema": reference(DELETE_OPTIONS) } } });
        operation
    }
}

/// Returns the group in an operation id: `Core`, `Apps`, `RbacAuthorization`, `ExampleCom`.
fn group_word(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    short.split(['.', '-']).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(kind: &str) -> Map<String, Value> {
        let rows = crate::kinds::built_in_rows();
        paths_of_rows(rows.iter().filter(|row| &*row.kind == kind && &*row.version == "v1")).collect()
    }

    #[test]
    fn operations_say_what_kubectl_looks_for() {
        let paths = paths("Deployment");
        let item = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        let patch = &item["patch"];
        assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
        let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let names: Vec<_> = patch["parameters"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
        assert!(patch["requestBody"]["content"].get(STRATEGIC).is_some());
        let shared: Vec<_> = item["parameters"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(shared, ["name", "namespace", "pretty"]);
    }

    #[test]
    fn every_path_has_the_name_kubernetes_gives_it() {
        let id = |kind, path: &str, method: &str| paths(kind)[path][method]["operationId"].clone();
        let deployments = "/apis/apps/v1/namespaces/{namespace}/deployments";
        assert_eq!(id("Deployment", deployments, "delete"), "deleteAppsV1CollectionNamespacedDeployment");
        assert_eq!(
            id("Deployment", "/apis/apps/v1/deployments", "get"),
            "listAppsV1DeploymentForAllNamespaces"
        );
        let scale = format!("{deployments}/{{name}}/scale");
        assert_eq!(id("Deployment", &scale, "get"), "readAppsV1NamespacedDeploymentScale");
        assert_eq!(id("Node", "/api/v1/nodes/{name}", "get"), "readCoreV1Node");
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(id("ClusterRole", roles, "post"), "createRbacAuthorizationV1ClusterRole");
        assert!(!paths("Pod").contains_key("/api/v1/namespaces/{namespace}/pods/{name}/exec"));
    }
}
