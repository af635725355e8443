//! Implements impersonation: `Impersonate-*` headers become an [`Identity`], if the caller may assume each part of it.
//!
//! There are five modes, tried in order. The plain mode, verb `impersonate`, applies to every request. The
//! constrained modes, `impersonate:MODE`, each apply to one type of user, and also require `impersonate-on:MODE:VERB`
//! on the object of the request.
//!
//! **Invariant:** every part (user, each group, each extra value, uid) is checked on its own; one refusal refuses the
//! mode. If no mode allows it, the caller gets the refusal from the first mode that applies to this type of user.

use std::collections::BTreeMap;

use homeostat_api::names;
use homeostat_api::status::Status;
use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::rbac_index::SERVICE_ACCOUNT_PREFIX;
use super::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use super::{Authorizer, Identity, RequestAttributes, forbidden};

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";
/// The prefix of the user names of nodes, and the group of all nodes.
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
/// The extra field that names the node on which the Pod of a service account runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// If there are at least this many groups or extra values, the check first tries all of them together.
const ASKED_TOGETHER_FROM: usize = 4;
const EVERY: &str = "*";

/// A mode of impersonation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImpersonationMode {
    /// A Pod's service account impersonates the node on which the Pod runs.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    ServiceAccount,
    /// Any other user, with groups, uid and extra fields.
    UserInfo,
    /// Any user.
    Plain,
}

impl ImpersonationMode {
    /// The order in which they are tried.
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Plain];

    /// Returns its name in verbs; `None` for the unconstrained mode.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Plain => None,
        }
    }

    /// Returns whether the mode applies to this type of user.
    fn applies(self, wanted: &Identity, who: &Identity) -> bool {
        let is_name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (account, node) = (service_account(&wanted.name), node_name(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let own = who.extra.get(NODE_NAME).map(Vec::as_slice);
                let is_own = matches!((own, node), (Some([own]), Some(node)) if own == node);
                is_name_only && is_own && service_account(&who.name).is_some()
            }
            Self::ArbitraryNode => is_name_only && node.is_some(),
            Self::ServiceAccount => is_name_only && account.is_some(),
            Self::UserInfo => account.is_none() && node.is_none(),
            Self::Plain => true,
        }
    }
}

/// Returns the user that the headers ask to impersonate for this request; `None` if they do not ask. Refuses
/// incomplete headers with 400, and impersonation that is not allowed with 403.
pub fn impersonate(
    headers: &HeaderMap,
    who: &Identity,
    what: &RequestAttributes<'_>,
    authorizer: &Authorizer,
) -> Result<Option<Identity>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let wanted = identity_from_headers(headers);
    if wanted.name.is_empty() {
        let is_asked = wanted != Identity::default();
        let text = || format!("requested {} without impersonating a user name", debug_text_of_go(&wanted));
        return if is_asked { Err(Status::bad_request(text())) } else { Ok(None) };
    }
    let mut refused = None;
    for mode in ImpersonationMode::ALL.into_iter().filter(|mode| mode.applies(&wanted, who)) {
        match (ImpersonationCheck { mode, who, authorizer }).check(&wanted, what) {
            Ok(()) => return Ok(Some(with_implied_groups(mode, wanted))),
            Err(status) => refused = refused.or(Some(status)),
        }
    }
    Err(refused.unwrap_or_else(|| Status::internal("no way to impersonate applies")))
}

fn identity_from_headers(headers: &HeaderMap) -> Identity {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
            extra.entry(key).or_default().push(text(value));
        }
    }
    Identity {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra,
    }
}

/// The check of one mode.
struct ImpersonationCheck<'a> {
    mode: ImpersonationMode,
    who: &'a Identity,
    authorizer: &'a Authorizer,
}

