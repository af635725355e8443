//! Evaluates the paths of printer columns within a budget.
//!
//! **Invariant:** nothing is collected, and evaluation stops at the first result; all columns of a row together take at
//! most [`ROW_STEPS_MAX`] steps, for any paths and any object. Evaluation never fails: an error in kubectl's evaluator
//! is simply an absent result here, which prints the same.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::jsonpath::{FilterComparison, FilterOperand, JsonPath, PathStep};

/// The maximum number of steps for all columns of one row: they take a few milliseconds without yielding. This suffices
/// for a filter over ten thousand items; each `..` in a path can multiply the steps by the size of the object, and
/// definitions have room for thousands of columns.
pub(super) const ROW_STEPS_MAX: usize = 50_000;
/// The number of bytes that are compared or copied in about the time that one step takes.
const BYTES_PER_STEP: usize = 16;

/// The steps left for one row.
#[derive(Debug)]
pub(super) struct RowBudget {
    left: usize,
}

/// The row has used up its steps.
#[derive(Debug, PartialEq)]
pub(super) struct RowBudgetExhausted;

/// The reason a walk stopped early.
#[derive(Clone, Copy)]
enum WalkEnd {
    /// The caller has the result it wanted.
    Enough,
    Exhausted,
}

/// A function that is called with each value a path leads to.
type VisitValue<'v, 'a> = &'v mut dyn FnMut(&'a Value) -> ControlFlow<WalkEnd>;

impl RowBudget {
    /// Returns the whole budget of a row.
    pub(super) fn of_row() -> Self {
        Self { left: ROW_STEPS_MAX }
    }

    /// Returns how many steps were taken.
    pub(super) fn spent(&self) -> usize {
        ROW_STEPS_MAX - self.left
    }

    /// Takes the steps for comparing or copying `bytes`.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), RowBudgetExhausted> {
        self.take(1 + bytes / BYTES_PER_STEP)
    }

    /// Returns how many bytes may still be copied.
    pub(super) fn bytes_left(&self) -> usize {
        self.left.saturating_mul(BYTES_PER_STEP)
    }

    fn take(&mut self, steps: usize) -> Result<(), RowBudgetExhausted> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or_default();
        left.map(drop).ok_or(RowBudgetExhausted)
    }

    fn step(&mut self, bytes: usize) -> ControlFlow<WalkEnd> {
        self.take_bytes(bytes).map_or(ControlFlow::Break(WalkEnd::Exhausted), ControlFlow::Continue)
    }
}

impl JsonPath {
    /// Returns the first value the path leads to.
    pub(super) fn first<'a>(
        &self,
        value: &'a Value,
        budget: &mut RowBudget,
    ) -> Result<Option<&'a Value>, RowBudgetExhausted> {
        let mut first = None;
        let walked = walk(&self.0, value, budget, &mut |value| {
            first = Some(value);
            ControlFlow::Break(WalkEnd::Enough)
        });
        finished(walked).map(|()| first)
    }

    /// Returns the value the path leads to, if there is exactly one.
    fn only<'a>(
        &self,
        value: &'a Value,
        budget: &mut RowBudget,
    ) -> Result<Option<&'a Value>, RowBudgetExhausted> {
        let (mut found, mut count) = (None, 0_u8);
        let walked = walk(&self.0, value, budget, &mut |value| {
            found = Some(value);
            count += 1;
            if count > 1 { ControlFlow::Break(WalkEnd::Enough) } else { ControlFlow::Continue(()) }
        });
        finished(walked).map(|()| found.filter(|_| count == 1))
    }
}

fn finished(walked: ControlFlow<WalkEnd>) -> Result<(), RowBudgetExhausted> {
    if matches!(walked, ControlFlow::Break(WalkEnd::Exhausted)) { Err(RowBudgetExhausted) } else { Ok(()) }
}

