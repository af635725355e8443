//! The operators that announce their admin server in an annotation of a Lease.

use serde_json::Value;

use crate::admin_address::{ADDRESS_ANNOTATION, AdminPod, POD_ANNOTATION};

/// An operator that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) operator: String,
    /// The Lease that announces it, as `NAMESPACE/NAME`.
    pub(super) lease: String,
    pub(super) address: String,
    /// Where it runs in the cluster; then it is asked there.
    pub(super) pod: Option<AdminPod>,
}

/// Returns the operators that announce themselves. A Pod is one in the namespace of its Lease.
pub(super) fn announced(leases: &[Value]) -> Vec<Announcement> {
    let announcement = |lease: &Value| {
        let metadata = &lease["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let name = metadata["name"].as_str()?;
        Some(Announcement {
            operator: name.trim_end_matches("-admin").to_owned(),
            lease: format!("{namespace}/{name}"),
            address: annotation(ADDRESS_ANNOTATION)?.to_owned(),
            pod: annotation(POD_ANNOTATION).and_then(|text| AdminPod::parse(namespace, text)),
        })
    };
    let mut found: Vec<Announcement> = Vec::new();
    for one in leases.iter().filter_map(announcement) {
        // An operator with several Leases announces itself in each.
        if !found.iter().any(|other| other.address == one.address && other.pod == one.pod) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operator_with_several_leases_is_asked_once() {
        let lease = |name: &str, address: &str| json!({"metadata": {"namespace": "a", "name": name, "annotations": {ADDRESS_ANNOTATION: address}}});
        let (here, there) = ("http://127.0.0.1:1", "http://127.0.0.1:2");
        let leases = [lease("web-0", here), lease("other-admin", there), lease("web-1", here)];
        let found = announced(&leases);
        let names: Vec<_> = found.iter().map(|one| (one.operator.as_str(), one.lease.as_str())).collect();
        assert_eq!(names, [("web-0", "a/web-0"), ("other", "a/other-admin")]);
    }
}
