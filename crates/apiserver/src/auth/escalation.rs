//! Prevents privilege escalation: users can only grant permissions that they hold.
//!
//! The writer of a role must hold every rule in it, or the verb `escalate` on it; the writer of a binding must hold
//! every rule of the role that it names, or the verb `bind` on that role. Members of `system:masters` pass.

use homeostat_api::status::{ResourceName, Status};
use homeostat_api::storage_identity::ResourceIdentity;
use serde_json::Value;

use super::MASTERS;
use super::permission_coverage::{self, COMPARISONS_MAX, MissingPermissions};
use super::rbac_index::{GROUP, RoleRef, RuleSet};
use super::rule::{Rule, quoted};
use super::rule_strings::RuleStrings;
use super::{Authorizer, Identity, RequestAttributes};

/// The object being written, identified by where it will be stored. Its content does not matter.
pub(crate) struct RoleWrite<'a> {
    /// The storage it is written to.
    pub(crate) storage: ResourceIdentity<'a>,
    /// The namespace, or empty.
    pub(crate) namespace: &'a str,
    /// The name in the path; empty for a POST to a collection.
    pub(crate) name: &'a str,
}

impl Authorizer {
    /// Checks that the user may write this object. This is called for every object that a client writes; refuses only
    /// roles and bindings. `old` is the object that the write replaces.
    pub(crate) fn check_role_write(
        &self,
        who: &Identity,
        write: &RoleWrite<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let ResourceIdentity::BuiltIn(GROUP, resource) = write.storage else { return Ok(()) };
        if who.is_in(MASTERS) || old.is_some_and(|old| changes_only_owners(new, old)) {
            return Ok(());
        }
        let check = EscalationCheck { authorizer: self, who, write, resource, new };
        match (resource, write.namespace) {
            ("clusterroles", "") => check.check_role(old),
            ("clusterrolebindings", "") => check.check_binding(),
            ("roles", namespace) if !namespace.is_empty() => check.check_role(old),
            ("rolebindings", namespace) if !namespace.is_empty() => check.check_binding(),
            // The group currently has no other resources. A future resource is reserved for administrators until it has
            // its own check here.
            _ => Err(check.refusal("only members of system:masters may write this resource")),
        }
    }
}

/// The escalation check of one write.
struct EscalationCheck<'a> {
    authorizer: &'a Authorizer,
    who: &'a Identity,
    write: &'a RoleWrite<'a>,
    resource: &'a str,
    new: &'a Value,
}

impl EscalationCheck<'_> {
    fn check_role(&self, old: Option<&Value>) -> Result<(), Status> {
        if self.may("escalate", GROUP, self.resource, self.write.name) {
            return Ok(());
        }
        let rules = rules_of_role(self.new)?;
        self.must_hold(&rules.iter().collect::<Vec<_>>())?;
        let aggregates = self.resource == "clusterroles"
            && (has_aggregation_rule(self.new) || old.is_some_and(has_aggregation_rule));
        if aggregates && self.must_hold(&full_authority().iter().collect::<Vec<_>>()).is_err() {
            return Err(self.refusal("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self) -> Result<(), Status> {
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
        let granted: Option<RuleSet> = self.authorizer.policy().rules(&role, self.write.namespace).cloned();
        let missing = || Status::not_found(&ResourceName { group: GROUP, resource: bound, name: &role.name });
        let granted = granted.ok_or_else(missing)?;
        self.must_hold(&granted.iter().flat_map(|part| &**part).collect::<Vec<_>>())
    }

    fn may(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let namespace = self.write.namespace;
        let what = RequestAttributes::Resource { verb, group, resource, subresource: "", namespace, name };
        self.authorizer.allows(self.who, &what)
    }

    /// Refuses the write if the writer does not hold all of these rules, and lists the missing ones.
    fn must_hold(&self, rules: &[&Rule]) -> Result<(), Status> {
        let held = self.authorizer.rules_for(self.who, self.write.namespace);
        let (what, listed) = match permission_coverage::check_coverage(rules, &held) {
            Ok(()) => return Ok(()),
            Err(MissingPermissions::Rules(missing)) => ("not currently held", missing.join("\n")),
            Err(MissingPermissions::Unknown) => (
                "that cannot be compared with those currently held",
                format!(
                    "it takes more than {COMPARISONS_MAX} comparisons; write several smaller roles instead"
                ),
            ),
        };
        let (name, groups) = (&self.who.name, quoted(&self.who.groups));
        Err(self.refusal(&format!(
            "user {name:?} (groups={groups}) is attempting to grant RBAC permissions {what}:\n{listed}"
        )))
    }

    fn refusal(&self, why: &str) -> Status {
        Status::forbidden(
            &ResourceName { group: GROUP, resource: self.resource, name: object_name(self.new) },
            why,
        )
    }
}

fn object_name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn rules_of_role(role: &Value) -> Result<Vec<Rule>, Status> {
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
    let any = || RuleStrings::from(vec![Box::<str>::from("*")]);
    [
        Rule { verbs: any(), api_groups: any(), resources: any(), ..Rule::default() },
        Rule { verbs: any(), non_resource_urls: any(), ..Rule::default() },
    ]
}

/// Returns whether only the owners change. The garbage collector may in this case release objects that it could not
/// write otherwise.
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
