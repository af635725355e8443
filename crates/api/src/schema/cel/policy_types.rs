//! Checks the expressions of a ValidatingAdmissionPolicy against the schemas of the kinds it matches, for the policy's
//! status.
//!
//! The warnings are kube-apiserver's, word for word. They never change what a policy does.

use serde_json::Value;

use super::admission_scope::AdmissionScope;
use super::resolve_schema::{built_in_schema, custom_schema};
use super::source::on_deep_stack;
use super::types::{CelType, DeclaredType};

/// A kind that a policy matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedKind {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// The schema in its definition, for a custom kind.
    pub definition: Option<Value>,
}

/// The schema of the parameters of a policy.
#[derive(Clone, Debug)]
pub enum ParameterSchema {
    /// The policy takes none.
    None,
    /// They may have any type.
    Unknown,
    /// They are objects of this kind.
    Kind(CheckedKind),
}

/// A problem with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The path of the expression.
    pub field_ref: String,
    /// The problem, and the kinds for which it occurs.
    pub warning: String,
}

impl CheckedKind {
    /// Returns the type of its objects; `None` if it has no schema.
    fn declared(&self) -> Option<CelType> {
        let schema = match &self.definition {
            Some(schema) => custom_schema(schema),
            None => built_in_schema(&self.group, &self.version, &self.kind)?,
        };
        DeclaredType::read_kind(&schema, &self.kind).map(|declared| declared.type_of())
    }
}

/// Returns the warnings about the validations of a policy for objects of these kinds.
pub fn expression_warnings(
    policy: &Value,
    kinds: &[CheckedKind],
    params: &ParameterSchema,
) -> Vec<ExpressionWarning> {
    on_deep_stack(|| {
        let params = match params {
            ParameterSchema::None => None,
            ParameterSchema::Unknown => Some(CelType::Dyn),
            ParameterSchema::Kind(kind) => Some(kind.declared().unwrap_or(CelType::Dyn)),
        };
        let scopes = kinds.iter().filter_map(|kind| {
            let scope = AdmissionScope::typed(kind.declared()?, params.clone());
            Some((kind, with_variables_of(policy, scope)))
        });
        let scopes: Vec<_> = scopes.collect();
        let validations = policy["spec"]["validations"].as_array().into_iter().flatten().enumerate();
        let places = validations.flat_map(|(at, validation)| {
            ["expression", "messageExpression"].map(|field| (at, field, &validation[field]))
        });
        let texts = places.filter_map(|(at, field, text)| Some((at, field, text.as_str()?)));
        let texts = texts.filter(|(_, field, text)| *field == "expression" || !text.is_empty());
        let warnings = texts.filter_map(|(at, field, text)| {
            let warning = warning(text, &scopes)?;
            Some(ExpressionWarning { field_ref: format!("spec.validations[{at}].{field}"), warning })
        });
        warnings.collect()
    })
}

fn with_variables_of(policy: &Value, mut scope: AdmissionScope) -> AdmissionScope {
    for variable in policy["spec"]["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let found = scope.result_of(text("expression")).ok();
        scope.set_variable(text("name"), found);
    }
    scope
}

fn warning(text: &str, scopes: &[(&CheckedKind, AdmissionScope)]) -> Option<String> {
    let faults = scopes.iter().filter_map(|(kind, scope)| {
        let why = scope.result_of(text).err()?;
        Some(format!("{}/{}, Kind={}: {why}\n", kind.group, kind.version, kind.kind))
    });
    let faults: Vec<_> = faults.collect();
    (!faults.is_empty()).then(|| faults.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn built_in(group: &str, kind: &str) -> CheckedKind {
        CheckedKind { group: group.into(), version: "v1".into(), kind: kind.into(), definition: None }
    }

    #[track_caller]
    fn check(policy: &Value, kinds: &[CheckedKind], expected: &[(&str, &str)]) {
        let found = expression_warnings(policy, kinds, &ParameterSchema::None);
        let found: Vec<_> = found.iter().map(|warning| (&*warning.field_ref, &*warning.warning)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn expressions_are_checked_for_every_kind() {
        let policy = json!({"spec": {"validations": [
            {"expression": "object.spec.replicas > 1"},
            {"expression": "object.spec.replicas > '1'",
             "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"},
            {"expression": "object.metadata.creationTimestamp > timestamp('2026-01-01T00:00:00Z')"},
            {"expression": "object.spec.template.spec.containers.all(c, c.ports.all(p, p.containerPort > 1))"},
            {"expression": "authorizer.group('').resource('pods').check('get').allowed()"}]}});
        let first = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to \
            '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";
        let both = format!("{first}\n{}", first.replace("Deployment", "StatefulSet"));
        let message = "apps/v1, Kind=Deployment: ERROR: <input>:1:28: found no matching overload for '_+_' applied to \
            '(string, int)'\n | 'wants replicas > 1, got ' + object.spec.replicas\n | ...........................^\n";
        let messages = format!("{message}\n{}", message.replace("Deployment", "StatefulSet"));
        check(
            &policy,
            &[built_in("apps", "Deployment"), built_in("apps", "StatefulSet")],
            &[
                ("spec.validations[1].expression", &both),
                ("spec.validations[1].messageExpression", &messages),
            ],
        );
        check(&policy, &[], &[]);
        check(&policy, &[built_in("apps", "Unknown")], &[]);
    }

    #[test]
    fn a_custom_kind_is_checked_by_its_definition() {
        let definition = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}});
        let kind = CheckedKind {
            group: "demo.dev".into(),
            version: "v1".into(),
            kind: "Cron".into(),
            definition: Some(definition),
        };
        let policy = json!({"spec": {
            "variables": [{"name": "wanted", "expression": "object.spec.replicas"}],
            "validations": [
                {"expression": "object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'"},
                {"expression": "object.spec.template.metadata.uid != ''"},
                {"expression": "object.spec.maxRetries < 10"},
                {"expression": "variables.wanted == 'a'"}]}});
        let missing = "demo.dev/v1, Kind=Cron: ERROR: <input>:1:12: undefined field 'maxRetries'\n \
            | object.spec.maxRetries < 10\n | ...........^\n";
        let variable = "demo.dev/v1, Kind=Cron: ERROR: <input>:1:18: found no matching overload for '_==_' applied to \
            '(int, string)'\n | variables.wanted == 'a'\n | .................^\n";
        let expected =
            [("spec.validations[2].expression", missing), ("spec.validations[3].expression", variable)];
        check(&policy, &[kind], &expected);
    }

    #[test]
    fn parameters_have_the_type_of_their_kind() {
        let policy = json!({"spec": {"validations": [{"expression": "params.data.replicas == 3"}]}});
        let found =
            |params: &ParameterSchema| expression_warnings(&policy, &[built_in("", "Pod")], params).len();
        assert_eq!(found(&ParameterSchema::Kind(built_in("", "ConfigMap"))), 1);
        assert_eq!(found(&ParameterSchema::Unknown), 0);
        assert_eq!(found(&ParameterSchema::None), 1);
    }

    /// Covers a type that contains itself, and the kind with the largest schema.
    #[test]
    fn every_schema_comes_to_an_end() {
        let validations =
            json!([{"expression": "object.spec.versions[0].schema.openAPIV3Schema.items.type == 'x'"}]);
        let definition = built_in("apiextensions.k8s.io", "CustomResourceDefinition");
        let policy = json!({"spec": {"validations": validations}});
        let found = expression_warnings(&policy, &[definition, built_in("", "Pod")], &ParameterSchema::None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].warning.contains("undefined field 'versions'"), "{found:?}");
    }
}
