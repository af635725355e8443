//! One clock for a test and its server in another process: what the server says of when an object was made or is to go is
//! translated, by the object's uid, into the virtual moment at which the wire first showed it, and back in what it is
//! sent. Virtual time stands still while a request is under way, so the moment of the answer is that of the deed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use homeostat_core::Clock;
use serde_json::{Value, json};

/// The fields of metadata that the server fills in with its own time.
const FIELDS: [&str; 2] = ["creationTimestamp", "deletionTimestamp"];

/// The times of the server and ours, by uid and field.
#[derive(Clone)]
pub(crate) struct Times {
    clock: Clock,
    known: Arc<Mutex<HashMap<(String, &'static str), Pair>>>,
}

struct Pair {
    theirs: Value,
    ours: Value,
}

#[derive(Clone, Copy)]
enum Way {
    ToUs,
    ToThem,
}

impl Times {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, known: Arc::default() }
    }

    /// JSON from the server, whole, as the test shall see it.
    pub(crate) fn to_us(&self, text: Bytes) -> Bytes {
        self.translate(text, Way::ToUs)
    }

    /// JSON for the server.
    pub(crate) fn to_them(&self, text: Bytes) -> Bytes {
        self.translate(text, Way::ToThem)
    }

    fn translate(&self, text: Bytes, way: Way) -> Bytes {
        if memchr::memmem::find(&text, FIELDS[0].as_bytes()).is_none() {
            return text;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(&text) else { return text };
        self.visit(&mut value, way);
        // The lines of a watch end so.
        format!("{value}\n").into()
    }

    fn visit(&self, value: &mut Value, way: Way) {
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

    fn exchange(&self, uid: &str, name: &'static str, time: &mut Value, way: Way) {
        let mut known = self.known.lock().unwrap();
        let id = (uid.to_owned(), name);
        match way {
            Way::ToUs => {
                let now = || json!(format!("{:.0}", self.clock.now()));
                let pair = known.entry(id).or_insert_with(|| Pair { theirs: time.clone(), ours: now() });
                *time = pair.ours.clone();
            }
            Way::ToThem => {
                if let Some(pair) = known.get(&id).filter(|pair| pair.ours == *time) {
                    *time = pair.theirs.clone();
                }
            }
        }
    }
}
