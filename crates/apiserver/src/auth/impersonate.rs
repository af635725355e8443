//! Acting as somebody else: `Impersonate-*` headers become an [`Identity`], if the caller may take on each part of it.
//!
//! **Invariant:** every part (user, each group, each extra value, uid) is checked on its own; one refusal refuses all.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use super::policy::SERVICE_ACCOUNT_PREFIX;
use super::{Attributes, Authorizer, Identity};
use crate::status::Status;

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

/// Whom the headers ask to act as: `None` when they do not ask. 400 for half-given headers, 403 when not allowed.
pub fn impersonate(
    headers: &HeaderMap,
    who: &Identity,
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
    check(&wanted, who, authorizer)?;
    Ok(Some(completed(wanted)))
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

fn check(wanted: &Identity, who: &Identity, authorizer: &Authorizer) -> Result<(), Status> {
    let may = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let what =
            Attributes::Resource { verb: "impersonate", group, resource, subresource, namespace, name };
        authorizer.check(who, &what)
    };
    match service_account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        may("", "groups", "", "", group)?;
    }
    for (key, value) in
        wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)))
    {
        may(GROUP, "userextras", key, "", value)?;
    }
    if wanted.uid.is_empty() { Ok(()) } else { may(GROUP, "uids", "", "", &wanted.uid) }
}

/// Adds the groups everyone of that sort is in.
fn completed(mut wanted: Identity) -> Identity {
    if wanted.groups.is_empty()
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
        assert_eq!(completed(wanted(&headers(pairs))).groups, expected);
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
    fn half_given_headers_print_as_go_prints_them() {
        assert_eq!(
            shown(&wanted(&headers(&[("impersonate-group", "devs")]))),
            r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)}"#
        );
    }
}
