//! Generates random JSON for tests of webhook responses: valid responses with random damage, from a seed.

use homeostat_core::Entropy;
use serde_json::{Map, Value};

/// Generates a value that looks like a part of a response.
fn random_value(entropy: &Entropy, depth: u32) -> Value {
    let words = ["a", "n", "u", "v1", "Success", "Lamp", "demo.dev/v2", "metadata", "labels", ""];
    let word = || words[usize::try_from(entropy.below(words.len() as u64)).unwrap()];
    match entropy.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => (entropy.below(9) > 4).into(),
        2 => entropy.below(100).into(),
        3 => word().into(),
        4 => (0..entropy.below(3)).map(|_| random_value(entropy, depth - 1)).collect(),
        _ => {
            let fields = (0..entropy.below(4)).map(|_| (word().to_owned(), random_value(entropy, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Replaces or removes a random part of a value.
pub(crate) fn damage(entropy: &Entropy, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && entropy.below(5) > 0 => {
            let at = usize::try_from(entropy.below(fields.len() as u64)).unwrap();
            let key = fields.keys().nth(at).unwrap().clone();
            if entropy.below(6) == 0 {
                fields.remove(&key);
            } else if let Some(part) = fields.get_mut(&key) {
                damage(entropy, part);
            }
        }
        Value::Array(items) if !items.is_empty() => damage(entropy, &mut items[0]),
        part => *part = random_value(entropy, 3),
    }
}
