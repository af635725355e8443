//! Role bindings, of a namespace and of the whole cluster: the role they give, and to whom, by kind of subject.
//! Roles themselves have no cells of their own.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read};

pub(crate) fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", read::text(object, "roleRef.kind"), read::text(object, "roleRef.name"));
    vec![
        read::name(object).into(),
        role.into(),
        age::of(object, now).into(),
        subjects(object, "User").into(),
        subjects(object, "Group").into(),
        subjects(object, "ServiceAccount").into(),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let of_kind = read::list(object, "subjects").iter().filter(|subject| read::text(subject, "kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", read::text(subject, "namespace"), read::text(subject, "name")),
        _ => read::text(subject, "name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subjects_are_listed_by_kind() {
        let object = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]});
        let printed = json!(["b", "ClusterRole/admin", "<unknown>", "u, v", "", "n/s"]);
        assert_eq!(Value::from(binding(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
