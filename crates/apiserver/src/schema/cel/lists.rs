//! Lists whose schema says they are sets or maps: equal whatever their order, and added by merging.
//!
//! CEL has one type of list, and which one a value is cannot be seen in it. Here the lists of an object are known by
//! where they are stored, which all copies of a value share; they are kept alive, so that no other list can take
//! their place. What a rule makes of them by anything but `+` is a plain list, as in Kubernetes.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::Key;
use kube_cel::cel;

use super::eval::{Evaluation, Failure, Outcome};
use super::value::as_key;

/// What a list is beside a list.
#[derive(Clone, Debug)]
pub(super) enum Sort {
    /// Its items are different from each other.
    Set,
    /// Its items differ in these fields, by their names in rules.
    Map(Arc<[String]>),
}

/// The lists that are more than that.
#[derive(Debug, Default)]
pub(super) struct Lists(HashMap<usize, (Arc<Vec<Value>>, Sort)>);

impl Lists {
    /// Remembers what a list is.
    pub(super) fn insert(&mut self, list: &Arc<Vec<Value>>, sort: Sort) {
        self.0.insert(Arc::as_ptr(list).addr(), (Arc::clone(list), sort));
    }

    fn sort_of(&self, list: &Arc<Vec<Value>>) -> Option<Sort> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&Arc::as_ptr(list).addr()).map(|(_, sort)| sort.clone())
    }
}

/// By what an item is found: itself, or the values of its keys. `None`: only by looking at all.
fn identity(item: &Value, sort: &Sort) -> Option<Vec<Option<Key>>> {
    match (sort, item) {
        (Sort::Set, item) => as_key(item).map(|key| vec![Some(key)]),
        (Sort::Map(keys), Value::Map(fields)) => {
            let value = |name: &String| fields.map.get(&Key::String(Arc::new(name.clone()))).and_then(as_key);
            Some(keys.iter().map(value).collect())
        }
        (Sort::Map(_), _) => None,
    }
}

/// The places of the items of a list.
struct Places<'a> {
    items: &'a [Value],
    sort: &'a Sort,
    known: HashMap<Vec<Option<Key>>, usize>,
    is_whole: bool,
}

impl<'a> Places<'a> {
    fn of(items: &'a [Value], sort: &'a Sort) -> Self {
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

    /// Where the item is that this one stands for.
    fn find(&self, item: &Value, evaluation: &mut Evaluation<'_>) -> Result<Option<usize>, Failure> {
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
    /// Whether two lists are equal: in their order, unless the left one has none.
    pub(super) fn equal_lists(
        &mut self,
        left: &Arc<Vec<Value>>,
        right: &Arc<Vec<Value>>,
    ) -> Result<bool, Failure> {
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
        let places = Places::of(left, &sort);
        for item in right.iter() {
            let Some(at) = places.find(item, self)? else { return Ok(false) };
            if !self.equal(&left[at], item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `+`: the items of both, or what the right one changes in and adds to the left one. `None`: no lists.
    pub(super) fn add_lists(&mut self, left: &Value, right: &Value) -> Option<Outcome> {
        let (Value::List(left), Value::List(right)) = (left, right) else { return None };
        let sort = self.lists.sort_of(left)?;
        Some(self.merge(left, right, sort))
    }

    fn merge(&mut self, left: &[Value], right: &[Value], sort: Sort) -> Outcome {
        self.labour((left.len() + right.len()) as u64)?;
        let mut merged = left.to_vec();
        let places = Places::of(left, &sort);
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
