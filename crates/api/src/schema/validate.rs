//! Validates a custom object against the constraints of its kind. The errors are Kubernetes' own, oddities included:
//! constraints on a whole value are reported without a path (`<nil>`).
//!
//! An update may keep errors that already existed: the old object is compared only if there are errors, and then all
//! unchanged values are skipped. Expressions (`x-kubernetes-validations`) are evaluated elsewhere.
//!
//! **Invariant:** a large schema and a large object together cost at most `WORK_MAX` steps; beyond that, the object is
//! rejected.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::constraints::{
    CountConstraints, JsonType, NumberConstraints, SchemaAlternatives, TextConstraints, ValueConstraints,
};
use super::{Schema, embedded, list_type};
use crate::field::{Error, Errors, FieldPath};

/// The largest integer that every JSON parser represents exactly: 2^53 - 1.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;
const STATUS: &str = "status";
/// How Kubernetes prints a missing path.
const NOWHERE: &str = "<nil>";

/// The maximum number of steps to validate one object: about half a second. An object of the largest size has about
/// 700 000 values, so each may be compared with several constraints; only a schema with thousands of alternatives for
/// each item of a long list takes more.
const WORK_MAX: u64 = 4_000_000;
/// The error about an object that would take more steps.
const EXHAUSTED: &str = "the object was not validated to its end: with the schema of its kind it takes more work than one \
    request may cause; make the object or the schema smaller";

/// Validates a new custom object, or one that replaces `old`.
pub fn validate(schema: &Schema, new: &Value, old: Option<&Value>) -> Errors {
    let Some(rules) = &schema.rules else { return Errors::new() };
    let mut errors = constraint_errors(rules, new, None, "");
    if !errors.is_empty() && old.is_some() {
        errors = constraint_errors(rules, new, old, "");
    }
    if rules.has_structure() {
        embedded::validate(schema, new, &FieldPath::Root, &mut errors);
    }
    errors.append(list_errors(schema, rules, new, old));
    errors
}

/// Validates an object whose status is being replaced. Kubernetes validates only the status, and reports paths relative
/// to it.
pub fn validate_status(schema: &Schema, new: &Value, old: &Value) -> Errors {
    let Some(rules) = &schema.rules else { return Errors::new() };
    let (Some(part), Some(status)) = (rules.properties.get(STATUS), new.get(STATUS)) else {
        return list_errors(schema, rules, new, Some(old));
    };
    let mut errors = constraint_errors(part, status, None, STATUS);
    if !errors.is_empty() {
        errors = constraint_errors(part, status, old.get(STATUS), STATUS);
    }
    errors.append(list_errors(schema, rules, new, Some(old)));
    errors
}

/// Validates the lists, unless they were wrong before.
fn list_errors(schema: &Schema, rules: &ValueConstraints, new: &Value, old: Option<&Value>) -> Errors {
    if !rules.has_structure() {
        return Errors::new();
    }
    let found = list_type::validate(schema, new);
    let was_wrong = |old: &Value| !list_type::validate(schema, old).is_empty();
    if found.is_empty() || old.is_some_and(was_wrong) { Errors::new() } else { found }
}

/// Returns the errors in a value at `base`, for defaults in definitions.
pub(super) fn constraint_errors(
    rules: &ValueConstraints,
    value: &Value,
    old: Option<&Value>,
    base: &str,
) -> Errors {
    let work = Cell::new(WORK_MAX);
    let mut validator = ConstraintValidator { base, work: &work, errors: Errors::new(), matches: 0 };
    validator.value(rules, value, old, &FieldPath::Root);
    let mut errors = validator.errors;
    if work.get() == 0 {
        errors.push(Error::invalid(&FieldPath::Root.field(NOWHERE), &"".into(), EXHAUSTED));
    }
    errors
}

struct ConstraintValidator<'b> {
    base: &'b str,
    /// The steps that are left, shared with the validators of alternatives.
    work: &'b Cell<u64>,
    errors: Errors,
    /// The number of satisfied constraints, because the best of the failed alternatives is reported.
    matches: usize,
}

