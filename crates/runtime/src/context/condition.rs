//! Conditions: what the object's status says about it in Kubernetes' common form, which `kubectl wait` understands.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The two fields every status should have; `#[serde(flatten)]` it into yours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusBase {
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A condition; its times are filled in when it is written.
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

/// Puts `new` among `conditions`. The transition time moves only when the status does; a condition that says what it
/// said before is left as it is.
pub(super) fn merge(conditions: &mut Vec<Condition>, new: Condition, now: Timestamp) {
    let Some(old) = conditions.iter_mut().find(|old| old.type_ == new.type_) else {
        conditions.push(Condition { last_transition_time: whole_second(now), ..new });
        return;
    };
    let last_transition_time =
        if old.status == new.status { old.last_transition_time.clone() } else { whole_second(now) };
    *old = Condition { last_transition_time, ..new };
}

/// The API keeps times to the second; a finer one would come back different and be written again.
fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole second of a valid time is valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        merge(&mut conditions, condition("Ready", false, "Waiting", "a"), at(1));
        merge(&mut conditions, condition("Ready", false, "StillWaiting", "b"), at(2));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].last_transition_time.0),
            ("StillWaiting", at(1))
        );
        merge(&mut conditions, condition("Ready", true, "Up", "c"), at(3));
        assert_eq!((conditions.len(), conditions[0].last_transition_time.0), (1, at(3)));
    }
}
