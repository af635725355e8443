//! Words the refusal of an action exactly as Kubernetes does: clients and people match on the text.

use homeostat_api::status::{ResourceName, Status};

use super::{Identity, RequestAttributes};

/// Returns the 403 status that names the user and the action; `why` is appended unless it is empty.
pub fn status(who: &Identity, what: &RequestAttributes<'_>, why: &str) -> Status {
    let mut text = escape_markup(&describe_denial(who, what));
    if !why.is_empty() {
        text = format!("{text}: {why}");
    }
    match *what {
        RequestAttributes::Path { .. } => {
            Status::forbidden(&ResourceName { group: "", resource: "", name: "" }, &text)
        }
        RequestAttributes::Resource { group, resource, name, .. } => {
            Status::forbidden(&ResourceName { group, resource, name }, &text)
        }
    }
}

fn describe_denial(who: &Identity, what: &RequestAttributes<'_>) -> String {
    let user = &who.name;
    match *what {
        RequestAttributes::Path { verb, path } => format!("User {user:?} cannot {verb} path {path:?}"),
        RequestAttributes::Resource { verb, group, resource, subresource, namespace, .. } => {
            let resource = match subresource {
                "" => resource.to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            let place = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
        }
    }
}

/// Escapes characters that a browser could interpret as markup, as Kubernetes does.
fn escape_markup(text: &str) -> String {
    if !text.contains(['&', '<', '>']) {
        return text.to_owned();
    }
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_user_verb_resource_and_place() {
        let jane = Identity { name: "jane".into(), ..Identity::default() };
        let check = |what: RequestAttributes<'_>, expected: &str| {
            assert_eq!(status(&jane, &what, "").message, expected);
        };
        check(
            RequestAttributes::Resource {
                verb: "get",
                group: "apps",
                resource: "deployments",
                subresource: "scale",
                namespace: "a",
                name: "x",
            },
            r#"deployments.apps "x" is forbidden: User "jane" cannot get resource "deployments/scale" in API group "apps" in the namespace "a""#,
        );
        check(
            RequestAttributes::Resource {
                verb: "list",
                group: "",
                resource: "nodes",
                subresource: "",
                namespace: "",
                name: "",
            },
            r#"nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope"#,
        );
        check(
            RequestAttributes::Path { verb: "get", path: "/metrics" },
            r#"forbidden: User "jane" cannot get path "/metrics""#,
        );
    }
}
