//! Implements the `authorizer` of expressions: calls build up a question, and `check` asks the server.
//!
//! Values only describe a question (whose permissions, which path or resource); the answer comes from the
//! [`CelAuthorizer`] of the evaluation. Decisions never carry an error: RBAC always decides.

use std::sync::Arc;

use cel::Value;
use cel::objects::Opaque;
use kube_cel::cel;

use super::eval::{Evaluation, Outcome, error};
use crate::names;

/// The name of the variable that checks the resource of the request itself. It contains a dot, as in Kubernetes.
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// The cost of a check: Kubernetes allows two of them in an expression.
pub(super) const CHECK_COST: u64 = 350_000;

/// Answers questions about permissions.
pub trait CelAuthorizer {
    /// Decides whether the user may do this.
    fn authorize(&self, question: &AuthorizationQuestion) -> AuthorizationAnswer;
}

/// A question about permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationQuestion {
    /// The namespace and name of a ServiceAccount; `None` for the user who sent the request.
    pub service_account: Option<(String, String)>,
    /// The verb of the request, as the expression gives it.
    pub verb: String,
    /// What the verb is applied to.
    pub target: AuthorizationTarget,
}

/// The target of a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationTarget {
    /// A path that is not a resource.
    Path(String),
    /// A resource.
    Resource(ResourceTarget),
}

/// A resource, or a part of one. Empty strings mean that nothing is specified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    /// API group.
    pub group: String,
    /// Plural resource.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Object name.
    pub name: String,
}

/// The answer to a question about permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationAnswer {
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// The authorizer's reason.
    pub reason: String,
}

/// Whose permissions are checked: a ServiceAccount's, or those of the user who sent the request.
type CheckedAccount = Option<(String, String)>;

/// A value of the authorization library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuthorizerValue {
    Authorizer(CheckedAccount),
    PathCheck(CheckedAccount, String),
    GroupCheck(CheckedAccount, String),
    ResourceCheck(CheckedAccount, ResourceTarget),
    Decision(AuthorizationAnswer),
}

impl Opaque for AuthorizerValue {
    fn runtime_type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl AuthorizerValue {
    pub(super) fn into_value(self) -> Value {
        Value::Opaque(Arc::new(self))
    }
}

impl Evaluation<'_> {
    /// Calls a function of the authorization library; `None` if the receiver is not one of its values.
    pub(super) fn authorization(&mut self, function: &str, arguments: &[&Value]) -> Option<Outcome> {
        let [Value::Opaque(receiver), arguments @ ..] = arguments else { return None };
        let receiver = receiver.downcast_ref::<AuthorizerValue>()?;
        let texts = arguments.iter().map(|argument| match argument {
            Value::String(text) => Some(&***text),
            _ => None,
        });
        let texts: Option<Vec<&str>> = texts.collect();
        Some(match (receiver, function, &*texts?) {
            (AuthorizerValue::PathCheck(account, path), "check", [verb]) => {
                self.ask(account, verb, AuthorizationTarget::Path(path.clone()))
            }
            (AuthorizerValue::ResourceCheck(account, resource), "check", [verb]) => {
                self.ask(account, verb, AuthorizationTarget::Resource(resource.clone()))
            }
            (AuthorizerValue::Decision(answer), function, []) => decision(answer, function)?,
            (receiver, function, texts) => extended(receiver, function, texts)?,
        })
    }

    fn ask(&self, account: &CheckedAccount, verb: &str, target: AuthorizationTarget) -> Outcome {
        let authorizer = self.authorizer.ok_or_else(|| error("no such attribute(s): authorizer"))?;
        let question =
            AuthorizationQuestion { service_account: account.clone(), verb: verb.to_owned(), target };
        Ok(AuthorizerValue::Decision(authorizer.authorize(&question)).into_value())
    }
}

fn decision(answer: &AuthorizationAnswer, function: &str) -> Option<Outcome> {
    Some(Ok(match function {
        "allowed" => Value::Bool(answer.is_allowed),
        "errored" => Value::Bool(false),
        "reason" => Value::String(Arc::new(answer.reason.clone())),
        "error" => Value::String(Arc::default()),
        _ => return None,
    }))
}

/// Returns the question extended by one part.
fn extended(receiver: &AuthorizerValue, function: &str, texts: &[&str]) -> Option<Outcome> {
    let made = match (receiver, function, texts) {
        (AuthorizerValue::Authorizer(_), "path", [path]) if path.trim().is_empty() => {
            return Some(Err(error("path must not be empty")));
        }
        (AuthorizerValue::Authorizer(account), "path", [path]) => {
            AuthorizerValue::PathCheck(account.clone(), (*path).to_owned())
        }
        (AuthorizerValue::Authorizer(account), "group", [group]) => {
            AuthorizerValue::GroupCheck(account.clone(), (*group).to_owned())
        }
        (AuthorizerValue::Authorizer(_), "serviceAccount", [namespace, name]) => {
            if !names::subdomain(name).is_empty() {
                return Some(Err(error("Invalid service account name")));
            }
            if !names::label(namespace).is_empty() {
                return Some(Err(error("Invalid service account namespace")));
            }
            AuthorizerValue::Authorizer(Some(((*namespace).to_owned(), (*name).to_owned())))
        }
        (AuthorizerValue::GroupCheck(..), "resource", [resource]) if resource.trim().is_empty() => {
            return Some(Err(error("resource must not be empty")));
        }
        (AuthorizerValue::GroupCheck(account, group), "resource", [resource]) => {
            let (group, resource) = (group.clone(), (*resource).to_owned());
            AuthorizerValue::ResourceCheck(
                account.clone(),
                ResourceTarget { group, resource, ..ResourceTarget::default() },
            )
        }
        (AuthorizerValue::ResourceCheck(account, target), part, [text]) => {
            AuthorizerValue::ResourceCheck(account.clone(), narrowed(target, part, text)?)
        }
        _ => return None,
    };
    Some(Ok(made.into_value()))
}

