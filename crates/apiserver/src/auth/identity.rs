//! Who asks, and what for. Data only.

use std::collections::BTreeMap;

/// Members pass every check; the group of the generated admin credentials.
pub const MASTERS: &str = "system:masters";
/// Everyone who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everyone who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub name: String,
    /// Stable id of the user, often empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The all-powerful user of in-process callers.
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".into(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Is this user in the group?
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// A resource of the API.
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
        /// `get`, `post` … in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// Whether they may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, because of this.
    Allow(String),
    /// No one said yes.
    NoOpinion,
}

impl Decision {
    /// Is it a yes?
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}
