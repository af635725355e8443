//! Nobody grants what they do not have: the checks on writing roles and bindings.
//!
//! A role's writer must hold every rule in it, or the verb `escalate` on it; a binding's writer must hold every rule
//! of the role it names, or the verb `bind` on that role. Members of `system:masters` pass.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::identity::MASTERS;
use super::policy::{GROUP, RoleRef};
use super::rule::{Rule, quoted};
use super::{Attributes, Authorizer, Identity};
use crate::status::{About, Status};

impl Authorizer {
    /// May they write this? `kind` is `Role`, `ClusterRole`, `RoleBinding` or `ClusterRoleBinding` (others pass);
    /// `old` is what the write replaces.
    pub fn check_role_write(
        &self,
        who: &Identity,
        kind: &str,
        namespace: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if who.is_in(MASTERS) || old.is_some_and(|old| changes_only_owners(new, old)) {
            return Ok(());
        }
        let write = Write { authorizer: self, who, namespace, new, old };
        match kind {
            "Role" => write.check_role("roles"),
            "ClusterRole" => write.check_role("clusterroles"),
            "RoleBinding" => write.check_binding("rolebindings"),
            "ClusterRoleBinding" => write.check_binding("clusterrolebindings"),
            _ => Ok(()),
        }
    }
}

struct Write<'a> {
    authorizer: &'a Authorizer,
    who: &'a Identity,
    namespace: &'a str,
    new: &'a Value,
    old: Option<&'a Value>,
}

impl Write<'_> {
    fn check_role(&self, resource: &str) -> Result<(), Status> {
        let name = self.old.map_or("", name);
        if self.may("escalate", GROUP, resource, name) {
            return Ok(());
        }
        let rules = rules(self.new)?;
        self.must_hold(&rules).map_err(|why| self.refusal(resource, &why))?;
        let aggregates = resource == "clusterroles"
            && (has_aggregation_rule(self.new) || self.old.is_some_and(has_aggregation_rule));
        if aggregates && self.must_hold(&full_authority()).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(self.refusal(resource, why));
        }
        Ok(())
    }

    fn check_binding(&self, resource: &str) -> Result<(), Status> {
        let role = self.new.get("roleRef").cloned().unwrap_or_default();
        let role = serde_json::from_value::<RoleRef>(role)
            .map_err(|error| Status::bad_request(format!("roleRef: {error}")))?;
        let bound = match &*role.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            kind => return Err(Status::unclassified(format!("unsupported role reference kind: {kind:?}"))),
        };
        let group = if role.api_group.is_empty() { GROUP } else { &*role.api_group };
        if self.may("bind", group, bound, &role.name) {
            return Ok(());
        }
        let granted = self.authorizer.policy().rules(&role, self.namespace).map(<[Rule]>::to_vec);
        let missing = || Status::not_found(&About { group: GROUP, resource: bound, name: &role.name });
        self.must_hold(&granted.ok_or_else(missing)?).map_err(|why| self.refusal(resource, &why))
    }

    fn may(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let what =
            Attributes::Resource { verb, group, resource, subresource: "", namespace: self.namespace, name };
        self.authorizer.decide(self.who, &what).is_allowed()
    }

    /// Does the writer hold all of these? If not: the sentence that says what is missing.
    fn must_hold(&self, rules: &[Rule]) -> Result<(), String> {
        let held = self.authorizer.rules_for(self.who, self.namespace);
        let missing = rules
            .iter()
            .flat_map(Rule::atoms)
            .filter(|atom| !held.iter().any(|rule| rule.covers(atom)))
            .collect::<Vec<_>>();
        if missing.is_empty() {
            return Ok(());
        }
        let listed = compacted(missing).iter().map(Rule::shown).collect::<BTreeSet<_>>();
        Err(format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.who.name,
            quoted(&self.who.groups),
            listed.into_iter().collect::<Vec<_>>().join("\n")
        ))
    }

    fn refusal(&self, resource: &str, why: &str) -> Status {
        Status::forbidden(&About { group: GROUP, resource, name: name(self.new) }, why)
    }
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn rules(role: &Value) -> Result<Vec<Rule>, Status> {
    let rules = role.get("rules").cloned().unwrap_or_default();
    serde_json::from_value::<Option<Vec<Rule>>>(rules)
        .map(Option::unwrap_or_default)
        .map_err(|error| Status::bad_request(format!("rules: {error}")))
}

fn has_aggregation_rule(role: &Value) -> bool {
    role.pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

fn full_authority() -> [Rule; 2] {
    let any = || vec![Box::<str>::from("*")];
    [
        Rule { verbs: any(), api_groups: any(), resources: any(), ..Rule::default() },
        Rule { verbs: any(), non_resource_urls: any(), ..Rule::default() },
    ]
}

/// The garbage collector may release objects it could not write otherwise.
fn changes_only_owners(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(new) == rest(old)
}

/// Joins atoms that differ only in their verb.
fn compacted(atoms: Vec<Rule>) -> Vec<Rule> {
    let mut joined = BTreeMap::<_, Rule>::new();
    let mut paths = Vec::new();
    for mut atom in atoms {
        if !atom.non_resource_urls.is_empty() {
            paths.push(atom);
            continue;
        }
        let place = (atom.api_groups.clone(), atom.resources.clone(), atom.resource_names.clone());
        match joined.get_mut(&place) {
            Some(rule) => rule.verbs.append(&mut atom.verbs),
            None => drop(joined.insert(place, atom)),
        }
    }
    paths.extend(joined.into_values());
    paths
}
