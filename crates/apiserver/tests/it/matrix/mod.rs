//! Tests the authorization matrix: random policies and requests, decided by the server and by an independent
//! [`specification`].
//!
//! It mixes every verb, every served kind and subresource (built-in and custom) and some that are not served, scopes,
//! names, paths, groups, aggregated roles and impersonation; the policy changes before each request. Requests pass
//! through the whole server: path, query, headers, policy index, refusal. A difference prints the round, the policy and
//! the request.

mod draw;
mod specification;

use std::collections::BTreeMap;
use std::sync::Arc;

use draw::{Change, Draw, Kind};
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Identity;
use homeostat_core::{Entropy, Key};
use homeostat_store::{Expect, Memory, Op, SharedStore, Txn, Value as Stored};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use specification::{Objects, Request, User, Verdict, action_of, judge};
use tower::ServiceExt as _;

const GROUP: &str = "rbac.authorization.k8s.io";
/// How many policies and requests a run compares, and the variable that overrides it: unoptimized they take 10 s.
const REQUESTS: usize = 10_000;
/// With this many requests every verb of every kind is allowed and refused: `HOMEOSTAT_MATRIX_REQUESTS=100000`.
const REQUESTS_ALL: usize = 100_000;
const REQUESTS_VARIABLE: &str = "HOMEOSTAT_MATRIX_REQUESTS";
/// The seed, and the variable that overrides it.
const SEED: u64 = 1536;
const SEED_VARIABLE: &str = "HOMEOSTAT_MATRIX_SEED";
/// Verbs of resources. OPTIONS has none.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The server, and the objects that the specification knows about.
struct Matrix {
    store: SharedStore,
    server: ApiServer,
    objects: Objects,
}

impl Matrix {
    async fn new() -> Self {
        let store: SharedStore = Arc::new(Memory::new());
        let (server, _) = ApiServer::builder(Arc::clone(&store)).build().await.unwrap();
        let mut matrix = Self { store, server, objects: Objects::default() };
        for (plural, kind, scope) in [("lamps", "Lamp", "Namespaced"), ("stars", "Star", "Cluster")] {
            matrix.define(plural, kind, scope).await;
        }
        let snapshot = matrix.store.snapshot();
        for entry in snapshot.iter().filter(|entry| entry.key.group() == GROUP) {
            let object = serde_json::from_slice(&entry.bytes).unwrap();
            let place = (entry.key.namespace().to_owned(), entry.key.name().to_owned());
            matrix.objects_of(entry.key.resource()).insert(place, object);
        }
        matrix
    }

