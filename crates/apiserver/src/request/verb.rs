//! The verb of a request on a resource, in the words of discovery and of rules.
//!
//! **Invariant:** a request has one verb, derived once from its method, path and query, when it is routed.

use http::Method;

use super::{Query, ResourcePath};

/// What a request does to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Returns the verb of a request; `None` if resources have no such method.
    pub(crate) fn of_request(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        let has_name = !path.name.is_empty();
        Some(match *method {
            Method::GET if path.is_watch => Self::Watch,
            Method::GET if has_name => Self::Get,
            Method::GET if query.flag("watch") => Self::Watch,
            Method::GET => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if has_name => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// Returns the verb for which a request is authorized. HEAD counts as GET, and the old `/watch/` prefix makes
    /// every method a watch; methods other than GET are refused afterwards.
    pub(crate) fn to_authorize(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        match *method {
            _ if path.is_watch => Some(Self::Watch),
            Method::HEAD => Self::of_request(&Method::GET, path, query),
            _ => Self::of_request(method, path, query),
        }
    }

    /// Returns its name in discovery and in rules.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}
