//! Estimates the cost of one call, with the prices of cel-go's operators and of Kubernetes' libraries, by overload.
//!
//! Linear functions cost a tenth of the text they read, patterns cost the product of text and pattern, and comparisons
//! cost the shorter side; anything not listed costs one. Some calls also determine the size of their result.

use super::authorizer::CHECK_COST;
use super::cost_estimate::LIST;
use super::size::{PATTERN, SizeRange, TRAVERSAL, scaled, selector_cost};
use super::types::CelType;

/// The longest pattern behind a named format, in letters.
const FORMAT_PATTERN: u64 = 128;

/// The size of an IP address in bytes: version 4 and version 6.
const ADDRESS: SizeRange = SizeRange { min: 4, max: 16 };

/// An argument of an estimated call.
pub(super) struct CallArgument {
    pub(super) path: Vec<String>,
    pub(super) kind: CelType,
    pub(super) size: Option<SizeRange>,
    /// Its value, if it is a non-negative literal.
    pub(super) number: Option<u64>,
}

impl CallArgument {
    fn size(&self) -> SizeRange {
        self.size.unwrap_or(SizeRange::UNKNOWN)
    }
}

/// A call to be estimated.
pub(super) struct EstimatedCall<'a> {
    pub(super) function: &'a str,
    pub(super) overload: &'a str,
    pub(super) receiver: Option<&'a CallArgument>,
    pub(super) arguments: &'a [CallArgument],
    /// The cost of evaluating each argument.
    pub(super) costs: &'a [u64],
}

/// The cost of a call including its arguments, and the size of its result if the call determines it.
pub(super) struct CallEstimate {
    pub(super) cost: u64,
    pub(super) size: Option<SizeRange>,
}

/// Returns the size that the schema specifies for a path.
type SizeAt<'a> = &'a dyn Fn(&[String]) -> Option<SizeRange>;

pub(super) fn estimate(call: &EstimatedCall<'_>, size_at: SizeAt<'_>) -> CallEstimate {
    let all: u64 = call.costs.iter().fold(0, |sum, cost| sum.saturating_add(*cost));
    if let Some((cost, size)) = lists(call).or_else(|| library(call, size_at)) {
        return CallEstimate { cost: cost.saturating_add(all), size };
    }
    match (call.overload, call.costs) {
        ("conditional", [condition, yes, no]) => {
            let [_, left, right] = call.arguments else { return CallEstimate { cost: all, size: None } };
            CallEstimate {
                cost: condition.saturating_add(*yes.max(no)),
                size: Some(left.size().or(right.size())),
            }
        }
        ("logical_and" | "logical_or", _) => CallEstimate { cost: all, size: None },
        _ => {
            let (cost, size) = operator(call).unwrap_or((1, None));
            CallEstimate { cost: cost.saturating_add(all), size }
        }
    }
}

type CallPrice = Option<(u64, Option<SizeRange>)>;

/// Estimates the language's own operators and functions.
fn operator(call: &EstimatedCall<'_>) -> CallPrice {
    let first = || call.arguments.first().map(CallArgument::size);
    let second = || call.arguments.get(1).map(CallArgument::size);
    let receiver = || call.receiver.map(CallArgument::size);
    Some(match call.overload {
        "string_format" => (receiver()?.traversal(), None),
        "string_to_bytes" => {
            let size = first()?;
            (size.traversal(), Some(SizeRange { min: size.min, max: size.max.saturating_mul(4) }))
        }
        "bytes_to_string" => {
            let size = first()?;
            (size.traversal(), Some(SizeRange { min: size.min / 4, max: size.max }))
        }
        "strings_quote" => {
            let size = first()?;
            (size.traversal(), Some(size.plus(size).plus(SizeRange::exactly(2))))
        }
        "starts_with_string" | "ends_with_string" => (first()?.traversal(), None),
        "in_list" => (second()?.max, None),
        "matches_string" => (pattern(receiver()?, first()?), None),
        "matches" => (pattern(first()?, second()?), None),
        "contains_string" => (receiver()?.traversal().saturating_mul(first()?.traversal()), None),
        "add_string" | "add_bytes" => {
            let size = first()?.plus(second()?);
            (size.traversal(), Some(size))
        }
        "add_list" => (1, Some(first()?.plus(second()?))),
        "equals" | "not_equals" => (SizeRange::up_to(first()?.max.min(second()?.max)).traversal(), None),
        id if is_text_comparison(id) => (SizeRange::up_to(first()?.max.min(second()?.max)).traversal(), None),
        _ => return None,
    })
}

fn is_text_comparison(overload: &str) -> bool {
    (overload.starts_with("less_") || overload.starts_with("greater_"))
        && (overload.ends_with("_string") || overload.ends_with("_bytes"))
}

/// Estimates matching a pattern; even an empty string has a cost.
fn pattern(text: SizeRange, pattern: SizeRange) -> u64 {
    text.plus(SizeRange::exactly(1)).traversal().saturating_mul(scaled(pattern.max, PATTERN))
}