impl ConstraintValidator<'_> {
    /// Takes steps from the budget; returns false if it is used up.
    fn spend(&self, steps: usize) -> bool {
        let left = self.work.get().saturating_sub(steps as u64);
        self.work.set(left);
        left > 0
    }

    fn value(&mut self, rules: &ValueConstraints, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
        if old == Some(value) || !self.spend(1 + rules.allowed.len() + rules.required.len()) {
            return;
        }
        let before = self.errors.len();
        self.types(rules, value, path);
        if !value.is_null() {
            if let Some(logic) = &rules.logic {
                self.logic(logic, value, old, path);
            }
            match value {
                Value::String(text) => self.text(rules, text, path),
                Value::Number(number) => self.number(rules, number, path),
                Value::Array(items) => self.items(rules, items, old, path),
                Value::Object(fields) => self.fields(rules, fields, old, path),
                Value::Null | Value::Bool(_) => {}
            }
        }
        if !rules.allowed.is_empty() && !rules.allowed.contains(value) {
            self.at(path, |path| {
                let allowed: Vec<_> = rules.allowed.iter().map(plain_text).collect();
                let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
                Error::not_supported(path, value, &allowed).written()
            });
        }
        self.matches += usize::from(self.errors.len() == before);
    }

    fn types(&mut self, rules: &ValueConstraints, value: &Value, path: &FieldPath<'_>) {
        if let Some((wanted, found)) = type_mismatch(rules, value) {
            self.at(path, |place| {
                let detail = format!("{path} in body must be of type {wanted}: {found:?}");
                Error::type_invalid(place, &found.into(), &detail).written()
            });
        }
    }

    fn text(&mut self, rules: &ValueConstraints, text: &str, path: &FieldPath<'_>) {
        if let Some(limits) = &rules.text {
            self.limits(limits, text, path);
        }
        // Formats of numbers do not apply to strings.
        let is_text = rules.types.is_empty() || rules.types.contains(&JsonType::String);
        if let (true, Some(format)) = (is_text, rules.format)
            && !format.fits(text)
        {
            self.at(path, |place| {
                let detail = format!("{path} in body must be of type {}: {text:?}", format.name);
                Error::type_invalid(place, &text.into(), &detail).written()
            });
        }
    }

    /// Reports only the first broken limit.
    fn limits(&mut self, limits: &TextConstraints, text: &str, path: &FieldPath<'_>) {
        let length = text.chars().count() as u64;
        if let Some(most) = limits.length_max.filter(|most| length > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            self.at(path, |path| Error::too_long(path, most).written());
        } else if let Some(least) = limits.length_min.filter(|least| length < *least) {
            self.invalid(path, &text.into(), &format!("should be at least {least} chars long"));
        } else if let Some(pattern) = &limits.pattern
            && !pattern.is_match(text, |steps| self.spend(steps))
        {
            self.invalid(path, &text.into(), &format!("should match '{}'", pattern.source));
        }
    }

    fn number(&mut self, rules: &ValueConstraints, number: &serde_json::Number, path: &FieldPath<'_>) {
        let in_range = |text: &str| match (rules.types.as_slice(), rules.format) {
            ([JsonType::Integer | JsonType::Number], Some(format)) => format.fits(text),
            ([JsonType::Integer], None) => text.parse::<i64>().is_ok(),
            _ => true,
        };
        if !in_range(&number.to_string()) {
            self.out_of_range("Checked", rules, path);
        }
        if let Some(limits) = &rules.number {
            let bounds = [
                ("MultipleOf", limits.multiple_of),
                ("Minimum boundary", limits.minimum),
                ("Maximum boundary", limits.maximum),
            ];
            for (name, bound) in bounds {
                if bound.is_some_and(|bound| !in_range(&bound.to_string())) {
                    self.out_of_range(name, rules, path);
                }
            }
            self.bounds(limits, number, path);
        }
    }

    fn out_of_range(&mut self, what: &str, rules: &ValueConstraints, path: &FieldPath<'_>) {
        let kind = rules.types.first().map_or("", |one| one.name());
        let format = match rules.format {
            Some(format) => format!("with format {}", format.name),
            None => "(default format)".into(),
        };
        self.nowhere(&format!("{what} value must be of type {kind} {format} in {path}"));
    }

    fn bounds(&mut self, limits: &NumberConstraints, number: &serde_json::Number, path: &FieldPath<'_>) {
        // Bounds of integers are truncated to integers, as in Kubernetes.
        let whole = number.as_i64();
        let cut = |bound: f64| if whole.is_some() { bound.trunc() } else { bound };
        let value = number.as_f64().unwrap_or_default();
        let shown = Value::Number(number.clone());
        if let Some(factor) = limits.multiple_of.map(cut).filter(|factor| !is_multiple(value, *factor)) {
            self.invalid(
                path,
                &shown,
                &format!("should be a multiple of {}", print_bound(factor, whole.is_some())),
            );
        }
        if let Some(least) = limits.minimum.map(cut) {
            let (broken, words) = if limits.exclusive_minimum {
                (value <= least, "greater than")
            } else {
                (value < least, "greater than or equal to")
            };
            if broken {
                self.invalid(
                    path,
                    &shown,
                    &format!("should be {words} {}", print_bound(least, whole.is_some())),
                );
            }
        }
        if let Some(most) = limits.maximum.map(cut) {
            let (broken, words) = if limits.exclusive_maximum {
                (value >= most, "less than")
            } else {
                (value > most, "less than or equal to")
            };
            if broken {
                self.invalid(
                    path,
                    &shown,
                    &format!("should be {words} {}", print_bound(most, whole.is_some())),
                );
            }
        }
    }

    fn items(
        &mut self,
        rules: &ValueConstraints,
        items: &[Value],
        old: Option<&Value>,
        path: &FieldPath<'_>,
    ) {
        if let Some(below) = &rules.items {
            let before = by_keys(rules, old);
            for (at, item) in items.iter().enumerate() {
                let old = before.as_ref().and_then(|before| before.get(&identity(rules, item)).copied());
                self.value(below, item, old, &path.index(at));
            }
        }
        let Some(size) = rules.size.as_deref() else { return };
        let CountConstraints { items_min, items_max, .. } = size;
        let count = items.len();
        if let Some(least) = items_min.filter(|least| (count as u64) < *least) {
            self.invalid(path, &count.into(), &format!("should have at least {least} items"));
        }
        self.too_many(count, *items_max, path);
    }

    fn fields(
        &mut self,
        rules: &ValueConstraints,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        path: &FieldPath<'_>,
    ) {
        if let Some(size) = rules.size.as_deref() {
            let CountConstraints { properties_min, properties_max, .. } = size;
            let count = fields.len();
            if let Some(least) = properties_min.filter(|least| (count as u64) < *least) {
                self.invalid(path, &count.into(), &format!("should have at least {least} properties"));
            }
            self.too_many(count, *properties_max, path);
        }
        for (name, value) in fields {
            if let Some(below) = rules.properties.get(name.as_str()).or(rules.additional.as_deref()) {
                self.value(below, value, old.and_then(|old| old.get(name)), &path.field(name));
            }
        }
        for name in rules.required.iter().filter(|name| !fields.contains_key(&***name)) {
            self.at(&path.field(name), |path| Error::required(path, "").written());
        }
    }

    fn too_many(&mut self, count: usize, most: Option<u64>, path: &FieldPath<'_>) {
        if let Some(most) = most.and_then(|most| usize::try_from(most).ok()).filter(|most| count > *most) {
            self.at(path, |path| Error::too_many(path, count, most).written());
        }
    }

    fn logic(
        &mut self,
        logic: &SchemaAlternatives,
        value: &Value,
        old: Option<&Value>,
        path: &FieldPath<'_>,
    ) {
        let tried = |rules: &ValueConstraints| {
            let mut validator =
                ConstraintValidator { base: self.base, work: self.work, errors: Errors::new(), matches: 0 };
            validator.value(rules, value, old, path);
            validator
        };
        let any: Vec<_> = logic.any_of.iter().map(tried).collect();
        let one: Vec<_> = logic.one_of.iter().map(tried).collect();
        let all: Vec<_> = logic.all_of.iter().map(tried).collect();
        let is_denied = logic.not.as_ref().is_some_and(|rules| tried(rules).errors.is_empty());
        self.any_of(any, path);
        self.one_of(one, path);
        self.all_of(all, path);
        if is_denied {
            self.nowhere(&format!("\"{path}\" must not validate the schema (not)"));
        }
    }

    fn any_of(&mut self, tried: Vec<ConstraintValidator<'_>>, path: &FieldPath<'_>) {
        if tried.is_empty() || tried.iter().any(|validator| validator.errors.is_empty()) {
            return;
        }
        self.nowhere(&format!("\"{path}\" must validate at least one schema (anyOf)"));
        self.errors.append(best_alternative(tried));
    }

    fn one_of(&mut self, tried: Vec<ConstraintValidator<'_>>, path: &FieldPath<'_>) {
        let valid = tried.iter().filter(|validator| validator.errors.is_empty()).count();
        if tried.is_empty() || valid == 1 {
            return;
        }
        let found = if valid == 0 { "none valid".into() } else { format!("{valid} valid alternatives") };
        self.nowhere(&format!("\"{path}\" must validate one and only one schema (oneOf). Found {found}"));
        if valid == 0 {
            self.errors.append(best_alternative(tried));
        }
    }

    fn all_of(&mut self, tried: Vec<ConstraintValidator<'_>>, path: &FieldPath<'_>) {
        let valid = tried.iter().filter(|validator| validator.errors.is_empty()).count();
        if valid == tried.len() {
            return;
        }
        let none = if valid == 0 { ". None validated" } else { "" };
        for validator in tried {
            self.errors.append(validator.errors);
        }
        self.nowhere(&format!("\"{path}\" must validate all the schemas (allOf){none}"));
    }

    fn invalid(&mut self, path: &FieldPath<'_>, value: &Value, words: &str) {
        self.at(path, |place| Error::invalid(place, value, &format!("{path} in body {words}")).written());
    }

    /// Reports an error about a path, relative to the base.
    fn at(&mut self, path: &FieldPath<'_>, make: impl FnOnce(&FieldPath<'_>) -> Error) {
        let base = FieldPath::Root.field(self.base);
        self.errors.push_with(|| match path {
            path if self.base.is_empty() => make(path),
            path => match &*path.to_string() {
                "" => make(&base),
                place => make(&base.field(place)),
            },
        });
    }

    fn nowhere(&mut self, detail: &str) {
        let place = if self.base.is_empty() { NOWHERE } else { self.base };
        self.errors.push(Error::invalid(&FieldPath::Root.field(place), &"".into(), detail));
    }
}

