//! Determines the order of merged lists, and implements `$setElementOrder`, which sets it.
//!
//! **Invariant:** elements named by the wanted order follow it; the others keep their old order and go before the first
//! named element that used to follow them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    DIRECTIVE, FieldStrategy, PatchFields, SET_ORDER, directed_list, list, missing_key, without_directives,
    wrong_type,
};
use crate::patch::go_format::GoPrinted;
use crate::patch::work_budget::WorkBudget;
use crate::schema::Schema;
use crate::status::Status;

/// Positions of elements, found by key or, for scalars, by value.
pub(super) struct ElementPositions<'a> {
    key: Option<&'a str>,
    positions: HashMap<String, usize>,
}

impl<'a> ElementPositions<'a> {
    pub(super) fn of<'v>(
        elements: impl IntoIterator<Item = &'v Value>,
        key: Option<&'a str>,
    ) -> Result<Self, Status> {
        let mut positions = HashMap::new();
        for (at, element) in elements.into_iter().enumerate() {
            positions.entry(key_text(element, key)?).or_insert(at);
        }
        Ok(Self { key, positions })
    }

    pub(super) fn position(&self, element: &Value) -> Option<usize> {
        self.positions.get(&key_text(element, self.key).ok()?).copied()
    }
}

/// Returns the text that identifies an element.
pub(super) fn key_text(element: &Value, key: Option<&str>) -> Result<String, Status> {
    match (key, element) {
        (None, scalar) => Ok(scalar.to_string()),
        (Some(key), Value::Object(fields)) => {
            fields.get(key).map(ToString::to_string).ok_or_else(|| missing_key(element, key))
        }
        (Some(_), other) => Err(wrong_type(&Value::Object(PatchFields::new()), other)),
    }
}

/// Puts the elements of `target` into the `wanted` order, and interleaves the others according to the order `before`.
pub(super) fn weave(
    target: &mut Vec<Value>,
    wanted: &ElementPositions<'_>,
    before: &ElementPositions<'_>,
) -> Result<(), Status> {
    for element in &*target {
        key_text(element, wanted.key)?;
    }
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for element in std::mem::take(target) {
        let old = before.position(&element);
        match wanted.position(&element) {
            Some(at) => named.push((at, old, element)),
            None => others.push((old, element)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    others.sort_by_key(|(old, _)| old.unwrap_or(usize::MAX));
    let mut others = others.into_iter().peekable();
    for (_, named_old, element) in named {
        let stands_before =
            |old: Option<usize>| old.zip(named_old).is_some_and(|(other, named)| other < named);
        while let Some((_, other)) = others.next_if(|(old, _)| stands_before(*old)) {
            target.push(other);
        }
        target.push(element);
    }
    target.extend(others.map(|(_, other)| other));
    Ok(())
}

/// Merges the lists for which the patch sets an order, and returns their names.
pub(super) fn merge_ordered_lists<'p>(
    target: &mut PatchFields,
    patch: &'p PatchFields,
    schema: Option<&Schema>,
    work: &WorkBudget,
) -> Result<HashSet<&'p str>, Status> {
    let mut merged = HashSet::new();
    for (directive, order) in patch {
        let Some(name) = directed_list(directive, SET_ORDER) else { continue };
        let order = as_list(order)?;
        let name = name?;
        let place = FieldStrategy::of(schema, name);
        let ordered = ReorderedList { name, change: patch.get(name), order };
        if merge_ordered(target, &ordered, &place, work)? {
            merged.insert(name);
        }
    }
    Ok(merged)
}

/// A list with the order that the patch sets for it.
struct ReorderedList<'p> {
    name: &'p str,
    /// The patch of the list itself.
    change: Option<&'p Value>,
    order: &'p [Value],
}

fn merge_ordered(
    target: &mut PatchFields,
    ordered: &ReorderedList<'_>,
    place: &FieldStrategy<'_>,
    work: &WorkBudget,
) -> Result<bool, Status> {
    let ReorderedList { name, change: patch, order } = *ordered;
    let change = patch.map(as_list).transpose()?;
    let original = target.get(name).map(as_list).transpose()?;
    let counts = [change, original, Some(order)].map(|list| list.unwrap_or_default().len());
    work.spend(2 * counts.iter().sum::<usize>())?;
    check_agreement(change.unwrap_or_default(), order, place.key())?;
    if original.is_none() && change.is_none() {
        return Ok(false);
    }
    list::are_maps(original.unwrap_or_default(), change.unwrap_or_default())?;
    let before = ElementPositions::of(original.unwrap_or_default(), place.key())?;
    let wanted = ElementPositions::of(order, place.key())?;
    match (target.get_mut(name), patch) {
        (Some(Value::Array(present)), change) => {
            if let Some(Value::Array(change)) = change {
                list::merge_or_replace(present, change, place, work)?;
            }
            weave(present, &wanted, &before)?;
        }
        (_, Some(added)) => {
            let mut added = without_directives(added).unwrap_or_default();
            if let Value::Array(items) = &mut added {
                weave(items, &wanted, &before)?;
            }
            target.insert(name.to_owned(), added);
        }
        (_, None) => {}
    }
    Ok(true)
}

/// Requires the elements of the patch to occur in the order list, and in that order.
fn check_agreement(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in patch.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        loop {
            let Some(next) = rest.next() else { return Err(disagreement(patch, order)) };
            if list::is_same(element, next, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn disagreement(patch: &[Value], order: &[Value]) -> Status {
    let (patch, order) = (Value::from(patch), Value::from(order));
    Status::unclassified(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        GoPrinted(&patch),
        GoPrinted(&order)
    ))
}

fn as_list(value: &Value) -> Result<&[Value], Status> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type(&Value::Array(Vec::new()), other)),
    }
}