/// Visits the values that the steps lead to, in the order of the object. The recursion is as deep as the object's
/// nesting, which is limited.
fn walk<'a>(
    steps: &[PathStep],
    value: &'a Value,
    budget: &mut RowBudget,
    visit: VisitValue<'_, 'a>,
) -> ControlFlow<WalkEnd> {
    let Some((step, rest)) = steps.split_first() else { return visit(value) };
    match step {
        PathStep::Field(name) => {
            budget.step(name.len())?;
            value.get(&**name).map_or(ControlFlow::Continue(()), |below| walk(rest, below, budget, visit))
        }
        PathStep::Index(index) => {
            budget.step(0)?;
            let below = value.as_array().and_then(|list| nth(list, *index));
            below.map_or(ControlFlow::Continue(()), |below| walk(rest, below, budget, visit))
        }
        PathStep::Slice { start, end, step } => {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let items = slice(list, *start, *end).iter().step_by(*step);
            walk_each(rest, items, budget, visit)
        }
        PathStep::Wildcard => walk_each(rest, children(value), budget, visit),
        PathStep::Recursive => descend(rest, value, budget, visit),
        PathStep::Filter { left, test } => {
            for item in value.as_array().into_iter().flatten() {
                budget.step(0)?;
                match passes(item, left, test.as_ref(), budget) {
                    Ok(true) => walk(rest, item, budget, visit)?,
                    Ok(false) => {}
                    Err(RowBudgetExhausted) => return ControlFlow::Break(WalkEnd::Exhausted),
                }
            }
            ControlFlow::Continue(())
        }
    }
}

fn walk_each<'a>(
    steps: &[PathStep],
    values: impl Iterator<Item = &'a Value>,
    budget: &mut RowBudget,
    visit: VisitValue<'_, 'a>,
) -> ControlFlow<WalkEnd> {
    for value in values {
        budget.step(0)?;
        walk(steps, value, budget, visit)?;
    }
    ControlFlow::Continue(())
}

/// Continues from the value and from every container below it.
fn descend<'a>(
    steps: &[PathStep],
    value: &'a Value,
    budget: &mut RowBudget,
    visit: VisitValue<'_, 'a>,
) -> ControlFlow<WalkEnd> {
    budget.step(0)?;
    if children(value).next().is_none() {
        return ControlFlow::Continue(());
    }
    walk(steps, value, budget, visit)?;
    for below in children(value) {
        descend(steps, below, budget, visit)?;
    }
    ControlFlow::Continue(())
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(Map::values))
}

