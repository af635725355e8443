//! What one call can cost: the prices of cel-go's operators and of Kubernetes' libraries, by overload.
//!
//! Linear functions cost a tenth of the text they go over, patterns the product of text and pattern, comparisons the
//! shorter side; everything that is not named costs one. Some calls also say how large their result is.

use super::cost::LIST;
use super::size::{PATTERN, Size, TRAVERSAL, scaled};
use super::types::Type;

/// The longest pattern behind a named format, in letters.
const FORMAT_PATTERN: u64 = 128;

/// Bytes of an address: of version 4, and of version 6.
const ADDRESS: Size = Size { min: 4, max: 16 };

/// An argument as the estimate sees it.
pub(super) struct Node {
    pub(super) path: Vec<String>,
    pub(super) kind: Type,
    pub(super) size: Option<Size>,
    /// Its value, when it is written out and no less than zero.
    pub(super) number: Option<u64>,
}

impl Node {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// A call to be estimated.
pub(super) struct Call<'a> {
    pub(super) function: &'a str,
    pub(super) overload: &'a str,
    pub(super) receiver: Option<&'a Node>,
    pub(super) arguments: &'a [Node],
    /// What evaluating each argument costs.
    pub(super) costs: &'a [u64],
}

/// What a call costs with its arguments, and the size of its result where the call decides it.
pub(super) struct Answer {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
}

/// Looks up what the schema says of a place.
type SizeAt<'a> = &'a dyn Fn(&[String]) -> Option<Size>;

pub(super) fn estimate(call: &Call<'_>, size_at: SizeAt<'_>) -> Answer {
    let all: u64 = call.costs.iter().fold(0, |sum, cost| sum.saturating_add(*cost));
    if let Some((cost, size)) = lists(call).or_else(|| library(call, size_at)) {
        return Answer { cost: cost.saturating_add(all), size };
    }
    match (call.overload, call.costs) {
        ("conditional", [condition, yes, no]) => {
            let [_, left, right] = call.arguments else { return Answer { cost: all, size: None } };
            Answer { cost: condition.saturating_add(*yes.max(no)), size: Some(left.size().or(right.size())) }
        }
        ("logical_and" | "logical_or", _) => Answer { cost: all, size: None },
        _ => {
            let (cost, size) = operator(call).unwrap_or((1, None));
            Answer { cost: cost.saturating_add(all), size }
        }
    }
}

type Price = Option<(u64, Option<Size>)>;

/// The operators and the functions of the language itself.
fn operator(call: &Call<'_>) -> Price {
    let first = || call.arguments.first().map(Node::size);
    let second = || call.arguments.get(1).map(Node::size);
    let receiver = || call.receiver.map(Node::size);
    Some(match call.overload {
        "string_format" => (receiver()?.traversal(), None),
        "string_to_bytes" => {
            let size = first()?;
            (size.traversal(), Some(Size { min: size.min, max: size.max.saturating_mul(4) }))
        }
        "bytes_to_string" => {
            let size = first()?;
            (size.traversal(), Some(Size { min: size.min / 4, max: size.max }))
        }
        "strings_quote" => {
            let size = first()?;
            (size.traversal(), Some(size.plus(size).plus(Size::exactly(2))))
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
        "equals" | "not_equals" => (Size::up_to(first()?.max.min(second()?.max)).traversal(), None),
        id if is_text_comparison(id) => (Size::up_to(first()?.max.min(second()?.max)).traversal(), None),
        _ => return None,
    })
}

fn is_text_comparison(overload: &str) -> bool {
    (overload.starts_with("less_") || overload.starts_with("greater_"))
        && (overload.ends_with("_string") || overload.ends_with("_bytes"))
}

/// A pattern over a text; empty text still costs.
fn pattern(text: Size, pattern: Size) -> u64 {
    text.plus(Size::exactly(1)).traversal().saturating_mul(scaled(pattern.max, PATTERN))
}

/// The functions of Kubernetes' libraries.
fn library(call: &Call<'_>, size_at: SizeAt<'_>) -> Price {
    let first = call.arguments.first();
    let text = || first.map(Node::size);
    Some(match call.function {
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
            (size.plus(size).traversal(), Some(Size::up_to(max)))
        }
        "join" => {
            let size = joined(call.receiver?, text(), size_at);
            (size.traversal(), Some(size))
        }
        "find" | "findAll" => {
            let size = call.receiver?.size();
            (pattern(size, text()?), Some(Size::up_to(size.max)))
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

/// The list and set libraries: making a list costs ten and the call one beside what is gone over.
fn lists(call: &Call<'_>) -> Price {
    let number = |at: usize, otherwise: u64| {
        let written = call.arguments.get(at).map(|node| node.number);
        written.map(|number| number.unwrap_or(otherwise))
    };
    let made =
        |factor: f64, size: Size| Some((scaled(size.max, factor).saturating_add(LIST + 1), Some(size)));
    let square = |size: Size| size.times(size);
    let size = || call.receiver.map(Node::size);
    match call.overload {
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let [left, right] = call.arguments else { return None };
            let factor = if call.overload == "list_sets_equivalent_list" { 2 } else { 1 };
            let compared = left.size().times(right.size()).max.saturating_mul(factor);
            Some((compared.saturating_add(1), None))
        }
        "list_slice" => made(1.0, Size::exactly(number(1, size()?.max)?.saturating_sub(number(0, 0)?))),
        "list_flatten" | "list_reverse" => made(1.0, size()?),
        "list_flatten_int" => {
            let cost = size()?.max.saturating_mul(number(0, u64::MAX)?);
            Some((cost.saturating_add(LIST + 1), size()))
        }
        "lists_range" => made(1.0, Size::exactly(number(0, u64::MAX)?)),
        "list_distinct" => made(2.0, square(size()?)),
        "list_string_sort" | "list_bytes_sort" => made(2.0 + TRAVERSAL, square(size()?)),
        id if id.ends_with("_sort") => made(2.0, square(size()?)),
        _ => None,
    }
}

fn library_equality(call: &Call<'_>) -> Price {
    let [left, right] = call.arguments else { return None };
    match (&left.kind, &right.kind) {
        (Type::Library(left), Type::Library(right)) if left == right => Some((1, None)),
        _ => None,
    }
}

/// An address or range given as text is read first.
fn parsed(call: &Call<'_>) -> u64 {
    let is_text = call.overload.ends_with("_string");
    call.arguments.first().filter(|_| is_text).map_or(0, |node| node.size().traversal())
}

/// What comparing one item of a list costs beyond one, `None` when it is no list.
fn element(list: &Node, size_at: SizeAt<'_>) -> Option<u64> {
    let Type::List(of) = &list.kind else { return None };
    let is_text = matches!(**of, Type::String | Type::Bytes);
    Some(if is_text { item_size(list, size_at).traversal() } else { 0 })
}

fn item_size(list: &Node, size_at: SizeAt<'_>) -> Size {
    if list.path.is_empty() {
        return Size::UNKNOWN;
    }
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    size_at(&path).unwrap_or(Size::UNKNOWN)
}

fn joined(list: &Node, separator: Option<Size>, size_at: SizeAt<'_>) -> Size {
    let count = list.size();
    let items = match &list.kind {
        Type::List(_) => count.times(item_size(list, size_at)),
        _ => Size::exactly(0),
    };
    let between = Size { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    items.plus(separator.map_or(Size::exactly(0), |separator| separator.times(between)))
}

/// The size of a text in which something was replaced.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let max = if from.min == 0 {
        // An empty text is found between all letters.
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
    Size { min, max }
}
