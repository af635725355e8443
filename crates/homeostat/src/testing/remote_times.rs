//! Provides one clock for a test and its server in another process: the server's creation and deletion timestamps of an
//! object are translated, by the object's uid, into the virtual time at which the wire first showed them, and back in
//! requests. Virtual time stands still while a request is in progress, so the time of the response is that of the
//! write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use homeostat_core::Clock;
use serde_json::{Value, json};

/// The metadata fields that the server fills in with its own time.
const FIELDS: [&str; 2] = ["creationTimestamp", "deletionTimestamp"];

/// The server's times and ours, by uid and field.
#[derive(Clone)]
pub(super) struct RemoteTimes {
    clock: Clock,
    known: Arc<Mutex<BTreeMap<(String, &'static str), TimePair>>>,
}

struct TimePair {
    theirs: Value,
    ours: Value,
}

#[derive(Clone, Copy)]
enum TimeDirection {
    ToUs,
    ToThem,
}

impl RemoteTimes {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Arc::default() }
    }

    /// Translates a complete JSON document from the server for the test.
    pub(super) fn to_us(&self, text: Bytes) -> Bytes {
        self.translate(text, TimeDirection::ToUs)
    }

    /// Translates JSON for the server.
    pub(super) fn to_them(&self, text: Bytes) -> Bytes {
        self.translate(text, TimeDirection::ToThem)
    }

    fn translate(&self, text: Bytes, way: TimeDirection) -> Bytes {
        if memchr::memmem::find(&text, FIELDS[0].as_bytes()).is_none() {
            return text;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(&text) else { return text };
        self.visit(&mut value, way);
        // The lines of a watch end in a newline.
        format!("{value}\n").into()
    }

    fn visit(&self, value: &mut Value, way: TimeDirection) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.visit(item, way)),
            Value::Object(fields) => {
                if let Some(uid) = fields.get("uid").and_then(Value::as_str).map(str::to_owned) {
                    for name in FIELDS {
                        if let Some(time) = fields.get_mut(name).filter(|time| time.is_string()) {
                            self.exchange(&uid, name, time, way);
                        }
                    }
                }
                fields.values_mut().for_each(|field| self.visit(field, way));
            }
            _ => {}
        }
    }

    fn exchange(&self, uid: &str, name: &'static str, time: &mut Value, way: TimeDirection) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (uid.to_owned(), name);
        match way {
            TimeDirection::ToUs => {
                let now = || json!(format!("{:.0}", self.clock.now()));
                let pair = known.entry(id).or_insert_with(|| TimePair { theirs: time.clone(), ours: now() });
                *time = pair.ours.clone();
            }
            TimeDirection::ToThem => {
                if let Some(pair) = known.get(&id).filter(|pair| pair.ours == *time) {
                    *time = pair.theirs.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_server_are_shown_as_ours_and_sent_back_as_its_own() {
        let clock = Clock::virtual_from("2027-01-15T08:00:00Z".parse().unwrap());
        let times = RemoteTimes::new(clock);
        let theirs = json!({"uid": "1", "creationTimestamp": "2026-03-04T05:06:07Z",
                            "deletionTimestamp": "2026-03-04T05:06:08Z"});
        let shown = times.to_us(theirs.to_string().into());
        let ours: Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(ours["creationTimestamp"], "2027-01-15T08:00:00Z");
        assert_eq!(ours["deletionTimestamp"], "2027-01-15T08:00:00Z");
        let sent: Value = serde_json::from_slice(&times.to_them(shown)).unwrap();
        assert_eq!(sent, theirs);
    }
}
