//! Parses and matches label selectors: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a>1`, `a<1`,
//! joined by commas.
//!
//! **Invariant:** requirements are sorted by key and values are sorted without duplicates, so that equal selectors
//! print equally and `parse` undoes `Display`. Only [`LabelSelector::nothing`] has no text of its own.

use std::fmt;

use serde_json::Value;

use super::Error;
use super::lexer::{Lexer, Token};
use super::syntax::{label_key_faults, label_value_faults, quoted};

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key=value`
    Equals,
    /// `key==value`, another spelling of `key=value`.
    DoubleEquals,
    /// `key!=value`: also met when the key is absent.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`: also met when the key is absent.
    NotIn,
    /// `key>1`, as integers.
    GreaterThan,
    /// `key<1`, as integers.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Vec<Box<str>>,
}

/// A conjunction of requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(Inner);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    All(Vec<Requirement>),
    Nothing,
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self(Inner::All(Vec::new()))
    }

    /// Selects no object, which is the meaning of an absent `selector` field in an object.
    pub fn nothing() -> Self {
        Self(Inner::Nothing)
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Parser { lexer: Lexer::new(text) }.selector().map(Self::all)
    }

    /// Parses the JSON form (`matchLabels` and `matchExpressions`); `null` selects nothing, `{}` everything. The JSON
    /// must have passed its schema: a value of the wrong type is treated as absent.
    pub fn from_json(selector: &Value) -> Result<Self, Error> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let equal = labels.map(|(key, value)| {
            Requirement::new(key, Operator::Equals, vec![value.as_str().unwrap_or_default().into()])
        });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        equal.chain(expressions.map(expression)).collect::<Result<_, _>>().map(Self::all)
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self(Inner::All(requirements))
    }

    /// Returns whether it selects everything.
    pub fn is_everything(&self) -> bool {
        matches!(&self.0, Inner::All(requirements) if requirements.is_empty())
    }

    /// Returns the requirements, sorted by key; empty also for the selector that selects nothing.
    pub fn requirements(&self) -> &[Requirement] {
        match &self.0 {
            Inner::All(requirements) => requirements,
            Inner::Nothing => &[],
        }
    }

    /// Returns whether an object with these labels matches. `lookup` returns the value of a label.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Inner::All(requirements) => requirements.iter().all(|requirement| requirement.matches(&lookup)),
            Inner::Nothing => false,
        }
    }

    /// Returns the one value this label must have, if there is exactly one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements().iter().find(|requirement| *requirement.key == *key)?;
        match (requirement.operator, &requirement.values[..]) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            write!(f, "{}{requirement}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Requirement {
    /// Checks and creates a requirement. The error lists everything that is wrong.
    pub fn new(key: &str, operator: Operator, values: Vec<Box<str>>) -> Result<Self, Error> {
        let mut faults = Vec::new();
        if let Some(fault) = key_fault("key", key) {
            faults.push(fault);
        }
        faults.extend(count_fault(operator, &values));
        for (index, value) in values.iter().enumerate() {
            let is_compared = matches!(operator, Operator::GreaterThan | Operator::LessThan);
            if is_compared && value.parse::<i64>().is_err() {
                let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                faults.push(format!("values[{index}]: Invalid value: {}: {rule}", quoted(value)));
            }
        }
        faults.extend(values.iter().enumerate().filter_map(|(index, value)| value_fault(key, index, value)));
        let mut faults = faults.into_iter();
        match (faults.next(), faults.as_slice()) {
            (None, _) => Ok(Self::sorted(key, operator, values)),
            (Some(only), []) => Err(Error(only)),
            (Some(first), more) => Err(Error(format!("[{first}, {}]", more.join(", ")))),
        }
    }

    fn sorted(key: &str, operator: Operator, mut values: Vec<Box<str>>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { key: key.into(), operator, values }
    }

    /// Returns the label it is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns how key and values relate.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values, sorted.
    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        let actual = lookup(&self.key);
        let is_among = |actual: &str| self.values.iter().any(|value| **value == *actual);
        let compare = |accept: fn(&i64, &i64) -> bool| {
            let actual = actual.and_then(|actual| actual.parse().ok());
            let wanted = self.values.first().and_then(|value| value.parse().ok());
            actual.zip(wanted).is_some_and(|(actual, wanted)| accept(&actual, &wanted))
        };
        match self.operator {
            Operator::Exists => actual.is_some(),
            Operator::DoesNotExist => actual.is_none(),
            Operator::Equals | Operator::DoubleEquals | Operator::In => actual.is_some_and(is_among),
            Operator::NotEquals | Operator::NotIn => !actual.is_some_and(is_among),
            Operator::GreaterThan => compare(i64::gt),
            Operator::LessThan => compare(i64::lt),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = values.join(",");
        match operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn key_fault(path: &str, key: &str) -> Option<String> {
    let faults = label_key_faults(key);
    (!faults.is_empty()).then(|| format!("{path}: Invalid value: {}: {}", quoted(key), faults.join("; ")))
}

fn value_fault(key: &str, index: usize, value: &str) -> Option<String> {
    let faults = label_value_faults(value);
    let path = format!("values[{index}][{key}]");
    (!faults.is_empty()).then(|| format!("{path}: Invalid value: {}: {}", quoted(value), faults.join("; ")))
}

fn count_fault(operator: Operator, values: &[Box<str>]) -> Option<String> {
    let rule = match (operator, values.len()) {
        (Operator::In | Operator::NotIn, 0) => "for 'in', 'notin' operators, values set can't be empty",
        (Operator::Equals | Operator::DoubleEquals | Operator::NotEquals, count) if count != 1 => {
            "exact-match compatibility requires one single value"
        }
        (Operator::Exists | Operator::DoesNotExist, count) if count != 0 => {
            "values set must be empty for exists and does not exist"
        }
        (Operator::GreaterThan | Operator::LessThan, count) if count != 1 => {
            "for 'Gt', 'Lt' operators, exactly one value is required"
        }
        _ => return None,
    };
    let shown = match values {
        [] => Value::Null,
        values => values.iter().map(|value| Value::from(&**value)).collect(),
    };
    Some(format!("values: Invalid value: {shown}: {rule}"))
}

/// Converts one of `matchExpressions`.
fn expression(expression: &Value) -> Result<Requirement, Error> {
    let text = |name| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => return Err(Error(format!("{} is not a valid label selector operator", quoted(other)))),
    };
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default().into()).collect();
    Requirement::new(text("key"), operator, values)
}

