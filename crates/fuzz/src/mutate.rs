//! Random changes of JSON that keep most of its structure: an almost valid input reaches deeper code than noise does.
//!
//! **Invariant:** the same entropy, input and words give the same result. The result never exceeds the limits of an
//! input.

use homeostat_core::Entropy;
use serde_json::{Map, Value, json};

/// The maximum size of an input, in bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 64 * 1024;
/// The maximum nesting depth of an input: the parser that reads saved inputs accepts at most 128 levels.
const DEPTH_MAX: usize = 100;
/// The maximum number of changes in one mutation.
const CHANGES_MAX: u64 = 4;

/// Texts that parsers treat specially, or are likely to get wrong.
const ODD_TEXTS: [&str; 24] = [
    "", "/", "~", "~1", "~01", "\\", "-", "..", ".", "%", "%2f", "\0", "\u{7f}", "é", "𝄞", "=", ",", "!",
    "(", ")", "$patch", "null", "-1", "0",
];
/// Numbers at the edges of types.
const EDGES: [i64; 12] =
    [0, 1, -1, 2, 127, 255, 65_536, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN, 1_000_000];

/// Changes inputs.
#[derive(Debug)]
pub(crate) struct Mutator<'a> {
    pub(crate) entropy: &'a Entropy,
    /// Words that inputs are made of.
    pub(crate) words: &'a [String],
}

impl Mutator<'_> {
    /// Returns a changed copy; parts of `other` may be put into it.
    pub(crate) fn mutate(&self, input: &Value, other: &Value) -> Value {
        let mut changed = input.clone();
        for _ in 0..=self.below(CHANGES_MAX) {
            let mut at = self.below_size(count(&changed));
            self.change(node_at(&mut changed, &mut at).expect("the number of nodes was counted"), other);
        }
        let is_acceptable = depth(&changed) <= DEPTH_MAX && changed.to_string().len() <= INPUT_BYTES_MAX;
        if is_acceptable { changed } else { input.clone() }
    }

    fn change(&self, node: &mut Value, other: &Value) {
        match self.below(12) {
            0 => *node = self.scalar(),
            1 | 2 => *node = self.part_of(other),
            3 => *node = json!({ self.word(): node.take() }),
            4 => *node = json!([node.take()]),
            _ => match node {
                Value::Object(fields) => self.change_object(fields, other),
                Value::Array(items) => self.change_array(items, other),
                Value::String(text) => *text = self.change_text(text),
                Value::Number(_) => *node = self.number(),
                Value::Bool(is) => *is = !*is,
                Value::Null => *node = self.scalar(),
            },
        }
    }

    fn change_object(&self, fields: &mut Map<String, Value>, other: &Value) {
        let chosen = fields.keys().nth(self.below_size(fields.len())).cloned();
        match (self.below(4), chosen) {
            (0, Some(name)) => drop(fields.remove(&name)),
            (1, Some(name)) => {
                let value = fields.remove(&name).unwrap_or_default();
                let name = if self.is_one_in(2) { self.word() } else { self.change_text(&name) };
                fields.insert(name, value);
            }
            (2, _) => drop(fields.insert(self.word(), self.scalar())),
            _ => drop(fields.insert(self.word(), self.part_of(other))),
        }
    }

    fn change_array(&self, items: &mut Vec<Value>, other: &Value) {
        let at = self.below_size(items.len());
        match self.below(6) {
            _ if items.is_empty() => items.push(self.part_of(other)),
            0 => drop(items.remove(at)),
            1 => items.insert(at, items[at].clone()),
            2 => {
                let to = self.below_size(items.len());
                items.swap(at, to);
            }
            3 => items.insert(at, self.part_of(other)),
            4 => items.insert(at, self.scalar()),
            _ => items.extend(vec![items[at].clone(); self.below_size(40)]),
        }
    }

    /// Returns a changed text.
    pub(crate) fn change_text(&self, text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        let (one, two) = (self.below_size(letters.len() + 1), self.below_size(letters.len() + 1));
        let (from, to) = (one.min(two), one.max(two));
        let part = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
        let (head, middle, tail) = (part(0, from), part(from, to), part(to, letters.len()));
        match self.below(7) {
            0 => self.word(),
            1 => format!("{head}{tail}"),
            2 => format!("{head}{middle}{middle}{tail}"),
            3 => format!("{head}{}{middle}{tail}", self.odd_text()),
            4 => format!("{head}{}{tail}", self.word()),
            5 => format!("{head}{}{middle}{tail}", self.letter()),
            _ => format!("{tail}{middle}{head}"),
        }
    }

    fn scalar(&self) -> Value {
        match self.below(8) {
            0 => Value::Null,
            1 => self.is_one_in(2).into(),
            2 => self.number(),
            3 => json!([]),
            4 => json!({}),
            5 => self.odd_text().into(),
            _ => self.word().into(),
        }
    }

    fn number(&self) -> Value {
        match self.below(6) {
            0 => json!(self.entropy.unit()),
            1 => json!(f64::from_bits(self.entropy.next_u64())),
            2 => json!(u64::MAX),
            3 => json!(self.below(100)),
            _ => json!(EDGES[self.below_size(EDGES.len())]),
        }
    }

    fn part_of(&self, other: &Value) -> Value {
        nth(other, &mut self.below_size(count(other))).cloned().unwrap_or_default()
    }

    fn word(&self) -> String {
        match self.words {
            [] => self.odd_text().to_owned(),
            _ if self.is_one_in(10) => self.odd_text().to_owned(),
            words => words[self.below_size(words.len())].clone(),
        }
    }

    fn odd_text(&self) -> &'static str {
        ODD_TEXTS[self.below_size(ODD_TEXTS.len())]
    }

    fn letter(&self) -> char {
        let code = if self.is_one_in(20) { self.below(0x1_0000) } else { self.below(128) };
        u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('?')
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.below(bound)
    }

    fn is_one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn below_size(&self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("below a size")
    }
}

/// Returns the number of values in a value, including itself.
pub(crate) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the value at this position of a walk through all of them.
pub(crate) fn node_at<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| node_at(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|field| node_at(field, at)),
        _ => None,
    }
}

fn nth<'a>(value: &'a Value, at: &mut usize) -> Option<&'a Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values().find_map(|field| nth(field, at)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_repeat_and_change_something() {
        let input = json!({"a": [1, "text", {"b": null}], "c": true});
        let words = ["spec".to_owned(), "metadata".to_owned()];
        let run = |seed| {
            let entropy = Entropy::seeded(seed);
            let mutator = Mutator { entropy: &entropy, words: &words };
            (0..200).map(|_| mutator.mutate(&input, &input)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert!(run(1).iter().filter(|changed| **changed != input).count() > 180);
    }
}
