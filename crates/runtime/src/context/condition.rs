//! Creates the conditions in an object's status, in Kubernetes' common form, which `kubectl wait` understands.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The two fields every status should have; `#[serde(flatten)]` it into yours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandardStatus {
    /// The conditions of the object.
    ///
    /// The schema declares them as a map by type, so that several writers can apply conditions of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Creates a condition; its times are filled in when it is written.
pub fn condition(r#type: &str, is_true: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: r#type.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// Rounds down to the second. The API keeps times to the second; a more precise time would read back as different and
/// be written again.
pub(super) fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole second of a valid time is valid"))
}
