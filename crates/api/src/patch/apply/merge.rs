//! Merges an applied configuration into the live object.
//!
//! **Invariant:** a merge removes nothing; abandoned fields are pruned afterwards. In a list, elements that are in both
//! follow the configuration's order, live-only ones keep their position before the next shared one, and new ones go
//! where the configuration puts them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::schema_position::{MergeShape, SchemaPosition};

/// Merges `config` into `live`.
pub(super) fn merge(live: &mut Value, config: &Value, place: SchemaPosition<'_>) {
    let shape =
        if matches!(place.shape(live), MergeShape::Map) { MergeShape::Map } else { place.shape(config) };
    match (shape, &mut *live, config) {
        (MergeShape::Map, Value::Object(fields), Value::Null) if !fields.is_empty() => {}
        (MergeShape::Map, Value::Object(fields), Value::Object(changes))
            if !(fields.is_empty() && changes.is_empty()) =>
        {
            for (name, change) in changes {
                merge_field(fields, name, change, place);
            }
        }
        (MergeShape::List, Value::Array(items), Value::Null) if !items.is_empty() => {}
        (MergeShape::List, Value::Array(items), Value::Array(changes)) => merge_lists(items, changes, place),
        _ => live.clone_from(config),
    }
}

/// Merges one field. Null does not reset fields that only the server writes, such as a `creationTimestamp` that tools
/// leave empty.
fn merge_field(
    fields: &mut serde_json::Map<String, Value>,
    name: &str,
    change: &Value,
    place: SchemaPosition<'_>,
) {
    match fields.get_mut(name) {
        _ if change.is_null() && !place.is_tracked(name) => {}
        Some(value) => merge(value, change, place.field(name)),
        None => drop(fields.insert(name.to_owned(), change.clone())),
    }
}

/// Merges two lists. Steps identify the elements.
fn merge_lists(live: &mut Vec<Value>, config: &[Value], place: SchemaPosition<'_>) {
    let mut weaver = ListMerger::new(std::mem::take(live), config, place);
    let (mut left, mut right) = (0, 0);
    while left < weaver.live_steps.len() || right < config.len() {
        let ours = weaver.live_steps.get(left);
        if let (Some(ours), true) = (ours, right < config.len()) {
            if *ours == weaver.config_steps[right] {
                weaver.take_config(right);
                (left, right) = (left + 1, right + 1);
                continue;
            }
            if weaver.is_shared_but_not_next(ours) {
                left += 1;
                continue;
            }
        }
        if let Some(ours) = ours {
            if !weaver.is_in_config(ours) {
                weaver.take_live(left);
                left += 1;
                continue;
            }
            left += usize::from(weaver.done.contains(ours));
        }
        if right < config.len() {
            weaver.take_config(right);
            right += 1;
        }
    }
    *live = weaver.woven;
}

struct ListMerger<'a> {
    place: SchemaPosition<'a>,
    live: Vec<Option<Value>>,
    live_steps: Vec<String>,
    /// The position of each step's live element; absent if several elements share a step, because those are not merged.
    live_at: HashMap<String, usize>,
    config: &'a [Value],
    config_steps: Vec<String>,
    in_config: HashSet<String>,
    /// The steps that are in both lists, in the configuration's order, not yet placed.
    shared: std::collections::VecDeque<String>,
    done: HashSet<String>,
    woven: Vec<Value>,
}

impl<'a> ListMerger<'a> {
    fn new(live: Vec<Value>, config: &'a [Value], place: SchemaPosition<'a>) -> Self {
        let steps = |items: &[Value]| -> Vec<String> {
            // An element without identity (the object is older than its schema) matches no other.
            let step = |(at, item)| place.step(item).unwrap_or_else(|_| format!("i:{at}"));
            items.iter().enumerate().map(step).collect()
        };
        let (live_steps, config_steps) = (steps(&live), steps(config));
        let mut live_at = HashMap::new();
        let mut seen = HashSet::new();
        for (at, step) in live_steps.iter().enumerate() {
            if seen.insert(step) {
                live_at.insert(step.clone(), at);
            } else {
                live_at.remove(step);
            }
        }
        let shared = config_steps.iter().filter(|step| seen.contains(step)).cloned().collect();
        let in_config = config_steps.iter().cloned().collect();
        Self {
            place,
            live: live.into_iter().map(Some).collect(),
            live_steps,
            live_at,
            config,
            config_steps,
            in_config,
            shared,
            done: HashSet::new(),
            woven: Vec::new(),
        }
    }

    fn is_in_config(&self, step: &str) -> bool {
        self.in_config.contains(step)
    }

    fn is_shared_but_not_next(&self, step: &String) -> bool {
        self.is_in_config(step) && self.shared.front().is_some_and(|next| next != step)
    }

    fn take_live(&mut self, at: usize) {
        self.woven.extend(self.live[at].take());
    }

