//! Implements sets of field paths, in the form of `FieldsV1`: nested objects whose keys are the steps of a path.
//!
//! A node `{}` is a member without children; `"."` inside a node means that the node itself is also a member.
//! **Invariant:** a node that is neither a member nor has children does not exist, so `{}` always means membership.
//! Because a stored set is used as it is, an update edits it in place and nothing is decoded or encoded.

use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::path_step;

/// The children of a node; at the top, the set.
pub(super) type FieldSet = Map<String, Value>;

/// Marks a node with children as a member.
const SELF: &str = ".";

/// Returns a node with these children, if it holds anything.
pub(super) fn node(mut children: FieldSet, is_member: bool) -> Option<Value> {
    if children.is_empty() {
        return is_member.then(leaf);
    }
    if is_member {
        children.insert(SELF.to_owned(), leaf());
    }
    Some(Value::Object(children))
}

/// Returns a member without children.
pub(super) fn leaf() -> Value {
    Value::Object(FieldSet::new())
}

/// Returns whether the path of this node itself is in the set.
pub(super) fn is_member(node: &Value) -> bool {
    node.as_object().is_none_or(|children| children.is_empty() || children.contains_key(SELF))
}

fn children(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.as_object().into_iter().flatten().filter(|(step, _)| *step != SELF)
}

/// Splits a node into its children and its membership.
fn parts(node: Value) -> (FieldSet, bool) {
    let is_member = is_member(&node);
    let Value::Object(mut children) = node else { return (FieldSet::new(), is_member) };
    children.remove(SELF);
    (children, is_member)
}

/// Replaces every node with the result of `change` on its children and membership.
fn rebuild(set: &mut FieldSet, mut change: impl FnMut(&str, &mut FieldSet, bool) -> bool) {
    set.retain(|step, slot| {
        let (mut children, is_member) = parts(slot.take());
        let is_member = change(step, &mut children, is_member);
        let rebuilt = node(children, is_member);
        let stays = rebuilt.is_some();
        *slot = rebuilt.unwrap_or_default();
        stays
    });
}

/// Adds all paths of `other`.
pub(super) fn add(set: &mut FieldSet, other: &FieldSet) {
    for (step, theirs) in other.iter().filter(|(step, _)| *step != SELF) {
        let Some(slot) = set.get_mut(step) else {
            set.insert(step.clone(), theirs.clone());
            continue;
        };
        let (mut ours, was_member) = parts(slot.take());
        if let Value::Object(theirs) = theirs {
            add(&mut ours, theirs);
        }
        *slot = node(ours, was_member || is_member(theirs)).expect("a union of two nodes is a node");
    }
}

/// Removes exactly the paths of `other`: children of a removed path stay.
pub(super) fn subtract(set: &mut FieldSet, other: &FieldSet) {
    if other.is_empty() {
        return;
    }
    rebuild(set, |step, children, member| match other.get(step) {
        None => member,
        Some(theirs) => {
            if let Value::Object(theirs) = theirs {
                subtract(children, theirs);
            }
            member && !is_member(theirs)
        }
    });
}

/// Returns the paths that are in both.
pub(super) fn intersection(left: &FieldSet, right: &FieldSet) -> FieldSet {
    let shared = left.iter().filter(|(step, _)| *step != SELF).filter_map(|(step, ours)| {
        let theirs = right.get(step)?;
        let both = match (ours, theirs) {
            (Value::Object(ours), Value::Object(theirs)) => intersection(ours, theirs),
            _ => FieldSet::new(),
        };
        Some((step.clone(), node(both, is_member(ours) && is_member(theirs))?))
    });
    shared.collect()
}

/// Returns whether every path of `part` is in `whole`.
pub(super) fn contains_all(whole: &FieldSet, part: &FieldSet) -> bool {
    part.iter().filter(|(step, _)| *step != SELF).all(|(step, ours)| {
        whole.get(step).is_some_and(|theirs| {
            let below = match (theirs, ours) {
                (Value::Object(theirs), Value::Object(ours)) => contains_all(theirs, ours),
                _ => true,
            };
            below && (!is_member(ours) || is_member(theirs))
        })
    })
}

/// Removes everything at or below these dotted paths.
pub(super) fn remove_below(set: &mut FieldSet, paths: &[&str]) {
    for path in paths {
        match path.split_once('.') {
            None => drop(set.remove(&path_step::field(path))),
            Some((first, rest)) => {
                let step = path_step::field(first);
                let Some((mut below, is_member)) = set.remove(&step).map(parts) else { continue };
                remove_below(&mut below, &[rest]);
                if let Some(node) = node(below, is_member) {
                    set.insert(step, node);
                }
            }
        }
    }
}

/// Returns the number of paths.
pub(super) fn count(set: &FieldSet) -> usize {
    let nodes = set.iter().filter(|(step, _)| *step != SELF);
    nodes.map(|(_, node)| usize::from(is_member(node)) + node.as_object().map_or(0, count)).sum()
}