/// Returns the expected and the actual type, if they differ. Formats matter to the same extent as in Kubernetes.
fn type_mismatch(rules: &ValueConstraints, value: &Value) -> Option<(String, &'static str)> {
    let wants = |kind: JsonType| rules.types.contains(&kind);
    let all = || rules.types.iter().map(|one| one.name()).collect::<Vec<_>>().join(",");
    if value.is_null() {
        return (!rules.types.is_empty() && !rules.nullable).then(|| (all(), "null"));
    }
    if rules.types.is_empty() && rules.format.is_none() {
        return None;
    }
    let (found, found_format) = found(value);
    let is_fine = wants(found)
        || found == JsonType::Integer && wants(JsonType::Number)
        || found == JsonType::Number && wants(JsonType::Integer) && is_exact(value);
    if matches!(found, JsonType::String | JsonType::Array) {
        let is_number = wants(JsonType::Number) || wants(JsonType::Integer);
        return (!is_fine && (is_number || rules.format.is_none())).then(|| (all(), found.name()));
    }
    match rules.format {
        _ if is_fine => None,
        Some(format) if format.name == found_format => None,
        Some(format) => Some((format.name.to_owned(), found_format)),
        None => Some((all(), found.name())),
    }
}

fn found(value: &Value) -> (JsonType, &'static str) {
    match value {
        Value::Bool(_) | Value::Null => (JsonType::Boolean, ""),
        Value::Number(number) if number.is_f64() => (JsonType::Number, "float64"),
        Value::Number(_) => (JsonType::Integer, "int64"),
        Value::String(_) => (JsonType::String, ""),
        Value::Array(_) => (JsonType::Array, ""),
        Value::Object(_) => (JsonType::Object, ""),
    }
}