/// A recursive-descent parser for the text form.
struct Parser<'a> {
    lexer: Lexer<'a>,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<Vec<Requirement>, Error> {
        let mut requirements = Vec::new();
        if self.lexer.peek() == Token::End {
            return Ok(requirements);
        }
        if !self.at_requirement() {
            return self.unexpected(", expected: !, identifier, or 'end of string'");
        }
        loop {
            let requirement = self.requirement();
            requirements.push(
                requirement.map_err(|Error(text)| Error(format!("unable to parse requirement: {text}")))?,
            );
            match self.lexer.peek() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => self.lexer.take(),
                _ => return self.unexpected(", expected: ',' or 'end of string'"),
            };
            if !self.at_requirement() {
                return self.unexpected(", expected: identifier after ','");
            }
        }
    }

    fn at_requirement(&self) -> bool {
        matches!(self.lexer.peek(), Token::Word(_) | Token::Symbol("!"))
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        Err(Error(format!("found '{}'{expected}", self.lexer.peek().text())))
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let is_negated = self.lexer.peek().is("!");
        if is_negated {
            self.lexer.take();
        }
        let Token::Word(key) = self.lexer.peek() else { return self.unexpected(", expected: identifier") };
        self.lexer.take();
        // Kubernetes has no field path here and prints `<nil>`.
        if let Some(fault) = key_fault("<nil>", key) {
            return Err(Error(fault));
        }
        let is_alone = matches!(self.lexer.peek(), Token::End | Token::Symbol(","));
        let (operator, values) = match (is_negated, is_alone) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => self.restriction()?,
        };
        Requirement::new(key, operator, values)
    }

    fn restriction(&mut self) -> Result<(Operator, Vec<Box<str>>), Error> {
        let operator = match self.lexer.peek() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            _ => return self.unexpected(", expected: in, notin, =, ==, !=, gt, lt"),
        };
        self.lexer.take();
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?.into()],
        };
        Ok((operator, values))
    }

    fn exact_value(&mut self) -> Result<&'a str, Error> {
        match self.lexer.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.lexer.take();
                Ok(value)
            }
            Token::Symbol(_) => self.unexpected(", expected: identifier"),
        }
    }

    /// Parses a set in parentheses. Two adjacent commas enclose the empty value.
    fn values(&mut self) -> Result<Vec<Box<str>>, Error> {
        if !self.lexer.peek().is("(") {
            return self.unexpected(" expected: '('");
        }
        self.lexer.take();
        if !matches!(self.lexer.peek(), Token::Word(_) | Token::Symbol("," | ")")) {
            return self.unexpected(", expected: ',', ')' or identifier");
        }
        let mut values: Vec<&str> = Vec::new();
        loop {
            match self.lexer.peek() {
                Token::Word(value) => {
                    values.push(value);
                    self.lexer.take();
                    if !matches!(self.lexer.peek(), Token::Symbol("," | ")")) {
                        return self.unexpected(", expected: ',' or ')'");
                    }
                }
                Token::Symbol("," | ")") => values.push(""),
                _ => return self.unexpected(", expected: ',', or identifier"),
            }
            if self.lexer.take().is(")") {
                break;
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
#[path = "label_tests.rs"]
mod tests;
