//! The kinds of the core group, one file each.

pub(crate) mod binding;
pub(crate) mod component_status;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod limit_range;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_template;
pub mod replication_controller;
pub mod resource_quota;
pub mod secret;
pub mod service;
pub mod service_account;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &binding::BINDING,
    &component_status::COMPONENT_STATUS,
    &config_map::CONFIG_MAP,
    &endpoints::ENDPOINTS,
    &event::EVENT,
    &limit_range::LIMIT_RANGE,
    &namespace::NAMESPACE,
    &node::NODE,
    &persistent_volume_claim::PERSISTENT_VOLUME_CLAIM,
    &persistent_volume::PERSISTENT_VOLUME,
    &pod::POD,
    &pod_template::POD_TEMPLATE,
    &replication_controller::REPLICATION_CONTROLLER,
    &resource_quota::RESOURCE_QUOTA,
    &secret::SECRET,
    &service_account::SERVICE_ACCOUNT,
    &service::SERVICE,
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    const NOW: &str = "2020-01-01T00:00:07Z";

    #[expect(clippy::needless_pass_by_value, reason = "rows of literals read better without references")]
    #[track_caller]
    fn check(cells: crate::printing::PrintCells, mut object: Value, expected: Value) {
        object["metadata"] = json!({"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"});
        assert_eq!(Value::from(cells(&object, NOW.parse().expect("a time"))), expected);
    }

    #[test]
    fn small_kinds_print_as_recorded() {
        check(
            crate::kinds::core::config_map::cells,
            json!({"data": {"k": "1", "m": "2"}, "binaryData": {"b": ""}}),
            json!(["a", 3, "7s"]),
        );
        check(crate::kinds::core::secret::cells, json!({"type": "Opaque"}), json!(["a", "Opaque", 0, "7s"]));
        check(
            crate::kinds::core::namespace::cells,
            json!({"status": {"phase": "Active"}}),
            json!(["a", "Active", "7s"]),
        );
        check(
            crate::kinds::coordination::lease::cells,
            json!({"spec": {"holderIdentity": "me"}}),
            json!(["a", "me", "7s"]),
        );
        check(
            crate::kinds::core::resource_quota::cells,
            json!({"status": {"hard": {"pods": "10", "limits.cpu": 2}, "used": {"pods": "3"}}}),
            json!(["a", "pods: 3/10", "limits.cpu: 0/2", "7s"]),
        );
        check(
            crate::kinds::policy::pod_disruption_budget::cells,
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            json!(["a", "50%", "N/A", 1, "7s"]),
        );
        check(
            crate::kinds::resource::resource_claim::cells,
            json!({"status": {"allocation": {}, "reservedFor": [{}]}}),
            json!(["a", "allocated,reserved", "7s"]),
        );
    }
}