fn is_exact(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= EXACT_FLOAT_MAX)
}

fn is_multiple(value: f64, factor: f64) -> bool {
    factor <= 0.0 || (if factor < 1.0 { 1.0 / factor * value } else { value / factor }).fract() == 0.0
}

/// Returns the items of the old list by their keys, if the list has keys; if several items share their keys, the first
/// one is returned.
fn by_keys<'a>(
    rules: &ValueConstraints,
    old: Option<&'a Value>,
) -> Option<HashMap<Vec<Option<&'a Value>>, &'a Value>> {
    if rules.map_keys.is_empty() {
        return None;
    }
    let items = old?.as_array()?.iter().rev();
    Some(items.map(|item| (identity(rules, item), item)).collect())
}

fn identity<'a>(rules: &ValueConstraints, item: &'a Value) -> Vec<Option<&'a Value>> {
    rules.map_keys.iter().map(|key| item.get(&**key)).collect()
}

/// Returns the errors of the alternative with the most satisfied constraints; if several are equally good, the first
/// one.
fn best_alternative(tried: Vec<ConstraintValidator<'_>>) -> Errors {
    let most = tried.iter().map(|validator| validator.matches).max().unwrap_or_default();
    tried
        .into_iter()
        .find(|validator| validator.matches == most)
        .map(|validator| validator.errors)
        .unwrap_or_default()
}

/// Returns a string as it is, and any other value as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Prints a bound as Go does: integers in full, floating-point numbers of a million and more with an exponent.
fn print_bound(bound: f64, is_whole: bool) -> String {
    let exponent = bound.abs().log10().floor();
    if is_whole || bound == 0.0 || (-4.0..6.0).contains(&exponent) {
        return bound.to_string();
    }
    let text = format!("{bound:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

#[cfg(test)]
mod tests;