/// A part of an identity, in the form that rules use.
#[derive(Clone, Copy, Default)]
struct IdentityPart<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl ImpersonationCheck<'_> {
    fn check(&self, wanted: &Identity, what: &RequestAttributes<'_>) -> Result<(), Status> {
        if let Some(mode) = self.mode.name() {
            self.check_request(mode, what)?;
        }
        self.may(self.user(&wanted.name))?;
        if !wanted.uid.is_empty() {
            self.may(IdentityPart {
                group: GROUP,
                resource: "uids",
                name: &wanted.uid,
                ..IdentityPart::default()
            })?;
        }
        self.check_groups(&wanted.groups)?;
        self.check_extra(&wanted.extra)
    }

    /// Checks that the user may act on the object of the request while impersonating someone.
    fn check_request(&self, mode: &str, what: &RequestAttributes<'_>) -> Result<(), Status> {
        let on = |verb: &str| format!("impersonate-on:{mode}:{verb}");
        match *what {
            RequestAttributes::Path { verb, path } => {
                self.authorizer.authorize(self.who, &RequestAttributes::Path { verb: &on(verb), path })
            }
            RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
                let verb = &on(verb);
                let what =
                    RequestAttributes::Resource { verb, group, resource, subresource, namespace, name };
                self.authorizer.authorize(self.who, &what)
            }
        }
    }

    /// Returns the API group of users and groups. The plain mode predates the authentication group.
    fn users_group(&self) -> &'static str {
        if self.mode == ImpersonationMode::Plain { "" } else { GROUP }
    }

    fn user<'a>(&self, name: &'a str) -> IdentityPart<'a> {
        let group = self.users_group();
        let node = if self.mode == ImpersonationMode::Plain { None } else { node_name(name) };
        match (service_account(name), node) {
            (Some((namespace, name)), _) => IdentityPart {
                group,
                resource: "serviceaccounts",
                namespace,
                name,
                ..IdentityPart::default()
            },
            (None, Some(node)) => {
                let name = if self.mode == ImpersonationMode::AssociatedNode { EVERY } else { node };
                IdentityPart { group, resource: "nodes", name, ..IdentityPart::default() }
            }
            (None, None) => IdentityPart { group, resource: "users", name, ..IdentityPart::default() },
        }
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let part = |name| IdentityPart {
            group: self.users_group(),
            resource: "groups",
            name,
            ..IdentityPart::default()
        };
        if self.mode != ImpersonationMode::Plain {
            let has = |name: &str| groups.iter().any(|group| group == name);
            if has("") {
                return Err(self.refusal(part(""), "impersonating the empty string group is not allowed"));
            }
            if has(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refusal(part(MASTERS), why));
            }
            if groups.len() >= ASKED_TOGETHER_FROM && self.may(part(EVERY)).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.may(part(group)))
    }

    fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let part = |subresource, name| IdentityPart {
            group: GROUP,
            resource: "userextras",
            subresource,
            name,
            ..IdentityPart::default()
        };
        let count = extra.values().map(Vec::len).sum::<usize>();
        if self.mode != ImpersonationMode::Plain && count > 0 {
            if let Some(why) = extra.iter().find_map(|(key, values)| extra_error(key, values)) {
                return Err(self.refusal(part("", ""), &why));
            }
            if count >= ASKED_TOGETHER_FROM && self.may(part(EVERY, EVERY)).is_ok() {
                return Ok(());
            }
        }
        let mut all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.try_for_each(|(key, value)| self.may(part(key, value)))
    }

    fn may(&self, part: IdentityPart<'_>) -> Result<(), Status> {
        let verb = self.verb();
        self.authorizer.authorize(self.who, &part.attributes(&verb))
    }

    fn refusal(&self, part: IdentityPart<'_>, why: &str) -> Status {
        forbidden::status(self.who, &part.attributes(&self.verb()), why)
    }

    fn verb(&self) -> String {
        self.mode.name().map_or_else(|| "impersonate".to_owned(), |mode| format!("impersonate:{mode}"))
    }
}

