//! Defines the scope of expressions in policies and match conditions, and checks an expression when it is written:
//! syntax, names, overloads, and the type of the result.
//!
//! Objects are `dyn` unless their schema is given, so only errors that affect every object are found; `request`,
//! `namespaceObject`, `authorizer` and the variables of the policy have types, as in Kubernetes. An expression that
//! Kubernetes accepts is never rejected: the types of patches are not known here, so mutations are only parsed.

use std::sync::{Arc, LazyLock};

use cel::IdedExpr;
use cel::common::ast::Expr;
use kube_cel::cel;

use super::authorizer::REQUEST_RESOURCE;
use super::check::check_in;
use super::expand::expand;
use super::source::{on_deep_stack, parse};
use super::types::{CelType, DeclaredShape, DeclaredType};

/// The type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CelResultType {
    /// A boolean.
    Bool,
    /// A string.
    Text,
    /// A string or null.
    TextOrNull,
    /// Any type.
    Any,
    /// A patch or a configuration, whose types are not known here.
    Unchecked,
}

/// The variables that expressions may use, with their types.
#[derive(Clone, Debug)]
pub struct AdmissionScope {
    object: CelType,
    params: Option<CelType>,
    has_authorizer: bool,
    /// Whether `authorizer.requestResource` is known; it is not when Kubernetes checks types against schemas.
    has_request_resource: bool,
    /// The type of `variables`; `None` where there are none.
    variables: Option<Arc<DeclaredType>>,
}

impl AdmissionScope {
    /// Creates the scope for match conditions.
    pub fn new(has_params: bool) -> Self {
        let params = has_params.then_some(CelType::Dyn);
        Self {
            object: CelType::Dyn,
            params,
            has_authorizer: true,
            has_request_resource: true,
            variables: None,
        }
    }

    /// Creates the scope in which Kubernetes checks types against schemas.
    pub(super) fn typed(object: CelType, params: Option<CelType>) -> Self {
        Self { object, params, has_request_resource: false, ..Self::new(false) }.with_variables()
    }

    /// Adds `variables`, which has no fields yet.
    #[must_use]
    pub fn with_variables(mut self) -> Self {
        self.variables = Some(DeclaredType::object_with("kubernetes.variables", []));
        self
    }

    /// Returns the same scope without `authorizer`.
    #[must_use]
    pub fn without_authorizer(&self) -> Self {
        Self { has_authorizer: false, ..self.clone() }
    }

    /// Defines a variable by its expression. Returns why the expression cannot be used, with Kubernetes' wording.
    pub fn define_variable(&mut self, name: &str, text: &str) -> Option<String> {
        let found = on_deep_stack(|| self.result_of(text));
        let fault = found.as_ref().err().map(|why| format!("compilation failed: {why}"));
        self.set_variable(name, found.ok());
        fault
    }

    /// Sets the type of a variable; a variable that cannot be compiled may have any type.
    pub(super) fn set_variable(&mut self, name: &str, found: Option<CelType>) {
        let kind = found.map_or(CelType::Dyn, |kind| composed(&kind));
        let declared = self.variables.as_mut().and_then(Arc::get_mut).map(|declared| &mut declared.shape);
        if let Some(DeclaredShape::Object(fields)) = declared {
            fields.insert(name.to_owned(), DeclaredType::unsized_value(kind));
        }
    }

    /// Returns why an expression cannot be used, with Kubernetes' wording.
    pub fn fault(&self, text: &str, wanted: CelResultType) -> Option<String> {
        on_deep_stack(|| self.check(text, wanted)).err()
    }

    fn check(&self, text: &str, wanted: CelResultType) -> Result<(), String> {
        let failed = |why: String| format!("compilation failed: {why}");
        let parsed = parse(text).map_err(failed)?;
        if wanted == CelResultType::Unchecked {
            return Ok(());
        }
        let is_chain = is_selection(&parsed);
        let result = self.result_of_parsed(parsed, text).map_err(failed)?;
        // The result of an unknown function is also `dyn`; the result of a selection certainly is.
        let is_unknown = matches!(result, CelType::Dyn) && !is_chain;
        let (is_wanted, words) = match wanted {
            CelResultType::Bool => (matches!(result, CelType::Bool), "must evaluate to bool"),
            CelResultType::Text => (matches!(result, CelType::String), "must evaluate to string"),
            CelResultType::TextOrNull => (
                matches!(result, CelType::String | CelType::Null),
                "must evaluate to one of [string null_type]",
            ),
            CelResultType::Any | CelResultType::Unchecked => (true, ""),
        };
        if is_wanted || is_unknown { Ok(()) } else { Err(format!("{words} but got {result}")) }
    }

