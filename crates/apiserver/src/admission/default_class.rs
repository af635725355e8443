//! Chooses among several default storage or ingress classes: the newest wins, then the first by name.

use homeostat_api::object::meta;
use serde_json::Value;

/// Returns the name of the class on which one of these annotations is `true`.
pub(super) fn default_class(classes: &[Value], annotations: &[&str]) -> Option<String> {
    let is_default = |class: &&Value| {
        annotations.iter().any(|name| class["metadata"]["annotations"][*name].as_str() == Some("true"))
    };
    let newest_first = |one: &&Value, other: &&Value| {
        let created = |class: &Value| meta::text(class, "creationTimestamp").to_owned();
        created(other).cmp(&created(one)).then_with(|| meta::name(one).cmp(meta::name(other)))
    };
    let chosen = classes.iter().filter(is_default).min_by(newest_first);
    chosen.map(|class| meta::name(class).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_default_counts_then_the_first_by_name() {
        let class = |name: &str, created: &str, default: &str| json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {"default": default}}});
        let [old, day] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"];
        let check = |classes: &[Value], expected: Option<&str>| {
            assert_eq!(default_class(classes, &["default"]).as_deref(), expected);
        };
        check(&[], None);
        check(&[class("a", old, "false")], None);
        check(&[class("a", old, "true"), class("c", day, "true"), class("b", day, "true")], Some("b"));
    }
}
