//! Certificate signing requests.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::{age, read};

pub(crate) fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let lifetime = read::at(object, "spec.expirationSeconds").and_then(Value::as_i64);
    let lifetime = lifetime.map(|seconds| age::human(SignedDuration::from_secs(seconds)));
    vec![
        read::name(object).into(),
        age::of(object, now).into(),
        read::text_or(object, "spec.signerName", "<none>").into(),
        read::text(object, "spec.username").into(),
        lifetime.unwrap_or_else(|| "<none>".to_owned()).into(),
        status(object).into(),
    ]
}

/// A denial outweighs an approval.
fn status(object: &Value) -> String {
    let has = |kind| read::condition(object, kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    for (addition, holds) in
        [(",Failed", has("Failed")), (",Issued", !read::text(object, "status.certificate").is_empty())]
    {
        if holds {
            status.push_str(addition);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_of_a_request_is_summed_up() {
        let object = json!({"metadata": {"name": "r"}, "spec": {"username": "u", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}});
        let printed = json!(["r", "<unknown>", "<none>", "u", "60m", "Approved,Issued"]);
        assert_eq!(Value::from(signing_request(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
