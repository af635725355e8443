//! Conditions in the status of an object.

use serde_json::{Value, json};

/// Sets a condition `[type, status, reason, message]`; the transition time changes only when the status does.
pub fn set_condition(object: &mut Value, [kind, status, reason, message]: [&str; 4], now: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let conditions = object["status"]["conditions"].as_array_mut().expect("made a list above");
    let fresh = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now});
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(old) if old["status"] == status => {
            old["reason"] = reason.into();
            old["message"] = message.into();
        }
        Some(old) => *old = fresh,
        None => conditions.push(fresh),
    }
}
