//! Finds the EndpointSlices of a Service without parsing those of others.
//!
//! A user may write as many and as large slices as the namespace can hold, for any Service. Whoever looks for an
//! endpoint therefore reads the slices one by one, at most [`SLICES_BYTES_MAX`] of them, until there are
//! [`ENDPOINTS_MAX`] endpoints.

use std::sync::Arc;

use homeostat_api::kinds::discovery::endpoint_slice::ENDPOINT_SLICE;
use homeostat_store::{Entry, Snapshot};

use super::labels_and_owners::LabelsAndOwners;

/// The maximum number of a Service's endpoints that are considered, the same as in an Endpoints object.
pub(crate) const ENDPOINTS_MAX: usize = 1000;
/// The maximum size of a Service's slices that are read: eight times what [`ENDPOINTS_MAX`] endpoints of Pods take, so
/// that enough are found among those that are not ready, and about 30 ms of work.
const SLICES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The label of a slice that names its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Returns the slices of a Service that may be read, in the order of their names.
pub(crate) fn slices_of_service(snapshot: &Snapshot, namespace: &str, service: &str) -> Vec<Arc<Entry>> {
    let prefix = ENDPOINT_SLICE.storage().prefix_in(namespace);
    let of_service =
        |entry: &&Arc<Entry>| LabelsAndOwners::from_entry(entry).label(SERVICE_NAME_LABEL) == Some(service);
    let mut bytes = 0;
    let has_room = |entry: &&Arc<Entry>| {
        bytes += entry.bytes.len();
        bytes <= SLICES_BYTES_MAX
    };
    snapshot.range(&prefix, "").filter(of_service).take_while(has_room).cloned().collect()
}

#[cfg(test)]
mod tests {
    use homeostat_core::Revision;
    use serde_json::json;

    use super::*;

    fn slice(name: &str, service: Option<&str>, bytes: usize) -> Arc<Entry> {
        let labels = service.map(|service| json!({SERVICE_NAME_LABEL: service}));
        let object = json!({"metadata": {"name": name, "labels": labels.unwrap_or(json!({})),
            "annotations": {"text": "x".repeat(bytes)}}});
        let key = ENDPOINT_SLICE.storage().key("default", name);
        let value = homeostat_store::Value::plain(object.to_string());
        Arc::new(Entry::new(key, Revision::new(1), &value))
    }

    #[track_caller]
    fn check(slices: &[Arc<Entry>], expected: &[&str]) {
        let entries = slices.iter().map(|entry| (entry.key.clone(), Arc::clone(entry))).collect();
        let snapshot = Snapshot::new(Revision::new(1), entries);
        let found = slices_of_service(&snapshot, "default", "web");
        assert_eq!(found.iter().map(|entry| entry.key.name()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn slices_of_others_are_left_out() {
        check(&[slice("a", Some("other"), 0), slice("b", Some("web"), 0), slice("c", None, 0)], &["b"]);
    }

    #[test]
    fn only_some_of_many_large_slices_are_read() {
        let large = ["a", "b", "c", "d"].map(|name| slice(name, Some("web"), SLICES_BYTES_MAX / 3));
        check(&large, &["a", "b"]);
    }
}
