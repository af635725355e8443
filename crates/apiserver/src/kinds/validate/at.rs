//! A value together with its place, so that a check reads in one line and a complaint knows where it stands.
//!
//! Nothing is allocated for good values: the place is a chain on the stack.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::kinds::fill::is_zero;
use crate::kinds::names;

pub(crate) use crate::field::Errors;

/// The highest number a port can have.
const PORT_MAX: i64 = 65_535;

static ABSENT: Value = Value::Null;

/// A value and its place; null stands for absent.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: Path<'a>,
}

impl<'a> At<'a> {
    /// A whole object.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: Path::Root }
    }

    /// The field `name`.
    pub(crate) fn field(&'a self, name: &'a str) -> At<'a> {
        At { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.field(name) }
    }

    /// The entry of a map, written in brackets.
    pub(crate) fn key(&'a self, name: &'a str) -> At<'a> {
        At { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.key(name) }
    }

    /// The items of a list.
    pub(crate) fn items(&'a self) -> impl Iterator<Item = At<'a>> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(at, value)| At { value, path: self.path.index(at) })
    }

    /// The entries of a map.
    pub(crate) fn entries(&'a self) -> impl Iterator<Item = (&'a str, At<'a>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(name, value)| (name.as_str(), At { value, path: self.path.key(name) }))
    }

    /// The text, empty when absent.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number, zero when absent.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    /// How many items or entries.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// Is it there at all?
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Is it absent or the zero of its type?
    pub(crate) fn is_zero(&self) -> bool {
        is_zero(Some(self.value))
    }

    /// Complains that the value is not acceptable.
    pub(crate) fn invalid(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::invalid(&self.path, self.value, detail));
    }

    /// Complains that the value is missing.
    pub(crate) fn required(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::required(&self.path, detail));
    }

    /// Complains that the value may not be there.
    pub(crate) fn forbidden(&self, detail: &str, errors: &mut Errors) {
        errors.push(Error::forbidden(&self.path, detail));
    }

    /// Complains that the value is there twice.
    pub(crate) fn duplicate(&self, errors: &mut Errors) {
        errors.push(Error::duplicate(&self.path, self.value));
    }

    /// It must be there; returns whether it is.
    pub(crate) fn must_be_set(&self, errors: &mut Errors) -> bool {
        let is_there = !self.is_zero();
        if !is_there {
            self.required("", errors);
        }
        is_there
    }

    /// It may not be below zero.
    pub(crate) fn must_not_be_negative(&self, errors: &mut Errors) {
        if self.number() < 0 {
            self.invalid("must be greater than or equal to 0", errors);
        }
    }

    /// It must be above zero, if there.
    pub(crate) fn must_be_positive(&self, errors: &mut Errors) {
        if self.is_set() && self.number() <= 0 {
            self.invalid("must be greater than 0", errors);
        }
    }

    /// It must be one of these, if there.
    pub(crate) fn must_be_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_set() && !supported.contains(&self.text()) {
            errors.push(Error::not_supported(&self.path, self.value, supported));
        }
    }

    /// A check of its text, if there is any.
    pub(crate) fn must_pass(&self, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.text().is_empty() {
            return;
        }
        for complaint in check(self.text()) {
            self.invalid(&complaint, errors);
        }
    }

    /// It must be there and pass a check.
    pub(crate) fn must_be_named(&self, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.must_be_set(errors) {
            self.must_pass(check, errors);
        }
    }

    /// It must be a qualified name; complaints stand at `place`.
    pub(crate) fn must_be_qualified(&self, place: &At<'_>, errors: &mut Errors) {
        for complaint in names::qualified(self.text()) {
            errors.push(Error::invalid(&place.path, &json!(self.text()), &complaint));
        }
    }

    /// It may not differ from what is stored.
    pub(crate) fn must_stay(&self, old: &Value, errors: &mut Errors) {
        if self.value != old && !(self.is_zero() && is_zero(Some(old))) {
            self.invalid("field is immutable", errors);
        }
    }

    /// It must be a number a port can have.
    pub(crate) fn must_be_port(&self, errors: &mut Errors) {
        if !(1..=PORT_MAX).contains(&self.number()) {
            let number = json!(self.number());
            errors.push(Error::invalid(&self.path, &number, "must be between 1 and 65535, inclusive"));
        }
    }

    /// It must be the number or the name of a port.
    pub(crate) fn must_be_port_or_name(&self, errors: &mut Errors) {
        if self.value.is_string() {
            for complaint in names::port_name(self.text()) {
                self.invalid(&complaint, errors);
            }
        } else {
            self.must_be_port(errors);
        }
    }

    /// It must be an IP address.
    pub(crate) fn must_be_address(&self, errors: &mut Errors) {
        if self.text().parse::<std::net::IpAddr>().is_err() {
            self.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)", errors);
        }
    }

    /// It must be a path that leads further down.
    pub(crate) fn must_descend(&self, errors: &mut Errors) {
        if self.text().starts_with('/') {
            self.invalid("must be a relative path", errors);
        }
        if self.text().split('/').any(|step| step == "..") {
            self.invalid("must not contain '..'", errors);
        }
    }

    /// It must be the path of a file in a volume, and none of the node's own, which begin with two dots.
    pub(crate) fn must_be_a_file_inside(&self, errors: &mut Errors) {
        self.must_descend(errors);
        if self.text().starts_with("..") && !self.text().starts_with("../") {
            self.invalid("must not start with '..'", errors);
        }
    }

    /// It must be a map of labels.
    pub(crate) fn must_be_labels(&self, errors: &mut Errors) {
        if self.is_set() {
            crate::metadata::validate::validate_labels(self.value, &self.path, errors);
        }
    }

    /// It must be a whole number from zero or a percentage.
    pub(crate) fn must_be_amount_or_percent(&self, errors: &mut Errors) {
        if self.value.is_string() {
            if self.percent().is_none() {
                self.invalid("a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')", errors);
            }
        } else {
            self.must_not_be_negative(errors);
        }
    }

    /// A percentage may not be above a hundred.
    pub(crate) fn must_not_exceed_all(&self, errors: &mut Errors) {
        if self.percent().is_some_and(|percent| percent > 100) {
            self.invalid("must not be greater than 100%", errors);
        }
    }

    /// The number before the percent sign, or the plain number.
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
