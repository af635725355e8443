//! Handles lists in a strategic merge patch: they are merged by key, united as sets of scalars, or replaced.
//!
//! **Invariant:** a merged list keeps the order of the patch among the elements the patch names, the old order among
//! the others, and interleaves the two according to the old order; new elements come first.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::order::{ElementPositions, key_text, weave};
use super::{DIRECTIVE, FieldStrategy, merge_map, missing_key, unknown_directive};
use crate::patch::go_format::{self, GoPrinted};
use crate::patch::work_budget::WorkBudget;
use crate::status::Status;

pub(super) fn merge_or_replace(
    target: &mut Vec<Value>,
    patch: &[Value],
    place: &FieldStrategy<'_>,
    work: &WorkBudget,
) -> Result<(), Status> {
    if place.merge.patch.merge {
        return merge(target, patch, place, work);
    }
    *target = patch.to_vec();
    Ok(())
}

pub(super) fn delete(
    target: &mut Vec<Value>,
    items: &[Value],
    place: &FieldStrategy<'_>,
    work: &WorkBudget,
) -> Result<(), Status> {
    if target.is_empty() && items.is_empty() {
        return Ok(());
    }
    if are_maps(target, items)? {
        return merge_maps(target, items, place, work);
    }
    work.spend(target.len() + items.len())?;
    let unwanted = items.iter().map(ToString::to_string).collect::<HashSet<_>>();
    target.retain(|item| !unwanted.contains(&item.to_string()));
    Ok(())
}

fn merge(
    target: &mut Vec<Value>,
    patch: &[Value],
    place: &FieldStrategy<'_>,
    work: &WorkBudget,
) -> Result<(), Status> {
    if target.is_empty() && patch.is_empty() {
        return Ok(());
    }
    if are_maps(target, patch)? {
        return merge_maps(target, patch, place, work);
    }
    work.spend(2 * (target.len() + patch.len()))?;
    let before = ElementPositions::of(&*target, None)?;
    let wanted = ElementPositions::of(patch, None)?;
    let mut seen = HashSet::new();
    target.extend(patch.iter().cloned());
    target.retain(|item| seen.insert(item.to_string()));
    weave(target, &wanted, &before)
}

fn merge_maps(
    target: &mut Vec<Value>,
    patch: &[Value],
    place: &FieldStrategy<'_>,
    work: &WorkBudget,
) -> Result<(), Status> {
    work.spend(2 * (target.len() + patch.len()))?;
    let Some(key) = place.key() else {
        return Err(Status::unclassified("cannot merge lists without merge key for struct"));
    };
    let (elements, must_replace) = follow_directives(target, patch, key)?;
    if must_replace {
        *target = elements.into_iter().cloned().collect();
        return Ok(());
    }
    let before = ElementPositions::of(&*target, Some(key))?;
    let wanted = ElementPositions::of(elements.iter().copied(), Some(key))?;
    let mut added = HashMap::new();
    for element in elements {
        let text = key_text(element, Some(key))?;
        let found = before.position(element).or_else(|| added.get(&text).copied());
        let found = found.and_then(|at| target.get_mut(at));
        if let (Some(Value::Object(present)), Value::Object(change)) = (found, element) {
            merge_map(present, change, place.items(), work)?;
        } else {
            added.insert(text, target.len());
            target.push(element.clone());
        }
    }
    weave(target, &wanted, &before)
}

/// Deletes the elements that `$patch: delete` names. Returns the plain elements, and whether they replace the list.
fn follow_directives<'a>(
    target: &mut Vec<Value>,
    patch: &'a [Value],
    key: &str,
) -> Result<(Vec<&'a Value>, bool), Status> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut unwanted = HashSet::new();
    let mut must_replace = false;
    for element in patch {
        let Some(directive) = element.get(DIRECTIVE) else {
            plain.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                unwanted.insert(element.get(key).ok_or_else(|| missing_key(element, key))?.to_string());
            }
            Some("replace") => must_replace = true,
            Some("merge") => {
                return Err(Status::unclassified("merging lists cannot yet be specified in the patch"));
            }
            _ => {
                return Err(unknown_directive(
                    directive,
                    element.as_object().unwrap_or(&super::PatchFields::new()),
                ));
            }
        }
    }
    if !unwanted.is_empty() {
        target.retain(|one| one.get(key).is_none_or(|value| !unwanted.contains(&value.to_string())));
    }
    Ok((plain, must_replace))
}

/// Returns whether the elements are maps. All must have the same type, and lists of lists do not merge.
pub(super) fn are_maps(target: &[Value], patch: &[Value]) -> Result<bool, Status> {
    let mut elements = target.iter().chain(patch);
    let Some(first) = elements.next() else {
        return Err(Status::unclassified("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(Status::unprocessable());
    }
    if elements.any(|one| go_format::type_of(one) != go_format::type_of(first)) {
        let lists = Value::from(vec![Value::from(target), Value::from(patch)]);
        return Err(Status::unclassified(format!(
            "list element types are not identical: {}",
            GoPrinted(&lists)
        )));
    }
    Ok(first.is_object())
}

/// Returns whether two elements are the same, by key or as a whole.
pub(super) fn is_same(left: &Value, right: &Value, key: Option<&str>) -> Result<bool, Status> {
    Ok(key_text(left, key)? == key_text(right, key)?)
}