/// Visits all paths, as steps, in the order in which Kubernetes lists them: the members of a level, then the levels
/// below.
pub(super) fn visit_paths<'s>(
    set: &'s FieldSet,
    visit: &mut impl FnMut(&[&'s str]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_below(set, &mut Vec::new(), visit)
}

fn visit_below<'s>(
    set: &'s FieldSet,
    above: &mut Vec<&'s str>,
    visit: &mut impl FnMut(&[&'s str]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let steps = set.iter().filter(|(step, _)| *step != SELF);
    let mut nodes =
        steps.map(|(step, node)| (path_step::StepRank::of(step), &**step, node)).collect::<Vec<_>>();
    nodes.sort_by(|(left, ..), (right, ..)| left.cmp(right));
    for (_, step, _) in nodes.iter().filter(|(.., node)| is_member(node)) {
        above.push(step);
        let outcome = visit(above);
        above.pop();
        outcome?;
    }
    for (_, step, node) in nodes {
        if let Value::Object(below) = node {
            above.push(step);
            let outcome = visit_below(below, above, visit);
            above.pop();
            outcome?;
        }
    }
    ControlFlow::Continue(())
}

/// Converts a set from a client to the canonical spelling; fails if a step cannot be parsed.
pub(super) fn parse(given: &Value) -> Result<FieldSet, String> {
    let mut set = FieldSet::new();
    for (step, below) in children(given) {
        if !below.is_object() {
            return Err(format!("{step} is not an object"));
        }
        let Some(step) = path_step::canonical(step)? else { continue };
        let grandchildren = parse(below)?;
        let is_member = is_member(below) || grandchildren.is_empty();
        if let Some(node) = node(grandchildren, is_member) {
            set.insert(step, node);
        }
    }
    Ok(set)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use homeostat_core::Entropy;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        parse(&value).expect("a set")
    }

    fn paths(set: &FieldSet) -> Vec<String> {
        let mut found = Vec::new();
        let _ = visit_paths(set, &mut |path| {
            found.push(path.concat());
            ControlFlow::Continue(())
        });
        found
    }

    /// Returns two sets over the same few paths.
    fn pair() -> (FieldSet, FieldSet) {
        let left = json!({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {"f:x": {}}});
        let right = json!({"f:b": {"f:x": {}}, "f:c": {}, "f:d": {}});
        (set(left), set(right))
    }

    #[test]
    fn sets_unite() {
        let (mut left, right) = pair();
        add(&mut left, &right);
        let expected = json!({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {".": {}, "f:x": {}}, "f:d": {}});
        assert_eq!(Value::Object(left), expected);
    }

    #[test]
    fn sets_subtract_path_by_path() {
        let (mut left, right) = pair();
        subtract(&mut left, &right);
        assert_eq!(Value::Object(left), json!({"f:a": {}, "f:b": {".": {}, "f:y": {}}, "f:c": {"f:x": {}}}));
        let mut last_child = set(json!({"f:b": {".": {}, "f:x": {}}, "f:e": {"f:x": {}}}));
        subtract(&mut last_child, &set(json!({"f:b": {"f:x": {}}, "f:e": {"f:x": {}}})));
        assert_eq!(Value::Object(last_child), json!({"f:b": {}}));
    }

    #[test]
    fn sets_intersect() {
        let (left, right) = pair();
        assert_eq!(Value::Object(intersection(&left, &right)), json!({"f:b": {"f:x": {}}}));
        assert!(contains_all(&left, &intersection(&left, &right)));
        assert!(!contains_all(&left, &right));
        assert!(contains_all(&left, &FieldSet::new()));
    }

    #[test]
    fn subtrees_are_removed_by_dotted_path() {
        let start = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:status": {"f:x": {}}, "f:spec": {".": {}, "f:y": {}}});
        let check = |paths: &[&str], expected: Value| {
            let mut set = set(start.clone());
            remove_below(&mut set, paths);
            assert_eq!(Value::Object(set), expected, "{paths:?}");
        };
        check(&["status", "metadata.labels"], json!({"f:spec": {".": {}, "f:y": {}}}));
        check(&["spec.y", "metadata", "status.absent"], json!({"f:spec": {}, "f:status": {"f:x": {}}}));
    }

    #[test]
    fn paths_are_found_and_listed() {
        let set = set(
            json!({"f:b": {".": {}, "f:x": {}}, "f:a": {"k:{\"n\":1}": {".": {}, "f:z": {}}}, "f:c": {}}),
        );
        let listed = paths(&set);
        assert_eq!(listed, ["f:b", "f:c", "f:ak:{\"n\":1}", "f:ak:{\"n\":1}f:z", "f:bf:x"]);
        assert_eq!(count(&set), listed.len());
    }

    #[test]
    fn foreign_sets_are_read() {
        let odd = json!({".": {}, "k:{\"b\": 1}": {}, "x:future": {}, "f:a": {"x:future": {}}});
        assert_eq!(Value::Object(set(odd)), json!({"k:{\"b\":1}": {}, "f:a": {}}));
        assert!(parse(&json!({"data": {}})).is_err());
        assert!(parse(&json!({"f:a": 1})).is_err());
    }

    fn random(entropy: &Entropy, depth: u64) -> FieldSet {
        let nodes = (0..entropy.below(4)).filter_map(|_| {
            let step = format!("f:{}", entropy.below(4));
            let below = if depth == 0 { FieldSet::new() } else { random(entropy, depth - 1) };
            Some((step, node(below, entropy.below(2) == 0)?))
        });
        nodes.collect()
    }

    #[test]
    fn the_laws_of_sets_hold() {
        let entropy = Entropy::seeded(7);
        for _ in 0..2_000 {
            let (left, right) = (random(&entropy, 2), random(&entropy, 2));
            assert_eq!(parse(&Value::Object(left.clone())).as_ref(), Ok(&left), "parsing what was printed");
            let (mut union, mut rest) = (left.clone(), left.clone());
            add(&mut union, &right);
            subtract(&mut rest, &right);
            let shared = intersection(&left, &right);
            assert!(contains_all(&union, &left) && contains_all(&union, &right));
            assert_eq!(paths(&left).len(), paths(&rest).len() + paths(&shared).len());
            add(&mut rest, &shared);
            assert_eq!(rest, left, "difference and intersection make the whole");
        }
    }
}
