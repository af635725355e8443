//! Which objects a handler is for: by label, annotation, field or any test. Several filters must all match.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kind::object::ObjectTest;

/// What a label or annotation must be. A text means exactly this value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Is {
    /// Exactly this value.
    Exactly(String),
    /// One of these values.
    AnyOf(Vec<String>),
    /// Present, whatever its value.
    Present,
    /// Absent.
    Absent,
}

impl Is {
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

impl From<&str> for Is {
    fn from(value: &str) -> Self {
        Self::Exactly(value.to_owned())
    }
}

impl From<String> for Is {
    fn from(value: String) -> Self {
        Self::Exactly(value)
    }
}

pub(super) fn label(name: String, is: Is) -> ObjectTest {
    Arc::new(move |object| is.admits(get(object.meta().labels.as_ref(), &name)))
}

pub(super) fn annotation(name: String, is: Is) -> ObjectTest {
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
    fn check(is: impl Into<Is>, value: Option<&str>, expected: bool) {
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
        check(Is::any_of(["gold", "silver"]), Some("silver"), true);
        check(Is::any_of(["gold", "silver"]), Some("tin"), false);
        check(Is::Present, Some(""), true);
        check(Is::Present, None, false);
        check(Is::Absent, None, true);
        check(Is::Absent, Some("x"), false);
    }
}
