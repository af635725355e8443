//! Handles lists whose schema declares them as sets or maps: they are equal in any order, and `+` merges them.
//!
//! CEL has one list type, and a value does not show which kind of list it is. Here the lists of an object are
//! identified by their address, which all copies of a value share; they are kept alive, so that no other list can get
//! their address. As in Kubernetes, any operation except `+` turns them into plain lists.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::Key;
use kube_cel::cel;

use super::eval::{Evaluation, EvaluationFailure, Outcome};
use super::value::as_key;

/// How a list differs from a plain list.
#[derive(Clone, Debug)]
pub(super) enum ListSemantics {
    /// Its items are unique.
    Set,
    /// Its items differ in these fields, which are named as in rules.
    Map(Arc<[String]>),
}

/// The lists that are sets or maps.
#[derive(Debug, Default)]
pub(super) struct TypedLists(HashMap<usize, (Arc<Vec<Value>>, ListSemantics)>);

impl TypedLists {
    /// Records that a list is a set or map.
    pub(super) fn insert(&mut self, list: &Arc<Vec<Value>>, sort: ListSemantics) {
        self.0.insert(Arc::as_ptr(list).addr(), (Arc::clone(list), sort));
    }

    fn sort_of(&self, list: &Arc<Vec<Value>>) -> Option<ListSemantics> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&Arc::as_ptr(list).addr()).map(|(_, sort)| sort.clone())
    }
}

/// Returns the value that identifies an item: the item itself, or the values of its keys. `None` if only comparing all
/// items can find it.
fn identity(item: &Value, sort: &ListSemantics) -> Option<Vec<Option<Key>>> {
    match (sort, item) {
        (ListSemantics::Set, item) => as_key(item).map(|key| vec![Some(key)]),
        (ListSemantics::Map(keys), Value::Map(fields)) => {
            let value = |name: &String| fields.map.get(&Key::String(Arc::new(name.clone()))).and_then(as_key);
            Some(keys.iter().map(value).collect())
        }
        (ListSemantics::Map(_), _) => None,
    }
}

/// The positions of the items of a list.
struct ItemIndex<'a> {
    items: &'a [Value],
    sort: &'a ListSemantics,
    known: HashMap<Vec<Option<Key>>, usize>,
    is_whole: bool,
}

impl<'a> ItemIndex<'a> {
    fn of(items: &'a [Value], sort: &'a ListSemantics) -> Self {
        let mut known = HashMap::with_capacity(items.len());
        let mut is_whole = true;
        for (at, item) in items.iter().enumerate() {
            match identity(item, sort) {
                Some(identity) => {
                    known.insert(identity, at);
                }
                None => is_whole = false,
            }
        }
        Self { items, sort, known, is_whole }
    }

    /// Returns the position of the item that this item corresponds to.
    fn find(
        &self,
        item: &Value,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<Option<usize>, EvaluationFailure> {
        if let Some(at) = identity(item, self.sort).and_then(|identity| self.known.get(&identity)) {
            return Ok(Some(*at));
        }
        if self.is_whole {
            return Ok(None);
        }
        for (at, one) in self.items.iter().enumerate() {
            if evaluation.equal(one, item)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

impl Evaluation<'_> {
    /// Returns whether two lists are equal: in order, unless the left one is unordered.
    pub(super) fn equal_lists(
        &mut self,
        left: &Arc<Vec<Value>>,
        right: &Arc<Vec<Value>>,
    ) -> Result<bool, EvaluationFailure> {
        if left.len() != right.len() {
            return Ok(false);
        }
        let Some(sort) = self.lists.sort_of(left) else {
            for (left, right) in left.iter().zip(right.iter()) {
                if !self.equal(left, right)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        self.labour(left.len() as u64)?;
        let places = ItemIndex::of(left, &sort);
        for item in right.iter() {
            let Some(at) = places.find(item, self)? else { return Ok(false) };
            if !self.equal(&left[at], item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates `+`: concatenates the lists, or merges the right one into the left one. `None` if they are not lists.
    pub(super) fn add_lists(&mut self, left: &Value, right: &Value) -> Option<Outcome> {
        let (Value::List(left), Value::List(right)) = (left, right) else { return None };
        let sort = self.lists.sort_of(left)?;
        Some(self.merge(left, right, sort))
    }

    fn merge(&mut self, left: &[Value], right: &[Value], sort: ListSemantics) -> Outcome {
        self.labour((left.len() + right.len()) as u64)?;
        let mut merged = left.to_vec();
        let places = ItemIndex::of(left, &sort);
        for item in right {
            match places.find(item, self)? {
                Some(at) => merged[at] = item.clone(),
                None => merged.push(item.clone()),
            }
        }
        let merged = Arc::new(merged);
        self.lists.insert(&merged, sort);
        Ok(Value::List(merged))
    }
}