    /// Adds an element of the configuration, merged with its live counterpart.
    fn take_config(&mut self, at: usize) {
        let step = &self.config_steps[at];
        let live = self.live_at.get(step).and_then(|at| self.live[*at].take());
        let merged = match live {
            Some(mut value) => {
                merge(&mut value, &self.config[at], self.place.item());
                value
            }
            None => self.config[at].clone(),
        };
        self.woven.push(merged);
        if self.shared.front() == Some(step) {
            self.shared.pop_front();
        }
        self.done.insert(step.clone());
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::patch::test_schemas::widget;

    #[track_caller]
    fn check(live: Value, config: Value, expected: Value) {
        let schema = widget();
        let (mut live, config) = (json!({"spec": live}), json!({"spec": config}));
        merge(&mut live, &config, SchemaPosition::root(Some(&schema)));
        assert_eq!(live, json!({"spec": expected}), "{config}");
    }

    #[track_caller]
    fn check_order(live: &str, config: &str, expected: &str) {
        let list =
            |letters: &str| letters.chars().map(|letter| json!({"k": letter.to_string()})).collect::<Value>();
        check(json!({"map": list(live)}), json!({"map": list(config)}), json!({"map": list(expected)}));
        let list = |letters: &str| letters.chars().map(|letter| json!(letter.to_string())).collect::<Value>();
        check(json!({"set": list(live)}), json!({"set": list(config)}), json!({"set": list(expected)}));
    }

    #[test]
    fn fields_merge_and_leaves_are_replaced() {
        check(
            json!({"granular": {"a": "1"}}),
            json!({"granular": {"b": "2"}}),
            json!({"granular": {"a": "1", "b": "2"}}),
        );
        check(json!({"num": 1, "flag": true}), json!({"num": 2}), json!({"num": 2, "flag": true}));
        check(
            json!({"atomicMap": {"a": "1"}}),
            json!({"atomicMap": {"b": "2"}}),
            json!({"atomicMap": {"b": "2"}}),
        );
        check(json!({"atomic": ["a"]}), json!({"atomic": ["b"]}), json!({"atomic": ["b"]}));
        check(
            json!({"any": {"a": 1, "l": [1]}}),
            json!({"any": {"b": 2, "l": [2]}}),
            json!({"any": {"a": 1, "b": 2, "l": [2]}}),
        );
        check(json!({"any": [1]}), json!({"any": {"b": 2}}), json!({"any": {"b": 2}}));
    }

    #[test]
    fn null_replaces_leaves_and_keeps_what_has_parts() {
        check(json!({"num": 1}), json!({"num": null}), json!({"num": null}));
        check(json!({"granular": {"a": "1"}}), json!({"granular": null}), json!({"granular": {"a": "1"}}));
        check(json!({"granular": {}}), json!({"granular": null}), json!({"granular": null}));
        check(json!({"set": ["a"]}), json!({"set": null}), json!({"set": ["a"]}));
        check(json!({"any": {"a": 1}}), json!({"any": null}), json!({"any": {"a": 1}}));
        check(json!({"any": [1]}), json!({"any": null}), json!({"any": null}));
        check(json!({}), json!({"set": null, "granular": {}}), json!({"set": null, "granular": {}}));
    }

    #[test]
    fn elements_merge_by_key() {
        check(
            json!({"map": [{"k": "a", "v": "1"}, {"k": "b"}]}),
            json!({"map": [{"k": "a"}, {"k": "b", "v": "2"}]}),
            json!({"map": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]}),
        );
        check(
            json!({"multi": [{"port": 80, "proto": "TCP", "v": "x"}]}),
            json!({"multi": [{"port": 80}, {"port": 80, "proto": "UDP"}]}),
            json!({"multi": [{"port": 80, "proto": "TCP", "v": "x"}, {"port": 80, "proto": "UDP"}]}),
        );
        check(
            json!({"nested": [{"name": "a", "env": [{"name": "x", "value": "1"}]}]}),
            json!({"nested": [{"name": "a", "env": [{"name": "y", "value": "2"}]}]}),
            json!({"nested": [{"name": "a", "env": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]}]}),
        );
    }

    #[test]
    fn lists_keep_an_order_both_can_expect() {
        for (live, config, expected) in [
            ("abc", "abc", "abc"),
            ("abc", "", "abc"),
            ("ab", "c", "abc"),
            ("ab", "ba", "ba"),
            ("abc", "cb", "acb"),
            ("abc", "ca", "bca"),
            ("abcd", "xb", "axbcd"),
            ("abd", "acd", "abcd"),
            ("abcde", "dxb", "acdexb"),
        ] {
            check_order(live, config, expected);
        }
    }

    #[test]
    fn several_live_elements_of_one_key_give_way() {
        check(
            json!({"map": [{"k": "a", "v": "1"}, {"k": "a", "v": "2"}, {"k": "b"}]}),
            json!({"map": [{"k": "a", "v": "3"}]}),
            json!({"map": [{"k": "a", "v": "3"}, {"k": "b"}]}),
        );
    }
}