/// Returns a resource extended by one part. Roles do not support selectors, so selectors change nothing.
fn narrowed(target: &ResourceTarget, part: &str, text: &str) -> Option<ResourceTarget> {
    let mut target = target.clone();
    match part {
        "subresource" => text.clone_into(&mut target.subresource),
        "namespace" => text.clone_into(&mut target.namespace),
        "name" => text.clone_into(&mut target.name),
        "fieldSelector" | "labelSelector" => {}
        _ => return None,
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::schema::{CelData, CelExpression, CelFailure};

    /// Allows everything on Pods and on `/healthz`, and records the questions.
    #[derive(Default)]
    struct PodsAllowed(RefCell<Vec<AuthorizationQuestion>>);

    impl CelAuthorizer for PodsAllowed {
        fn authorize(&self, question: &AuthorizationQuestion) -> AuthorizationAnswer {
            self.0.borrow_mut().push(question.clone());
            let is_allowed = match &question.target {
                AuthorizationTarget::Path(path) => path == "/healthz",
                AuthorizationTarget::Resource(target) => target.resource == "pods",
            };
            AuthorizationAnswer { is_allowed, reason: "by the test".to_owned() }
        }
    }

    fn evaluate(text: &str) -> (Result<CelData, CelFailure>, Vec<AuthorizationQuestion>, u64) {
        let authorizer = PodsAllowed::default();
        let own = ResourceTarget { resource: "pods".to_owned(), ..ResourceTarget::default() };
        let variables = [
            ("authorizer", CelData::authorizer()),
            (REQUEST_RESOURCE, CelData::request_resource_authorizer(own)),
        ];
        let mut budget = 10_000_000;
        let expression = CelExpression::compile(text).expect("it compiles");
        let value = expression.evaluate(&variables, Some(&authorizer), &mut budget);
        (value, authorizer.0.into_inner(), 10_000_000 - budget)
    }

    #[test]
    fn questions_are_built_by_calls() {
        let check = |text: &str, expected: bool| {
            let (value, ..) = evaluate(text);
            assert_eq!(value.map(|value| value.as_bool()), Ok(Some(expected)), "{text}");
        };
        check("authorizer.group('').resource('pods').check('get').allowed()", true);
        check("authorizer.group('').resource('secrets').check('get').allowed()", false);
        check("authorizer.path('/healthz').check('get').allowed()", true);
        check("authorizer.path('/healthz').check('get').errored()", false);
        check("authorizer.path('/x').check('get').reason() == 'by the test'", true);
        check("authorizer.path('/x').check('get').error() == ''", true);
        check("authorizer.requestResource.check('create').allowed()", true);
        check("authorizer.group('') == authorizer.group('')", true);
        check("[authorizer].all(a, a.group('').resource('pods').check('get').allowed())", true);
        let text = "authorizer.serviceAccount('n', 's').group('g').resource('r').subresource('x').namespace('m')\
            .name('o').fieldSelector('a=b').labelSelector('c').check('list').allowed()";
        let (_, questions, _) = evaluate(text);
        let target = ResourceTarget {
            group: "g".to_owned(),
            resource: "r".to_owned(),
            subresource: "x".to_owned(),
            namespace: "m".to_owned(),
            name: "o".to_owned(),
        };
        let expected = AuthorizationQuestion {
            service_account: Some(("n".to_owned(), "s".to_owned())),
            verb: "list".to_owned(),
            target: AuthorizationTarget::Resource(target),
        };
        assert_eq!(questions, [expected]);
    }

    #[test]
    fn wrong_questions_fail_in_kubernetes_words() {
        let check = |text: &str, expected: &str| {
            let (value, ..) = evaluate(text);
            assert_eq!(value.err(), Some(CelFailure::Error(expected.to_owned())), "{text}");
        };
        check("authorizer.path(' ')", "path must not be empty");
        check("authorizer.group('').resource('')", "resource must not be empty");
        check("authorizer.serviceAccount('n', 'not@valid')", "Invalid service account name");
        check("authorizer.serviceAccount('a.b', 'n')", "Invalid service account namespace");
    }

    #[test]
    fn two_checks_fit_into_an_expression_and_three_do_not() {
        let one = "authorizer.path('/healthz').check('get').allowed()";
        let (value, _, cost) = evaluate(one);
        // One unit for the name, and one for each of the two calls besides the check.
        assert_eq!((value.is_ok(), cost), (true, CHECK_COST + 3));
        assert!(evaluate(&format!("{one} && {one}")).0.is_ok());
        let (value, questions, _) = evaluate(&format!("{one} && {one} && {one}"));
        assert_eq!(value.err(), Some(CelFailure::Budget));
        assert_eq!(questions.len(), 2, "the third is never asked");
    }
}
