//! Filters that select the objects of a handler: by label, annotation, field or any test. All of them must match.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kind::object::ObjectTest;

/// A condition for a label or annotation. A string means exactly this value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueFilter {
    /// Exactly this value.
    Exactly(String),
    /// One of these values.
    AnyOf(Vec<String>),
    /// Present, with any value.
    Present,
    /// Absent.
    Absent,
}

impl ValueFilter {
    /// Matches any of these values.
    pub fn any_of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::AnyOf(values.into_iter().map(Into::into).collect())
    }

    fn admits(&self, value: Option<&String>) -> bool {
        match (self, value) {
            (Self::Exactly(wanted), Some(value)) => wanted == value,
            (Self::AnyOf(wanted), Some(value)) => wanted.contains(value),
            (Self::Present, value) => value.is_some(),
            (Self::Absent, value) => value.is_none(),
            (Self::Exactly(_) | Self::AnyOf(_), None) => false,
        }
    }
}

impl From<&str> for ValueFilter {
    fn from(value: &str) -> Self {
        Self::Exactly(value.to_owned())
    }
}

impl From<String> for ValueFilter {
    fn from(value: String) -> Self {
        Self::Exactly(value)
    }
}

pub(super) fn label(name: String, is: ValueFilter) -> ObjectTest {
    Arc::new(move |object| is.admits(get(object.meta().labels.as_ref(), &name)))
}

pub(super) fn annotation(name: String, is: ValueFilter) -> ObjectTest {
    Arc::new(move |object| is.admits(get(object.meta().annotations.as_ref(), &name)))
}

fn get<'a>(map: Option<&'a BTreeMap<String, String>>, name: &str) -> Option<&'a String> {
    map.and_then(|map| map.get(name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[track_caller]
    fn check(is: impl Into<ValueFilter>, value: Option<&str>, expected: bool) {
        let mut map = ConfigMap::default();
        map.metadata.labels = value.map(|value| [("tier".to_owned(), value.to_owned())].into());
        map.metadata.annotations = map.metadata.labels.clone();
        let is = is.into();
        assert_eq!(label("tier".into(), is.clone())(&map), expected);
        assert_eq!(annotation("tier".into(), is)(&map), expected);
    }

    #[test]
    fn labels_and_annotations() {
        check("gold", Some("gold"), true);
        check("gold", Some("tin"), false);
        check("gold", None, false);
        check(ValueFilter::any_of(["gold", "silver"]), Some("silver"), true);
        check(ValueFilter::any_of(["gold", "silver"]), Some("tin"), false);
        check(ValueFilter::Present, Some(""), true);
        check(ValueFilter::Present, None, false);
        check(ValueFilter::Absent, None, true);
        check(ValueFilter::Absent, Some("x"), false);
    }
}