impl<'a> IdentityPart<'a> {
    fn attributes(self, verb: &'a str) -> RequestAttributes<'a> {
        let Self { group, resource, subresource, namespace, name } = self;
        RequestAttributes::Resource { verb, group, resource, subresource, namespace, name }
    }
}

/// Returns the problem with an extra field, if there is one. The plain mode accepts all of them.
fn extra_error(key: &str, values: &[String]) -> Option<String> {
    let (domain, path) = key.split_once('/').unwrap_or_default();
    let is_path = |one: char| one.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(one);
    let invalid = |part: &str, why: &str| {
        let what = "impersonating an invalid key in extra is not allowed: extra.key";
        Some(format!("{what}: Invalid value: {part:?}: {why}"))
    };
    if key.is_empty() {
        Some("impersonating the empty string key in extra is not allowed".into())
    } else if domain.is_empty() || path.is_empty() {
        invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")")
    } else if let Some(why) = names::subdomain(domain).first() {
        invalid(domain, why)
    } else if !path.chars().all(is_path) {
        invalid(path, r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')")
    } else if key.chars().any(char::is_uppercase) {
        Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"))
    } else if values.iter().any(String::is_empty) {
        Some("impersonating the empty string value in extra is not allowed".into())
    } else {
        None
    }
}

/// Adds the groups that every user of this type belongs to.
fn with_implied_groups(mode: ImpersonationMode, mut wanted: Identity) -> Identity {
    if matches!(mode, ImpersonationMode::AssociatedNode | ImpersonationMode::ArbitraryNode) {
        wanted.groups = vec![NODES.into()];
    } else if wanted.groups.is_empty()
        && let Some((namespace, _)) = service_account(&wanted.name)
    {
        wanted.groups = service_account_groups(namespace);
    }
    let is_anonymous = wanted.name == ANONYMOUS;
    let is_stated = wanted.is_in(UNAUTHENTICATED) || (!is_anonymous && wanted.is_in(AUTHENTICATED));
    if !is_stated {
        wanted.groups.push(if is_anonymous { UNAUTHENTICATED } else { AUTHENTICATED }.into());
    }
    wanted
}

/// Returns the name of the node from its user name.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| names::subdomain(name).is_empty())
}

/// Returns the namespace and name from the user name of a service account.
pub(super) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Returns the groups of every service account in the namespace.
pub(super) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// Formats the identity as Go prints it in the refusal.
fn debug_text_of_go(wanted: &Identity) -> String {
    let list = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let groups = match &*wanted.groups {
        [] => "[]string(nil)".to_owned(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let extra = wanted.extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", list(values)));
    let extra = match &*extra.collect::<Vec<_>>() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}",
        wanted.name, wanted.uid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[track_caller]
    fn check_groups(pairs: &[(&'static str, &str)], expected: &[&str]) {
        assert_eq!(
            with_implied_groups(ImpersonationMode::Plain, identity_from_headers(&headers(pairs))).groups,
            expected
        );
    }

    #[test]
    fn implied_groups_are_added() {
        check_groups(&[("impersonate-user", "jane")], &[AUTHENTICATED]);
        check_groups(&[("impersonate-user", ANONYMOUS)], &[UNAUTHENTICATED]);
        check_groups(&[("impersonate-user", "jane"), ("impersonate-group", "x")], &["x", AUTHENTICATED]);
        check_groups(
            &[("impersonate-user", "jane"), ("impersonate-group", UNAUTHENTICATED)],
            &[UNAUTHENTICATED],
        );
        check_groups(
            &[("impersonate-user", "system:serviceaccount:a:bot")],
            &["system:serviceaccounts", "system:serviceaccounts:a", AUTHENTICATED],
        );
        check_groups(&[("impersonate-user", "system:serviceaccount:a:b:c")], &[AUTHENTICATED]);
    }

    #[test]
    fn extra_keys_are_decoded() {
        let wanted = identity_from_headers(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-extra-acme.com%2fproject", "x"),
            ("impersonate-extra-acme.com%2fproject", "y"),
        ]));
        assert_eq!(wanted.extra["acme.com/project"], ["x", "y"]);
    }

    #[test]
    fn constrained_modes_accept_only_well_formed_extra_fields() {
        let check = |key: &str, values: &[&str], expected: Option<&str>| {
            let values = values.iter().map(ToString::to_string).collect::<Vec<_>>();
            let found = extra_error(key, &values);
            let is_same = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_same, "{key:?}: {found:?}");
        };
        check("acme.com/scope", &["x"], None);
        check("", &["x"], Some("empty string key"));
        check("scope", &["x"], Some("must be a domain-prefixed path"));
        check("acme.com/", &["x"], Some("must be a domain-prefixed path"));
        check("Acme.com/scope", &["x"], Some("RFC 1123 subdomain"));
        check("acme.com/a b", &["x"], Some("Invalid path"));
        check("acme.com/Scope", &["x"], Some("non-lowercase key"));
        check("acme.com/scope", &["x", ""], Some("empty string value"));
    }

    #[test]
    fn incomplete_headers_are_printed_as_in_go() {
        assert_eq!(
            debug_text_of_go(&identity_from_headers(&headers(&[("impersonate-group", "devs")]))),
            r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)}"#
        );
    }
}