    async fn define(&self, plural: &str, kind: &str, scope: &str) {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema,
            "subresources": {"status": {}, "scale": scale}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.demo.dev")},
            "spec": {"group": "demo.dev", "scope": scope, "names": {"plural": plural, "kind": kind},
                "versions": [version]}});
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header("content-type", "application/json")
            .body(Full::<bytes::Bytes>::from(definition.to_string()))
            .unwrap();
        assert_eq!(self.server.clone().oneshot(request).await.unwrap().status(), 201);
    }

    fn objects_of(&mut self, resource: &str) -> &mut specification::Stored {
        match resource {
            "clusterroles" => &mut self.objects.cluster_roles,
            "roles" => &mut self.objects.roles,
            "clusterrolebindings" => &mut self.objects.cluster_role_bindings,
            _ => &mut self.objects.role_bindings,
        }
    }

    /// Writes changes without the API: this test does not check who may write them.
    async fn change(&mut self, changes: Vec<Change>) {
        let mut steps = BTreeMap::new();
        for (resource, namespace, name, object) in changes {
            let key = Key::new(GROUP, resource, &namespace, &name);
            let op = object.as_ref().map_or(Op::Delete, |object| Op::Put(Stored::plain(object.to_string())));
            steps.insert(key, op);
            match object {
                Some(object) => self.objects_of(resource).insert((namespace, name), object),
                None => self.objects_of(resource).remove(&(namespace, name)),
            };
        }
        let steps = steps.into_iter().map(|(key, op)| (key, Expect::Any, op)).collect();
        self.store.commit(Txn { steps }).await.unwrap();
    }

    /// Returns the server's decision: the code, and the message of a refusal.
    async fn decide(&self, user: &User, request: &Request) -> (u16, String) {
        let query = request.query.iter().map(|(key, value)| format!("{key}={}", value.replace('=', "%3D")));
        let uri = format!("{}?{}", request.path, query.collect::<Vec<_>>().join("&"));
        let mut sent = http::Request::builder().method(request.method.as_str()).uri(uri);
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        let User { name, uid, groups, extra } = user.clone();
        let sent = sent.extension(Identity { name, uid, groups, extra });
        let sent = sent.body(Full::<bytes::Bytes>::default()).unwrap();
        let response = self.server.clone().oneshot(sent).await.unwrap();
        let code = response.status().as_u16();
        // Other responses may be streams that never end.
        if code != 403 {
            return (code, String::new());
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status = serde_json::from_slice::<Value>(&body).unwrap();
        (code, status["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns all served kinds, from discovery, and two that are not served.
    async fn kinds(&self) -> Vec<Kind> {
        let get = async |path: &str| {
            let request = http::Request::get(path).body(Full::<bytes::Bytes>::default()).unwrap();
            let body = self.server.clone().oneshot(request).await.unwrap().into_body();
            serde_json::from_slice::<Value>(&body.collect().await.unwrap().to_bytes()).unwrap()
        };
        let groups = get("/apis").await;
        let versions = groups["groups"].as_array().unwrap().iter();
        let versions = versions.flat_map(|group| group["versions"].as_array().unwrap());
        let mut roots = vec!["/api/v1".to_owned()];
        roots.extend(versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
        let mut kinds = vec![
            kind("/apis/demo.dev/v1", "things", true),
            kind("/apis/nobody.dev/v1", "things/status", false),
        ];
        for root in roots {
            for row in get(&root).await["resources"].as_array().unwrap() {
                kinds.push(kind(&root, row["name"].as_str().unwrap(), row["namespaced"] == true));
            }
        }
        kinds
    }
}

fn kind(root: &str, name: &str, is_namespaced: bool) -> Kind {
    let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
    Kind { root: root.into(), plural: plural.into(), subresource: subresource.into(), is_namespaced }
}

/// How often something was allowed and refused.
#[derive(Default)]
struct Seen {
    allowed: usize,
    refused: usize,
}

/// Counts what the rounds covered, so that a run that compares next to nothing does not pass.
#[derive(Default)]
struct Counts {
    sorts: BTreeMap<&'static str, usize>,
    cells: BTreeMap<(String, String), Seen>,
}

impl Counts {
    fn count(&mut self, request: &Request, verdict: &Verdict) {
        let sort = match (verdict, request.headers.is_empty()) {
            (Verdict::Allowed, true) => "allowed",
            (Verdict::Allowed, false) => "allowed as another",
            (Verdict::Refused(_), true) => "refused",
            (Verdict::Refused(_), false) => "refused as another",
            (Verdict::Nonsense, _) => "nonsense",
        };
        *self.sorts.entry(sort).or_default() += 1;
        let action = action_of(request);
        if !action.is_resource || !VERBS.contains(&&*action.verb) {
            return;
        }
        let kind = format!("{}/{}/{}", action.group, action.resource, action.subresource);
        let cell = self.cells.entry((kind, action.verb)).or_default();
        match verdict {
            Verdict::Allowed => cell.allowed += 1,
            _ => cell.refused += 1,
        }
    }

    /// Returns the percentage of the rounds.
    fn share(&self, sort: &str) -> usize {
        self.sorts.get(sort).copied().unwrap_or_default() * 100 / self.sorts.values().sum::<usize>()
    }

    /// Checks that each kind was both allowed and refused with each verb that a request for it can have.
    fn check_all_cells(&self, kinds: &[Kind]) {
        for kind in kinds {
            let group =
                kind.root.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let name = format!("{group}/{}/{}", kind.plural, kind.subresource);
            // Without a name there is no subresource, so no list.
            let has_cell =
                |verb: &&str| kind.subresource.is_empty() || !matches!(*verb, "list" | "deletecollection");
            for verb in VERBS.into_iter().filter(has_cell) {
                let seen = self.cells.get(&(name.clone(), verb.to_owned()));
                let is_seen = seen.is_some_and(|seen| seen.allowed > 0 && seen.refused > 0);
                assert!(is_seen, "{verb} {name} was not both allowed and refused: draw more");
            }
        }
    }
}

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

#[tokio::test]
async fn the_server_decides_as_the_specification_does() {
    let requests = variable(REQUESTS_VARIABLE, REQUESTS);
    let mut matrix = Matrix::new().await;
    let draw = Draw { entropy: Entropy::seeded(variable(SEED_VARIABLE, SEED)), kinds: matrix.kinds().await };
    let mut counts = Counts::default();
    for round in 0..requests {
        let (user, request) = (draw.user(), draw.request());
        let mut changes = vec![draw.change()];
        changes.extend(Draw::unaimed());
        if draw.once_in(2) {
            changes.extend(draw.aimed(&user, &request));
        }
        matrix.change(changes).await;
        let expected = judge(&matrix.objects, &user, &request);
        let (code, message) = matrix.decide(&user, &request).await;
        let is_same = match &expected {
            Verdict::Allowed => code != 403,
            Verdict::Refused(text) => code == 403 && message.starts_with(text),
            Verdict::Nonsense => code == 400,
        };
        assert!(
            is_same,
            "round {round}: {user:?} {request:?}\nthe specification says {expected:?}\nthe server says {code} {message}\n{:?}",
            matrix.objects,
        );
        counts.count(&request, &expected);
    }
    let shares = counts.sorts.keys().map(|sort| (*sort, counts.share(sort))).collect::<BTreeMap<_, _>>();
    let is_mixed = counts.share("allowed") >= 10 && counts.share("allowed as another") >= 2;
    assert!(shares.len() == 5 && is_mixed, "in percent: {shares:?}");
    if requests >= REQUESTS_ALL {
        counts.check_all_cells(&draw.kinds);
    }
}
