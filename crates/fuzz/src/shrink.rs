//! Shrinks a failing input: removes parts, or replaces them with something simpler, as long as the input still fails.
//!
//! **Invariant:** the result fails, and at most as many inputs are tried as the caller allows.

use serde_json::{Value, json};

use crate::mutate::{count, node_at};

/// Returns a smaller input for which `fails` holds; `fails` is called at most `tries` times.
pub(crate) fn shrink(input: &Value, mut tries: usize, mut fails: impl FnMut(&Value) -> bool) -> Value {
    let mut smallest = input.clone();
    loop {
        let before = smallest.clone();
        let mut at = 0;
        while at < count(&smallest) {
            let simpler = simpler_at(&smallest, at).into_iter().find(|candidate| {
                let is_tried = tries > 0;
                tries = tries.saturating_sub(1);
                is_tried && fails(candidate)
            });
            match simpler {
                Some(candidate) => smallest = candidate,
                None => at += 1,
            }
        }
        if tries == 0 || smallest == before {
            return smallest;
        }
    }
}

/// Returns copies in which the value at this position is simpler, the simplest first.
fn simpler_at(input: &Value, at: usize) -> Vec<Value> {
    let mut position = at;
    let mut copy = input.clone();
    let Some(node) = node_at(&mut copy, &mut position) else { return Vec::new() };
    let candidates = simpler_values(node);
    let put = |candidate: Value| {
        let (mut copy, mut position) = (input.clone(), at);
        *node_at(&mut copy, &mut position)? = candidate;
        Some(copy)
    };
    candidates.into_iter().filter_map(put).collect()
}

/// Returns simpler values to replace this one. Each is smaller or has a simpler type, so shrinking ends.
fn simpler_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Bool(_) => vec![Value::Null],
        Value::Number(number) if number.as_i64() == Some(0) => vec![Value::Null],
        Value::Number(_) => vec![Value::Null, json!(0)],
        Value::String(text) => shorter_texts(text),
        Value::Array(items) => {
            let halves = [&items[..items.len() / 2], &items[items.len() / 2..]];
            let halves = halves.into_iter().filter(|half| half.len() < items.len());
            let without = (0..items.len()).map(|at| {
                let kept = items.iter().enumerate().filter(|(index, _)| *index != at);
                kept.map(|(_, item)| item.clone()).collect::<Value>()
            });
            let halves = halves.map(|half| json!(half)).collect::<Vec<_>>();
            std::iter::once(Value::Null).chain(halves).chain(without).chain(items.iter().cloned()).collect()
        }
        Value::Object(fields) => {
            let without = fields.keys().map(|name| {
                let mut kept = fields.clone();
                kept.remove(name);
                Value::Object(kept)
            });
            std::iter::once(Value::Null).chain(without).chain(fields.values().cloned()).collect()
        }
    }
}

fn shorter_texts(text: &str) -> Vec<Value> {
    let letters: Vec<char> = text.chars().collect();
    let part = |from: usize, to: usize| Value::from(letters[from..to].iter().collect::<String>());
    let middle = letters.len() / 2;
    let mut texts = vec![Value::Null];
    if !letters.is_empty() {
        texts.extend([json!(""), part(0, middle), part(middle, letters.len())]);
        texts.extend([part(1, letters.len()), part(0, letters.len() - 1)]);
    }
    texts.retain(|shorter| shorter.as_str().is_none_or(|shorter| shorter.len() < text.len()));
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_left() {
        let input = json!({"a": {"b": [1, 2, {"c": "a long text with x in it"}], "d": 5}, "e": [true]});
        let found = shrink(&input, 10_000, |input| input.to_string().contains('x'));
        assert_eq!(found, json!("x"));
        let kept = shrink(&input, 10_000, |input| input["a"]["b"].as_array().is_some_and(|b| b.len() > 1));
        assert_eq!(kept, json!({"a": {"b": [null, null]}}));
        assert_eq!(shrink(&input, 0, |_| true), input);
    }
}