    /// Returns the type of an expression; the error is cel-go's message. Needs a deep stack.
    pub(super) fn result_of(&self, text: &str) -> Result<CelType, String> {
        self.result_of_parsed(parse(text)?, text)
    }

    fn result_of_parsed(&self, parsed: IdedExpr, text: &str) -> Result<CelType, String> {
        check_in(&expand(parsed), text, self.names()).map(|checked| checked.result)
    }

    fn names(&self) -> Vec<(String, CelType)> {
        let mut names = vec![
            ("object", self.object.clone()),
            ("oldObject", self.object.clone()),
            ("request", REQUEST.clone()),
            ("namespaceObject", NAMESPACE.clone()),
        ];
        names.extend(self.params.clone().map(|kind| ("params", kind)));
        names.extend(self.variables.as_ref().map(|declared| ("variables", declared.type_of())));
        if self.has_authorizer {
            names.push(("authorizer", CelType::AUTHORIZER));
        }
        if self.has_authorizer && self.has_request_resource {
            names.push((REQUEST_RESOURCE, CelType::RESOURCE_CHECK));
        }
        names.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect()
    }
}

/// Returns the type that a variable of this type has in other expressions: Kubernetes keeps the types of plain values,
/// lists and maps.
fn composed(kind: &CelType) -> CelType {
    match kind {
        CelType::List(of) => CelType::list(composed(of)),
        CelType::Map(key, value) => CelType::map(composed(key), composed(value)),
        CelType::Null
        | CelType::Bool
        | CelType::Int
        | CelType::Uint
        | CelType::Double
        | CelType::String
        | CelType::Bytes
        | CelType::Timestamp
        | CelType::Duration => kind.clone(),
        _ => CelType::Dyn,
    }
}

/// Returns whether an expression only selects fields of a variable.
fn is_selection(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Ident(_) => true,
        Expr::Select(select) => !select.test && is_selection(&select.operand),
        _ => false,
    }
}

fn object(name: &str, fields: &[(&str, &CelType)]) -> CelType {
    let fields = fields.iter().map(|(field, kind)| ((*field).to_owned(), CelType::clone(kind)));
    DeclaredType::object_with(name, fields).type_of()
}

/// The type of `request`.
static REQUEST: LazyLock<CelType> = LazyLock::new(|| {
    use CelType::{Bool, Dyn, String};
    let texts = CelType::list(String);
    let extra = CelType::map(String, texts.clone());
    let kind = &object(
        "kubernetes.GroupVersionKind",
        &[("group", &String), ("version", &String), ("kind", &String)],
    );
    let resource = &object(
        "kubernetes.GroupVersionResource",
        &[("group", &String), ("version", &String), ("resource", &String)],
    );
    let user = &object(
        "kubernetes.UserInfo",
        &[("username", &String), ("uid", &String), ("groups", &texts), ("extra", &extra)],
    );
    let fields = [
        ("kind", kind),
        ("resource", resource),
        ("subResource", &String),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", &String),
        ("name", &String),
        ("namespace", &String),
        ("operation", &String),
        ("userInfo", user),
        ("dryRun", &Bool),
        ("options", &Dyn),
    ];
    object("kubernetes.AdmissionRequest", &fields)
});

