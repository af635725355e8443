//! Represents the action that a request asks for, and the decision about it. This module contains only data.

/// The action that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAttributes<'a> {
    /// An API resource.
    Resource {
        /// `get`, `list`, `create` …
        verb: &'a str,
        /// API group.
        group: &'a str,
        /// Plural resource.
        resource: &'a str,
        /// Subresource, or empty.
        subresource: &'a str,
        /// Namespace, or empty.
        namespace: &'a str,
        /// Object name, or empty.
        name: &'a str,
    },
    /// Any other path.
    Path {
        /// `get`, `post` …, in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// The decision of the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, for this reason.
    Allow(String),
    /// Nothing allows it.
    NoOpinion,
}

impl Decision {
    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}
