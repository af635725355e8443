//! Estimates how much memory JSON takes once parsed: far more than its text if it consists of many small parts.
//!
//! `{"":0},` is seven bytes of text and about seven hundred bytes of memory, so limiting the text alone would be
//! ineffective. The figures are those of `serde_json`'s values on a 64-bit machine, without the overhead of allocators.
//!
//! **Invariant:** nothing that a request makes the server parse or add is larger in memory than `MEMORY_MAX`.

use std::cell::Cell;

use serde_json::Value;

/// The maximum memory of one body, of one stored object or of the defaults added to one. The largest object that can be
/// stored takes at most this much if it is a list of numbers; real objects take at most a third of it: a definition or
/// a list of endpoints takes about seven times its text.
pub(crate) const MEMORY_MAX: usize = 32 * 1024 * 1024;

/// The size of a value itself.
const VALUE_BYTES: usize = 32;
/// The overhead of the block that holds a string.
const TEXT_BYTES: usize = 16;
/// The size of a map node, which has room for eleven entries.
const NODE_BYTES: usize = 632;
/// The number of entries in a node of a map filled in order: full nodes are split in half.
const NODE_ENTRIES: usize = 6;

/// The memory budget is exceeded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemoryBudgetExceeded;

/// The memory that is left for values under construction.
#[derive(Debug)]
pub(crate) struct MemoryBudget(Cell<usize>);

impl MemoryBudget {
    /// Creates a budget of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes the memory of a list item, not counting the item's contents.
    pub(crate) fn item(&self) -> Result<(), MemoryBudgetExceeded> {
        self.take(VALUE_BYTES)
    }

    /// Takes the memory of an entry of a map that already has `count` entries, not counting the value's contents.
    pub(crate) fn entry(&self, key: &str, count: usize) -> Result<(), MemoryBudgetExceeded> {
        self.take(entry_bytes(key, count))
    }

    /// Takes the memory of a string's characters.
    pub(crate) fn text(&self, text: &str) -> Result<(), MemoryBudgetExceeded> {
        self.take(text_bytes(text))
    }

    /// Takes the memory of a value's contents.
    pub(crate) fn whole(&self, value: &Value) -> Result<(), MemoryBudgetExceeded> {
        self.take(memory_of(value))
    }

    /// Returns whether the budget was exceeded.
    pub(crate) fn is_used_up(&self) -> bool {
        self.0.get() == 0
    }

    /// Takes `bytes` from the budget.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), MemoryBudgetExceeded> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or_default());
        left.map(drop).ok_or(MemoryBudgetExceeded)
    }
}

fn text_bytes(text: &str) -> usize {
    if text.is_empty() { 0 } else { TEXT_BYTES + text.len() }
}

fn entry_bytes(key: &str, count: usize) -> usize {
    text_bytes(key) + if count.is_multiple_of(NODE_ENTRIES) { NODE_BYTES } else { 0 }
}

/// Returns the memory of a value's contents, not counting the value itself.
pub(crate) fn memory_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text_bytes(text),
        Value::Array(items) => items.iter().map(|item| VALUE_BYTES + memory_of(item)).sum(),
        Value::Object(fields) => {
            let numbered = fields.iter().enumerate();
            numbered.map(|(at, (name, value))| entry_bytes(name, at) + memory_of(value)).sum()
        }
    }
}

/// Estimates the memory that JSON text takes once parsed, without parsing it: usually at least what `memory_of` would
/// return. Text that is not JSON also gets an estimate.
pub fn memory_of_json(text: &[u8]) -> usize {
    let (mut maps, mut values, mut letters) = (0, 1, 0);
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'{' => maps += 1,
            b',' => values += 1,
            b'"' => {
                let length = string_length(rest);
                letters += TEXT_BYTES + length;
                rest = &rest[(length + 1).min(rest.len())..];
            }
            _ => {}
        }
    }
    // Each value may be an entry that starts no node, or an item.
    maps * NODE_BYTES + values * NODE_BYTES.div_ceil(NODE_ENTRIES).min(VALUE_BYTES * 4) / 2 + letters
}

/// Returns the number of bytes up to the closing quote.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at = (at + 2).min(text.len());
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_parts_take_most() {
        let numbers = json!(vec![1; 1000]);
        let maps = json!(vec![json!({"": 0}); 1000]);
        assert_eq!(memory_of(&numbers), 32_000);
        assert_eq!(memory_of(&maps), 664_000);
        let text = json!({"data": {"a": "x".repeat(1000)}});
        assert!((2000..2500).contains(&memory_of(&text)), "{}", memory_of(&text));
    }

    #[test]
    fn the_estimate_from_text_is_near() {
        let rows = [
            json!(vec![1; 5000]),
            json!(vec![json!({"": 0}); 5000]),
            json!(vec![json!({"name": "a", "value": "b"}); 5000]),
            json!({"data": {"a": "{[,".repeat(5000)}}),
            json!((0..5000).map(|at| (at.to_string(), json!(at))).collect::<serde_json::Map<_, _>>()),
            json!(vec![json!("\"\\"); 5000]),
        ];
        for value in rows {
            let text = value.to_string();
            let (exact, estimate) = (memory_of(&value), memory_of_json(text.as_bytes()));
            assert!(estimate >= exact / 2 && estimate <= exact * 2, "{estimate} for {exact}: {text:.60}");
        }
        for odd in ["", "\"", "\"\\", "{{{", "\"a\\\"b"] {
            memory_of_json(odd.as_bytes());
        }
    }

    #[test]
    fn room_is_used_up() {
        let room = MemoryBudget::new(100);
        assert_eq!(room.item(), Ok(()));
        assert_eq!(room.text("x".repeat(100).as_str()), Err(MemoryBudgetExceeded));
        assert_eq!(room.item(), Err(MemoryBudgetExceeded), "nothing fits once something did not");
    }
}