/// Converts an index to a position; negative indexes count from the end.
fn from_end(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn nth(list: &[Value], index: i64) -> Option<&Value> {
    list.get(from_end(index, list.len())?)
}

fn slice(list: &[Value], start: Option<i64>, end: Option<i64>) -> &[Value] {
    let start = from_end(start.unwrap_or(0), list.len());
    let end = end.map_or(Some(list.len()), |end| from_end(end, list.len()));
    start.zip(end).and_then(|(start, end)| list.get(start..end)).unwrap_or_default()
}

fn passes(
    item: &Value,
    left: &JsonPath,
    test: Option<&(FilterComparison, FilterOperand)>,
    budget: &mut RowBudget,
) -> Result<bool, RowBudgetExhausted> {
    let Some((comparison, operand)) = test else {
        return left.first(item, budget).map(|left| left.is_some());
    };
    let Some(left) = left.only(item, budget)? else { return Ok(false) };
    let right = match operand {
        FilterOperand::Literal(value) => Some(value),
        FilterOperand::Path(path) => path.first(item, budget)?,
    };
    let Some(right) = right else { return Ok(false) };
    budget.take_bytes(text_bytes(left).min(text_bytes(right)))?;
    let order = compare(left, right);
    Ok(match comparison {
        FilterComparison::Equal => order == Some(Ordering::Equal),
        FilterComparison::NotEqual => order.is_some_and(Ordering::is_ne),
        FilterComparison::Less => order.is_some_and(Ordering::is_lt),
        FilterComparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        FilterComparison::Greater => order.is_some_and(Ordering::is_gt),
        FilterComparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    })
}

fn text_bytes(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

/// Compares two values; values of different types are not comparable.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns all values a path leads to.
    fn find(path: &str, object: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        let path = JsonPath::parse(path).expect("parses");
        let walked = walk(&path.0, object, &mut RowBudget::of_row(), &mut |value| {
            found.push(value.clone());
            ControlFlow::Continue(())
        });
        finished(walked).expect("a small object is within the budget");
        found
    }

    #[track_caller]
    fn check(path: &str, expected: &[Value]) {
        let object = json!({
            "spec": {"l": ["x", "y", "z"], "n": 5, "a.b": "dotted", "m": {"p": 1, "q": 2}},
            "status": {"conditions": [
                {"type": "Other", "status": "x", "n": 1},
                {"type": "Ready", "status": "True", "n": 2}]}});
        assert_eq!(find(path, &object), expected, "{path}");
        let parsed = JsonPath::parse(path).expect("parses");
        let first = parsed.first(&object, &mut RowBudget::of_row()).expect("is within the budget");
        assert_eq!(first, expected.first(), "{path}");
    }

    #[test]
    fn paths_lead_where_kubectl_says() {
        check(".spec.n", &[json!(5)]);
        check("$.spec.n", &[json!(5)]);
        check(".spec.nope.deeper", &[]);
        check(".spec.l[0]", &[json!("x")]);
        check(".spec.l[-1]", &[json!("z")]);
        check(".spec.l[7]", &[]);
        check(".spec.l[*]", &[json!("x"), json!("y"), json!("z")]);
        check(".spec.l[1:]", &[json!("y"), json!("z")]);
        check(".spec.l[0:3:2]", &[json!("x"), json!("z")]);
        check(r".spec.a\.b", &[json!("dotted")]);
        check(".spec['a.b']", &[json!("dotted")]);
        check(".spec.m.*", &[json!(1), json!(2)]);
        check("..p", &[json!(1)]);
        check(r#".status.conditions[?(@.type=="Ready")].status"#, &[json!("True")]);
        check(".status.conditions[?(@.type=='Ready')].status", &[json!("True")]);
        check(".status.conditions[?(@.type!='Ready')].status", &[json!("x")]);
        check(".status.conditions[?(@.n>=2)].type", &[json!("Ready")]);
        check(".status.conditions[?(@.n)].n", &[json!(1), json!(2)]);
        check(".status[?(@.conditions)]", &[]);
        check(".status.conditions[?(@.*=='x')].n", &[]);
        check(".spec.n[0]", &[]);
    }

    #[test]
    fn what_each_descent_multiplies_ends_with_the_budget() {
        let nested = (0..100).fold(json!([]), |below, _| json!([below]));
        let path = JsonPath::parse(&format!(".l{}.x", "..[*]".repeat(8))).expect("parses");
        let mut budget = RowBudget::of_row();
        assert_eq!(path.first(&json!({"l": nested}), &mut budget), Err(RowBudgetExhausted));
        assert_eq!(budget.spent(), ROW_STEPS_MAX);
        assert_eq!(
            path.first(&json!({}), &mut budget),
            Err(RowBudgetExhausted),
            "nothing is left for the next column"
        );
    }

    #[test]
    fn evaluation_stops_at_the_first_result() {
        let object = json!({"l": vec![json!({"a": "x"}); 40_000]});
        for path in [".l[*]", ".l[*].a", "..a", r#".l[?(@.a=="x")].a"#] {
            let mut budget = RowBudget::of_row();
            let found = JsonPath::parse(path).expect("parses").first(&object, &mut budget);
            assert!(found.is_ok_and(|found| found.is_some()), "{path}");
            assert!(budget.spent() < 10, "{path} took {} steps", budget.spent());
        }
    }

    #[test]
    fn long_names_and_texts_take_more_of_the_budget() {
        let name = "n".repeat(BYTES_PER_STEP * ROW_STEPS_MAX / 10);
        let object = json!({"l": vec![json!({}); 20], "m": vec![json!({"a": name}); 20]});
        for path in [format!(".l[?(@.{name})]"), format!(".m[?(@.a<'{name}')]")] {
            let path = JsonPath::parse(&path).expect("parses");
            assert_eq!(path.first(&object, &mut RowBudget::of_row()), Err(RowBudgetExhausted));
        }
    }
}
