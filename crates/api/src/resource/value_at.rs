//! Pairs a value with its path, so that a check takes one line and its error includes the path.
//!
//! Valid values cause no allocation: the path is a chain on the stack.

use serde_json::{Value, json};

use crate::field::{Error, FieldPath};
use crate::names;
use crate::object::fill::is_zero;

pub(crate) use crate::field::Errors;

/// The highest port number.
const PORT_MAX: i64 = 65_535;

static ABSENT: Value = Value::Null;

/// A value and its path; null means absent.
#[derive(Clone, Copy)]
pub(crate) struct ValueAt<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: FieldPath<'a>,
}

impl<'a> ValueAt<'a> {
    /// Creates the view of a whole object.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: FieldPath::Root }
    }

    /// Returns the field `name`.
    pub(crate) fn field(&'a self, name: &'a str) -> ValueAt<'a> {
        ValueAt { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.field(name) }
    }

    /// Returns the entry of a map; its key is printed in brackets.
    pub(crate) fn key(&'a self, name: &'a str) -> ValueAt<'a> {
        ValueAt { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.key(name) }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&'a self) -> impl Iterator<Item = ValueAt<'a>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(at, value)| ValueAt { value, path: self.path.index(at) })
    }

    /// Returns the entries of a map.
    pub(crate) fn entries(&'a self) -> impl Iterator<Item = (&'a str, ValueAt<'a>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), ValueAt { value, path: self.path.key(name) }))
    }

    /// Returns the string, empty when absent.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the number, zero when absent.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    /// Returns the number of items or entries.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// Returns whether the value is present.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns whether the value is absent or the zero of its type.
    pub(crate) fn is_zero(&self) -> bool {
        is_zero(Some(self.value))
    }

    /// Reports that the value is invalid.
    pub(crate) fn invalid(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::invalid(&self.path, self.value, detail));
    }

    /// Reports that the value is missing.
    pub(crate) fn required(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::required(&self.path, detail));
    }

    /// Reports that the value is not allowed.
    pub(crate) fn forbidden(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::forbidden(&self.path, detail));
    }

    /// Reports that the value is a duplicate.
    pub(crate) fn duplicate(&self, errors: &mut Errors) {
        errors.push(Error::duplicate(&self.path, self.value));
    }

    /// Requires the value to be present; returns whether it is.
    pub(crate) fn must_be_set(&self, errors: &mut Errors) -> bool {
        let is_there = !self.is_zero();
        if !is_there {
            self.required("", errors);
        }
        is_there
    }

    /// Rejects a negative number.
    pub(crate) fn must_not_be_negative(&self, errors: &mut Errors) {
        if self.number() < 0 {
            self.invalid("must be greater than or equal to 0", errors);
        }
    }

    /// Requires the number to be positive, if present.
    pub(crate) fn must_be_positive(&self, errors: &mut Errors) {
        if self.is_set() && self.number() <= 0 {
            self.invalid("must be greater than 0", errors);
        }
    }

    /// Requires the value to be one of these, if present.
    pub(crate) fn must_be_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_set() && !supported.contains(&self.text()) {
            errors.push(Error::not_supported(&self.path, self.value, supported));
        }
    }

    /// Requires the string to pass a check, if present.
    pub(crate) fn must_pass(&self, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.text().is_empty() {
            return;
        }
        for error_text in check(self.text()) {
            self.invalid(&error_text, errors);
        }
    }

    /// Requires the string to be present and to pass a check.
    pub(crate) fn must_be_named(&self, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.must_be_set(errors) {
            self.must_pass(check, errors);
        }
    }

    /// Requires the string to be a qualified name; reports errors at `place`.
    pub(crate) fn must_be_qualified(&self, place: &ValueAt<'_>, errors: &mut Errors) {
        for error_text in names::qualified(self.text()) {
            errors.push(Error::invalid(&place.path, &json!(self.text()), &error_text));
        }
    }

    /// Requires the value to equal the stored one.
    pub(crate) fn must_stay(&self, old: &Value, errors: &mut Errors) {
        if self.value != old && !(self.is_zero() && is_zero(Some(old))) {
            self.invalid("field is immutable", errors);
        }
    }

    /// Requires the number to be a valid port.
    pub(crate) fn must_be_port(&self, errors: &mut Errors) {
        if !(1..=PORT_MAX).contains(&self.number()) {
            let number = json!(self.number());
            errors.push(Error::invalid(&self.path, &number, "must be between 1 and 65535, inclusive"));
        }
    }

    /// Requires the value to be the number or the name of a port.
    pub(crate) fn must_be_port_or_name(&self, errors: &mut Errors) {
        if self.value.is_string() {
            for error_text in names::port_name(self.text()) {
                self.invalid(&error_text, errors);
            }
        } else {
            self.must_be_port(errors);
        }
    }

    /// Requires the string to be an IP address.
    pub(crate) fn must_be_address(&self, errors: &mut Errors) {
        if self.text().parse::<std::net::IpAddr>().is_err() {
            self.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", errors);
        }
    }

    /// Requires the string to be a relative path that does not lead upwards.
    pub(crate) fn must_descend(&self, errors: &mut Errors) {
        if self.text().starts_with('/') {
            self.invalid("must be a relative path", errors);
        }
        if self.text().split('/').any(|step| step == "..") {
            self.invalid("must not contain '..'", errors);
        }
    }

    /// Requires the string to be the path of a file in a volume, but not of the node's own files, which begin with two
    /// dots.
    pub(crate) fn must_be_a_file_inside(&self, errors: &mut Errors) {
        self.must_descend(errors);
        if self.text().starts_with("..") && !self.text().starts_with("../") {
            self.invalid("must not start with '..'", errors);
        }
    }

    /// Requires the value to be a map of labels.
    pub(crate) fn must_be_labels(&self, errors: &mut Errors) {
        if self.is_set() {
            crate::metadata::validate::validate_labels(self.value, &self.path, errors);
        }
    }

    /// Requires the value to be a non-negative integer or a percentage.
    pub(crate) fn must_be_amount_or_percent(&self, errors: &mut Errors) {
        if self.value.is_string() {
            if self.percent().is_none() {
                self.invalid("a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')", errors);
            }
        } else {
            self.must_not_be_negative(errors);
        }
    }

    /// Requires a percentage to be at most 100.
    pub(crate) fn must_not_exceed_all(&self, errors: &mut Errors) {
        if self.percent().is_some_and(|percent| percent > 100) {
            self.invalid("must not be greater than 100%", errors);
        }
    }

    /// Returns the number before the percent sign, or the plain number.
    pub(crate) fn amount_or_percent(&self) -> i64 {
        self.percent().unwrap_or_else(|| self.number())
    }

    fn percent(&self) -> Option<i64> {
        let digits = self.text().strip_suffix('%')?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    }
}