/// Estimates the functions of Kubernetes' libraries.
fn library(call: &EstimatedCall<'_>, size_at: SizeAt<'_>) -> CallPrice {
    let first = call.arguments.first();
    let text = || first.map(CallArgument::size);
    Some(match call.function {
        "check" => (CHECK_COST, None),
        "fieldSelector" | "labelSelector" => (selector_cost(text()?.max), None),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let receiver = call.receiver?;
            let cost = match element(receiver, size_at) {
                Some(item) => receiver.size().max.saturating_mul(item.saturating_add(1)),
                None => receiver.size().traversal(),
            };
            (cost, None)
        }
        "url" => (text()?.traversal(), text()),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            let size = call.receiver?.size();
            (size.traversal(), Some(size))
        }
        "replace" => {
            let size = call.receiver?.size();
            (size.plus(size).traversal(), Some(replaced(size, text()?, call.arguments.get(1)?.size())))
        }
        "split" => {
            let size = call.receiver?.size();
            let max = call.arguments.get(1).and_then(|limit| limit.number).unwrap_or(size.max);
            (size.plus(size).traversal(), Some(SizeRange::up_to(max)))
        }
        "join" => {
            let size = joined(call.receiver?, text(), size_at);
            (size.traversal(), Some(size))
        }
        "find" | "findAll" => {
            let size = call.receiver?.size();
            (pattern(size, text()?), Some(SizeRange::up_to(size.max)))
        }
        "ip" if call.overload == "cidr_ip" => (1, None),
        "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            (text()?.traversal(), None)
        }
        "isCanonical" | "ip.isCanonical" => (text()?.plus(text()?).traversal(), None),
        "containsIP" => (ADDRESS.plus(ADDRESS).traversal().saturating_add(parsed(call)), None),
        "containsCIDR" => {
            let compared = ADDRESS.plus(ADDRESS).traversal() + ADDRESS.traversal() + 1;
            (compared.saturating_add(parsed(call)), None)
        }
        "validate" => (text()?.traversal().saturating_mul(scaled(FORMAT_PATTERN, PATTERN)), None),
        "_==_" => return library_equality(call),
        _ => return None,
    })
}

/// Estimates the list and set libraries: making a list costs ten, the call costs one, and visited elements are extra.
fn lists(call: &EstimatedCall<'_>) -> CallPrice {
    let number = |at: usize, otherwise: u64| {
        let written = call.arguments.get(at).map(|node| node.number);
        written.map(|number| number.unwrap_or(otherwise))
    };
    let made =
        |factor: f64, size: SizeRange| Some((scaled(size.max, factor).saturating_add(LIST + 1), Some(size)));
    let square = |size: SizeRange| size.times(size);
    let size = || call.receiver.map(CallArgument::size);
    match call.overload {
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let [left, right] = call.arguments else { return None };
            let factor = if call.overload == "list_sets_equivalent_list" { 2 } else { 1 };
            let compared = left.size().times(right.size()).max.saturating_mul(factor);
            Some((compared.saturating_add(1), None))
        }
        "list_slice" => made(1.0, SizeRange::exactly(number(1, size()?.max)?.saturating_sub(number(0, 0)?))),
        "list_flatten" | "list_reverse" => made(1.0, size()?),
        "list_flatten_int" => {
            let cost = size()?.max.saturating_mul(number(0, u64::MAX)?);
            Some((cost.saturating_add(LIST + 1), size()))
        }
        "lists_range" => made(1.0, SizeRange::exactly(number(0, u64::MAX)?)),
        "list_distinct" => made(2.0, square(size()?)),
        "list_string_sort" | "list_bytes_sort" => made(2.0 + TRAVERSAL, square(size()?)),
        id if id.ends_with("_sort") => made(2.0, square(size()?)),
        _ => None,
    }
}

fn library_equality(call: &EstimatedCall<'_>) -> CallPrice {
    let [left, right] = call.arguments else { return None };
    match (&left.kind, &right.kind) {
        (CelType::Library(left), CelType::Library(right)) if left == right => Some((1, None)),
        _ => None,
    }
}

/// Estimates parsing an address or range given as a string.
fn parsed(call: &EstimatedCall<'_>) -> u64 {
    let is_text = call.overload.ends_with("_string");
    call.arguments.first().filter(|_| is_text).map_or(0, |node| node.size().traversal())
}

/// Returns the cost of comparing one list item beyond one; `None` if the argument is not a list.
fn element(list: &CallArgument, size_at: SizeAt<'_>) -> Option<u64> {
    let CelType::List(of) = &list.kind else { return None };
    let is_text = matches!(**of, CelType::String | CelType::Bytes);
    Some(if is_text { item_size(list, size_at).traversal() } else { 0 })
}

fn item_size(list: &CallArgument, size_at: SizeAt<'_>) -> SizeRange {
    if list.path.is_empty() {
        return SizeRange::UNKNOWN;
    }
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    size_at(&path).unwrap_or(SizeRange::UNKNOWN)
}

fn joined(list: &CallArgument, separator: Option<SizeRange>, size_at: SizeAt<'_>) -> SizeRange {
    let count = list.size();
    let items = match &list.kind {
        CelType::List(_) => count.times(item_size(list, size_at)),
        _ => SizeRange::exactly(0),
    };
    let between = SizeRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    items.plus(separator.map_or(SizeRange::exactly(0), |separator| separator.times(between)))
}

/// Returns the size of a string after replacements.
fn replaced(text: SizeRange, from: SizeRange, to: SizeRange) -> SizeRange {
    let max = if from.min == 0 {
        // An empty string is found between all characters.
        text.max.saturating_add(1).saturating_mul(to.max).saturating_add(text.max)
    } else if to.max <= from.min {
        text.max
    } else {
        text.max.div_ceil(from.min).saturating_mul(to.max)
    };
    let min = if from.max == 0 {
        text.min.saturating_add(1).saturating_mul(to.min).saturating_add(text.min)
    } else if from.max <= to.min {
        text.min
    } else {
        text.min.div_ceil(from.max).saturating_mul(to.min)
    };
    SizeRange { min, max }
}
