//! Acting as somebody else: `Impersonate-*` headers become an [`Identity`], if the caller may take on each part of it.
//!
//! There are five ways, tried in order. The plain one, verb `impersonate`, is good for every request. The constrained ones,
//! `impersonate:MODE`, are each for one sort of user, and also need `impersonate-on:MODE:VERB` on what the request is for.
//!
//! **Invariant:** every part (user, each group, each extra value, uid) is checked on its own; one refusal refuses the way. If no
//! way is open, the caller is told what the first that applies to this sort of user lacks.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::identity::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use super::policy::SERVICE_ACCOUNT_PREFIX;
use super::{Attributes, Authorizer, Identity, forbidden};
use crate::kinds::names;
use crate::status::Status;

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";
/// What the user names of nodes start with, and the group all of them are in.
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
/// Says in the identity of a Pod's service account on which node the Pod is.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// So many groups or extra values are first asked for at once, as all there are.
const MANY: usize = 4;
const EVERY: &str = "*";

/// A way to act as somebody else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A Pod's service account as the node the Pod is on.
    AssociatedNode,
    /// Any node.
    ArbitraryNode,
    ServiceAccount,
    /// Everybody else, with groups and all.
    UserInfo,
    /// Whoever it is.
    Plain,
}

impl Mode {
    /// The order in which they are tried.
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Plain];

    /// What it is called in verbs; `None`: it is not constrained.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Plain => None,
        }
    }

    /// Is it for this sort of user?
    fn applies(self, wanted: &Identity, who: &Identity) -> bool {
        let is_name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (account, node) = (service_account(&wanted.name), node(&wanted.name));
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

/// Whom the headers ask to act as for this request: `None` when they do not ask. 400 for half-given headers, 403 when not
/// allowed.
pub fn impersonate(
    headers: &HeaderMap,
    who: &Identity,
    what: &Attributes<'_>,
    authorizer: &Authorizer,
) -> Result<Option<Identity>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let wanted = wanted(headers);
    if wanted.name.is_empty() {
        let is_asked = wanted != Identity::default();
        let text = || format!("requested {} without impersonating a user name", shown(&wanted));
        return if is_asked { Err(Status::bad_request(text())) } else { Ok(None) };
    }
    let mut refused = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.applies(&wanted, who)) {
        match (Check { mode, who, authorizer }).check(&wanted, what) {
            Ok(()) => return Ok(Some(with_implied_groups(mode, wanted))),
            Err(status) => refused = refused.or(Some(status)),
        }
    }
    Err(refused.unwrap_or_else(|| Status::internal("no way to impersonate applies")))
}

fn wanted(headers: &HeaderMap) -> Identity {
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

/// One way being tried.
struct Check<'a> {
    mode: Mode,
    who: &'a Identity,
    authorizer: &'a Authorizer,
}

