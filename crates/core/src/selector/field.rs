//! Parses and matches field selectors: `a=b`, `a==b`, `a!=b`, joined by commas; `\` escapes `\`, `,` and `=` in values.
//!
//! **Invariant:** terms are sorted by their text, so that equal selectors print equally and `parse` undoes `Display`.

use std::fmt;

use super::Error;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field, such as `metadata.name`.
    pub field: Box<str>,
    /// Whether the field must equal the value, rather than differ from it.
    pub is_equal: bool,
    /// The value; empty also matches an absent field.
    pub value: Box<str>,
}

/// A conjunction of conditions on fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTerm>);

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split(text);
        // Go processes the parts in sorted order, which decides which of two mistakes is reported.
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| term(text, part));
        terms.collect::<Result<_, _>>().map(Self::all)
    }

    fn all(mut terms: Vec<FieldTerm>) -> Self {
        terms.sort_by_cached_key(ToString::to_string);
        Self(terms)
    }

    /// Returns whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the conditions.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.0
    }

    /// Returns the one value this field must have, if one is required: `metadata.name` turns a list into a get.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|term| term.is_equal && *term.field == *field).map(|term| &*term.value)
    }

    /// Returns whether an object with these fields matches. `lookup` returns the value of a field, empty when there is
    /// none.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> &'a str) -> bool {
        self.0.iter().all(|term| (lookup(&term.field) == &*term.value) == term.is_equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.0.iter().enumerate() {
            write!(f, "{}{term}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.is_equal { "=" } else { "!=" })?;
        for letter in self.value.chars() {
            if matches!(letter, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{letter}")?;
        }
        Ok(())
    }
}

/// Returns the parts between unescaped commas, leaving escapes untouched.
fn split(text: &str) -> Vec<&str> {
    let mut is_escaped = false;
    text.split(|letter| {
        let is_separator = letter == ',' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_separator
    })
    .collect()
}

/// Parses one part, split at the first operator.
fn term(whole: &str, part: &str) -> Result<FieldTerm, Error> {
    let equal = part
        .find('=')
        .ok_or_else(|| Error(format!("invalid selector: '{whole}'; can't understand '{part}'")))?;
    let (before, after) = (&part[..equal], &part[equal + 1..]);
    let (field, is_equal, value) = match before.strip_suffix('!') {
        Some(field) => (field, false, after),
        None => (before, true, after.strip_prefix('=').unwrap_or(after)),
    };
    Ok(FieldTerm { field: field.into(), is_equal, value: unescape(value)?.into() })
}

fn unescape(text: &str) -> Result<String, Error> {
    let bad_escape =
        |sequence: &str| Error(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut value = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(bad_escape(&format!("\\{other}"))),
                None => return Err(bad_escape("\\")),
            },
            // Go prints the number of the character here.
            ',' | '=' => {
                let number = u32::from(letter);
                return Err(Error(format!("invalid field selector: unescaped character in value: {number}")));
            }
            _ => value.push(letter),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let actual = match FieldSelector::parse(text) {
            Ok(selector) => {
                let shown = selector.to_string();
                assert_eq!(FieldSelector::parse(&shown).as_ref(), Ok(&selector), "parse undoes display");
                shown
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(actual, expected, "{text}");
    }

    #[test]
    fn selectors_are_read_and_printed() {
        check("", "");
        check(",,", "");
        check("metadata.name=a", "metadata.name=a");
        check("b==2,a!=1", "a!=1,b=2");
        check("a==b,a=a", "a=a,a=b");
        check("a=", "a=");
        check("=a", "=a");
        check(r"a=x\,y\=z\\", r"a=x\,y\=z\\");
        check("a= b ", "a= b ");
    }

    #[test]
    fn errors_are_the_known_ones() {
        check("metadata.name", "error: invalid selector: 'metadata.name'; can't understand 'metadata.name'");
        check("a=1,b in (c)", "error: invalid selector: 'a=1,b in (c)'; can't understand 'b in (c)'");
        check("a===b", "error: invalid field selector: unescaped character in value: 61");
        check(r"a=\x", r"error: invalid field selector: invalid escape sequence: \x");
        check(r"a=\", r"error: invalid field selector: invalid escape sequence: \");
    }

    #[test]
    fn matching_compares_with_empty_for_absent() {
        let matches = |text: &str| {
            let selector = FieldSelector::parse(text).expect("the text is a selector");
            selector.matches(|field| if field == "metadata.name" { "a" } else { "" })
        };
        let rows = [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("metadata.name=a,spec.nodeName=", true),
            ("spec.nodeName!=", false),
            ("", true),
        ];
        for (text, expected) in rows {
            assert_eq!(matches(text), expected, "{text}");
        }
    }

    #[test]
    fn a_required_value_is_seen() {
        let selector = FieldSelector::parse("metadata.name==a,metadata.namespace!=b").expect("a selector");
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("metadata.namespace"), None);
    }
}