/// The type of `namespaceObject`, with the same omissions as in Kubernetes.
static NAMESPACE: LazyLock<CelType> = LazyLock::new(|| {
    use CelType::{Int, String, Timestamp};
    let (texts, map) = (CelType::list(String), CelType::map(String, String));
    let fields = [
        ("name", &String),
        ("generateName", &String),
        ("namespace", &String),
        ("labels", &map),
        ("annotations", &map),
        ("UID", &String),
        ("creationTimestamp", &Timestamp),
        ("deletionGracePeriodSeconds", &Int),
        ("deletionTimestamp", &Timestamp),
        ("generation", &Int),
        ("resourceVersion", &String),
        ("finalizers", &texts),
    ];
    let metadata = object("kubernetes.NamespaceMetadata", &fields);
    let fields = [
        ("status", &String),
        ("type", &String),
        ("lastTransitionTime", &Timestamp),
        ("message", &String),
        ("reason", &String),
    ];
    let conditions = CelType::list(object("kubernetes.NamespaceCondition", &fields));
    let status = object("kubernetes.NamespaceStatus", &[("conditions", &conditions), ("phase", &String)]);
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", &texts)]);
    object("kubernetes.Namespace", &[("metadata", &metadata), ("spec", &spec), ("status", &status)])
});

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> AdmissionScope {
        let mut scope = AdmissionScope::new(false).with_variables();
        assert_eq!(scope.define_variable("ok", "object.spec.replicas == 1"), None);
        assert_eq!(scope.define_variable("spec", "object.spec"), None);
        assert_eq!(scope.define_variable("names", "['a', variables.ok ? 'b' : 'c']"), None);
        scope
    }

    #[track_caller]
    fn check(text: &str, wanted: CelResultType, expected: &str) {
        assert_eq!(scope().fault(text, wanted).unwrap_or_default(), expected, "{text}");
    }

    #[test]
    fn only_what_is_wrong_for_every_object_is_refused() {
        use CelResultType::{Any, Bool, Text, TextOrNull, Unchecked};
        for text in [
            "object.spec.replicas > 3",
            "has(object.spec) && object.spec.all(x, x != 'a')",
            "request.userInfo.groups.exists(g, g == 'x')",
            "request.namespace == 'a' && request.options.dryRun.size() == 0",
            "namespaceObject == null || namespaceObject.metadata.labels['a'] == 'b'",
            "object.metadata.name.startsWith('a') || variables.spec.ok",
            "variables.ok",
            "'a' in variables.names",
            "!object.spec.?replicas.hasValue()",
            "authorizer.group('').resource('pods').check('get').allowed()",
            "authorizer.requestResource.check('x').allowed()",
            "authorizer.requestResource.name('n').check('x').errored()",
            "quantity(object.spec.x).isLessThan(quantity('3'))",
        ] {
            check(text, Bool, "");
        }
        check("object.spec.flag", Bool, "must evaluate to bool but got dyn");
        check("'a' + 'b'", Bool, "must evaluate to bool but got string");
        check("1 + 2", Any, "");
        check("'a' + object.metadata.name", Text, "");
        check("true", Text, "must evaluate to string but got bool");
        check("null", TextOrNull, "");
        check("1", TextOrNull, "must evaluate to one of [string null_type] but got int");
        check("Object{spec: Object.spec{a: 1}}", Unchecked, "");
    }

    #[test]
    fn faults_say_where_they_are() {
        use CelResultType::{Bool, Unchecked};
        let unknown = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^";
        check("params.x == 1", Bool, unknown);
        let overload = "compilation failed: ERROR: <input>:1:5: found no matching overload for '_+_' applied to '(string, int)'\n | 'a' + 1 == 'b'\n | ....^";
        check("'a' + 1 == 'b'", Bool, overload);
        let field =
            "compilation failed: ERROR: <input>:1:10: undefined field 'no'\n | variables.no\n | .........^";
        check("variables.no", Bool, field);
        let field = "compilation failed: ERROR: <input>:1:8: undefined field 'user'\n | request.user == 'a'\n | .......^";
        check("request.user == 'a'", Bool, field);
        let decision = "compilation failed: ERROR: <input>:1:19: found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer.()'\n | authorizer.allowed()\n | ..................^";
        check("authorizer.allowed()", Bool, decision);
        let found = scope().fault("object.", Unchecked).unwrap_or_default();
        assert!(found.starts_with("compilation failed: ERROR: <input>:1:8: Syntax error"), "{found}");
        let found = scope().without_authorizer().fault("authorizer.path('/').check('get').reason()", Bool);
        assert!(found.is_some_and(|why| why.contains("undeclared reference to 'authorizer'")));
    }
}