/// A part of an identity, as rules name it.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Check<'_> {
    fn check(&self, wanted: &Identity, what: &Attributes<'_>) -> Result<(), Status> {
        if let Some(mode) = self.mode.name() {
            self.check_request(mode, what)?;
        }
        self.may(self.user(&wanted.name))?;
        if !wanted.uid.is_empty() {
            self.may(Part { group: GROUP, resource: "uids", name: &wanted.uid, ..Part::default() })?;
        }
        self.check_groups(&wanted.groups)?;
        self.check_extra(&wanted.extra)
    }

    /// May they do this to what the request is for, as somebody else?
    fn check_request(&self, mode: &str, what: &Attributes<'_>) -> Result<(), Status> {
        let on = |verb: &str| format!("impersonate-on:{mode}:{verb}");
        match *what {
            Attributes::Path { verb, path } => {
                self.authorizer.check(self.who, &Attributes::Path { verb: &on(verb), path })
            }
            Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
                let verb = &on(verb);
                let what = Attributes::Resource { verb, group, resource, subresource, namespace, name };
                self.authorizer.check(self.who, &what)
            }
        }
    }

    /// The group in which users and groups are named: the plain way is older than the group of authentication.
    fn users_group(&self) -> &'static str {
        if self.mode == Mode::Plain { "" } else { GROUP }
    }

    fn user<'a>(&self, name: &'a str) -> Part<'a> {
        let group = self.users_group();
        let node = if self.mode == Mode::Plain { None } else { node(name) };
        match (service_account(name), node) {
            (Some((namespace, name)), _) => {
                Part { group, resource: "serviceaccounts", namespace, name, ..Part::default() }
            }
            (None, Some(node)) => {
                let name = if self.mode == Mode::AssociatedNode { EVERY } else { node };
                Part { group, resource: "nodes", name, ..Part::default() }
            }
            (None, None) => Part { group, resource: "users", name, ..Part::default() },
        }
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let part = |name| Part { group: self.users_group(), resource: "groups", name, ..Part::default() };
        if self.mode != Mode::Plain {
            let has = |name: &str| groups.iter().any(|group| group == name);
            if has("") {
                return Err(self.refusal(part(""), "impersonating the empty string group is not allowed"));
            }
            if has(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refusal(part(MASTERS), why));
            }
            if groups.len() >= MANY && self.may(part(EVERY)).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.may(part(group)))
    }

    fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let part = |subresource, name| Part {
            group: GROUP,
            resource: "userextras",
            subresource,
            name,
            ..Part::default()
        };
        let count = extra.values().map(Vec::len).sum::<usize>();
        if self.mode != Mode::Plain && count > 0 {
            if let Some(why) = extra.iter().find_map(|(key, values)| odd_extra(key, values)) {
                return Err(self.refusal(part("", ""), &why));
            }
            if count >= MANY && self.may(part(EVERY, EVERY)).is_ok() {
                return Ok(());
            }
        }
        let mut all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.try_for_each(|(key, value)| self.may(part(key, value)))
    }

    fn may(&self, part: Part<'_>) -> Result<(), Status> {
        let verb = self.verb();
        self.authorizer.check(self.who, &part.attributes(&verb))
    }

    fn refusal(&self, part: Part<'_>, why: &str) -> Status {
        forbidden::status(self.who, &part.attributes(&self.verb()), why)
    }

    fn verb(&self) -> String {
        self.mode.name().map_or_else(|| "impersonate".to_owned(), |mode| format!("impersonate:{mode}"))
    }
}

impl<'a> Part<'a> {
    fn attributes(self, verb: &'a str) -> Attributes<'a> {
        let Self { group, resource, subresource, namespace, name } = self;
        Attributes::Resource { verb, group, resource, subresource, namespace, name }
    }
}

/// What is wrong with an extra fact, if anything: the plain way takes them all.
fn odd_extra(key: &str, values: &[String]) -> Option<String> {
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

/// Adds the groups everyone of that sort is in.
fn with_implied_groups(mode: Mode, mut wanted: Identity) -> Identity {
    if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
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

/// The name of the node in its user name.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| names::subdomain(name).is_empty())
}

/// Namespace and name in the user name of a service account.
pub(super) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The groups every service account of the namespace is in.
pub(super) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
}

/// As Go prints the value in the refusal.
fn shown(wanted: &Identity) -> String {
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
        assert_eq!(with_implied_groups(Mode::Plain, wanted(&headers(pairs))).groups, expected);
    }

    #[test]
    fn groups_are_completed_as_the_user_deserves() {
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
        let wanted = wanted(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-extra-acme.com%2fproject", "x"),
            ("impersonate-extra-acme.com%2fproject", "y"),
        ]));
        assert_eq!(wanted.extra["acme.com/project"], ["x", "y"]);
    }

    #[test]
    fn constrained_ways_take_well_formed_extra_facts_only() {
        let check = |key: &str, values: &[&str], expected: Option<&str>| {
            let values = values.iter().map(ToString::to_string).collect::<Vec<_>>();
            let found = odd_extra(key, &values);
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
    fn half_given_headers_print_as_go_prints_them() {
        assert_eq!(
            shown(&wanted(&headers(&[("impersonate-group", "devs")]))),
            r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)}"#
        );
    }
}
