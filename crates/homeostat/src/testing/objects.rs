//! Lets a test access the objects of its cluster. A name alone refers to the namespace `default`; a pair is a namespace
//! and a name. If the server refuses a request, the test panics at the line that sent it.

use std::any::type_name;
use std::panic::Location;

use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_runtime::{Kind, ObjectName};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE};

impl Cluster {
    /// Creates an object and returns it as stored.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a test has no further use for what it creates")]
    pub fn create<K: Kind>(&self, object: K) -> BoxFuture<'_, K> {
        self.create_json(json!(object))
    }

    /// Creates an object from JSON, in which `apiVersion` and `kind` may be left out: `json!({"metadata": {"name":
    /// "home"}, "spec": {}})`.
    #[track_caller]
    pub fn create_json<K: Kind>(&self, mut object: Value) -> BoxFuture<'_, K> {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(NAMESPACE);
        let path = collection_path::<K>(namespace);
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        self.ask(Method::POST, path, &object)
    }

    /// Returns an object that must exist.
    #[track_caller]
    pub fn get<K: Kind>(&self, object: impl Into<ObjectName>) -> BoxFuture<'_, K> {
        self.ask(Method::GET, object_path::<K>(&object.into()), &Value::Null)
    }

    /// Returns an object if it exists.
    #[track_caller]
    pub fn get_opt<K: Kind>(&self, object: impl Into<ObjectName>) -> BoxFuture<'_, Option<K>> {
        let (path, caller) = (object_path::<K>(&object.into()), Location::caller());
        let answer = send(self.client(), Method::GET, path.clone(), &Value::Null);
        Box::pin(async move {
            match answer.await {
                Ok(object) => Some(decode(object, &path, caller)),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => panic!("{caller}: cannot get {path}: {error}"),
            }
        })
    }

    /// Returns the objects of this kind in all namespaces, ordered by name.
    #[track_caller]
    pub fn list<K: Kind>(&self) -> BoxFuture<'_, Vec<K>> {
        let (path, caller) = (K::url_path(&(), None), Location::caller());
        let answer = send(self.client(), Method::GET, path.clone(), &Value::Null);
        Box::pin(async move {
            let mut list =
                answer.await.unwrap_or_else(|error| panic!("{caller}: cannot list {path}: {error}"));
            let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            items.into_iter().map(|item| decode(item, &path, caller)).collect()
        })
    }

    /// Returns the names of the objects of this kind in all namespaces, in order.
    #[track_caller]
    pub fn names<K: Kind>(&self) -> BoxFuture<'_, Vec<String>> {
        let objects = self.list::<K>();
        Box::pin(async move {
            objects.await.into_iter().filter_map(|object| object.meta().name.clone()).collect()
        })
    }

    /// Patches an object (a JSON merge patch) and returns it.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the patch is written where it is used: json!(…)")]
    pub fn patch<K: Kind>(&self, object: impl Into<ObjectName>, patch: Value) -> BoxFuture<'_, K> {
        self.ask(Method::PATCH, object_path::<K>(&object.into()), &patch)
    }

    /// Patches the status of an object, as the kubelet or another controller would, and returns it.
    #[track_caller]
    pub fn patch_status<K: Kind>(&self, object: impl Into<ObjectName>, status: Value) -> BoxFuture<'_, K> {
        let path = object_path::<K>(&object.into()) + "/status";
        self.ask(Method::PATCH, path, &Value::from_iter([("status", status)]))
    }

    /// Deletes an object, and its dependents in the background. It may stay until its finalizers are gone.
    #[track_caller]
    pub fn delete<K: Kind>(&self, object: impl Into<ObjectName>) -> BoxFuture<'_, ()> {
        let (path, caller) = (object_path::<K>(&object.into()), Location::caller());
        let options = json!({"propagationPolicy": "Background"});
        let answer = send(self.client(), Method::DELETE, path.clone(), &options);
        Box::pin(async move {
            answer.await.unwrap_or_else(|error| panic!("{caller}: cannot delete {path}: {error}"));
        })
    }

    #[track_caller]
    fn ask<K: Kind>(&self, method: Method, path: String, body: &Value) -> BoxFuture<'_, K> {
        let caller = Location::caller();
        let answer = send(self.client(), method.clone(), path.clone(), body);
        Box::pin(async move {
            let object = answer.await;
            let object = object.unwrap_or_else(|error| panic!("{caller}: {method} {path} failed: {error}"));
            decode(object, &path, caller)
        })
    }
}

/// Sends a request. It is not generic, so that it is compiled once, here.
fn send(
    client: Client,
    method: Method,
    path: String,
    body: &Value,
) -> BoxFuture<'static, kube::Result<Value>> {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", media).body(body);
    Box::pin(async move { client.request(request.map_err(kube::Error::HttpError)?).await })
}

fn decode<K: Kind>(object: Value, path: &str, caller: &Location<'_>) -> K {
    let decoded = serde_json::from_value(object);
    decoded.unwrap_or_else(|error| panic!("{caller}: {path} is no {}: {error}", type_name::<K>()))
}

fn collection_path<K: Kind>(namespace: &str) -> String {
    K::url_path(&(), is_namespaced::<K>().then_some(namespace))
}

fn object_path<K: Kind>(object: &ObjectName) -> String {
    let namespace = object.namespace.as_deref().unwrap_or(NAMESPACE);
    format!("{}/{}", collection_path::<K>(namespace), object.name)
}

/// Returns the key of an object of this kind.
pub(super) fn key_of<K: Kind>(object: &ObjectName) -> Key {
    let namespace = object.namespace.as_deref().unwrap_or(NAMESPACE);
    let namespace = if is_namespaced::<K>() { namespace } else { "" };
    Key::new(&K::group(&()), &K::plural(&()), namespace, &object.name)
}

/// Returns whether this kind is namespaced. Compares by type name, because kube puts no trait bound on
/// `Resource::Scope`.
fn is_namespaced<K: Kind>() -> bool {
    type_name::<K::Scope>() != type_name::<kube::core::ClusterResourceScope>()
}
