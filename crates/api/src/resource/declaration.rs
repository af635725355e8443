//! The declaration of a built-in kind states its names, how the verbs treat it, and what happens to its objects when
//! they are written and read.
//!
//! **Invariant:** a declaration consists of plain data and pure functions on objects; every aspect that a kind does not
//! specify has the value that most kinds have. Verbs read an aspect, never the name of a kind.

use std::borrow::Cow;

use homeostat_core::Clock;
use serde_json::Value;

use super::Resource;
use super::prepare::PrepareContext;
use super::selectable::SelectableFields;
use super::strategy::{PLAIN, Strategy};
use super::value_at::ValueAt;
use crate::field::Errors;
use crate::object::fill::JsonObject;
use crate::printing::{Column, PrintCells, PrintConditions};
use crate::status::Status;
use crate::storage_identity::ResourceIdentity;

/// The verbs of kinds that are stored, in the order discovery lists them.
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a subresource that can be read and changed.
pub(crate) const CHANGE: &[&str] = &["get", "patch", "update"];
/// The verbs of a subresource that takes a body and returns a response.
pub(crate) const CREATE: &[&str] = &["create"];
/// The verbs of a subresource that opens a connection.
pub(crate) const CONNECT: &[&str] = &["create", "get"];
/// The verbs of a subresource that forwards requests.
pub(crate) const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// One built-in kind in one version.
#[expect(clippy::struct_excessive_bools, reason = "one independent fact each, read by different verbs")]
pub struct BuiltInKind {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// The kind; in lower case it is the singular name.
    pub(crate) kind: &'static str,
    /// Whether its objects are namespaced.
    pub(crate) namespaced: bool,
    /// Verbs on the resource itself.
    pub(crate) verbs: &'static [&'static str],
    /// Short names.
    pub(crate) short_names: &'static [&'static str],
    /// Categories such as `all`.
    pub(crate) categories: &'static [&'static str],
    /// The subresources of an object.
    pub subresources: &'static [SubresourceDeclaration],
    /// Versions no longer served that patches may still name.
    pub old_versions: &'static [&'static str],
    /// The warning for users of this version.
    pub(crate) deprecation: Option<&'static str>,
    /// What a POST to the resource does.
    pub post: PostAction,
    /// The group and version in which its objects are stored.
    pub(crate) stored_in: (&'static str, &'static str),
    /// The kind's name in Kubernetes' storage, if it differs from the plural name.
    pub registry_name: Option<&'static str>,
    /// The conversion between the stored version and this one; `None` if they are the same.
    pub(crate) conversion: Option<VersionConversion>,

    /// How the generic verbs treat it.
    pub(crate) strategy: Strategy,
    /// Fills in absent fields.
    pub(crate) defaults: Option<fn(&mut JsonObject)>,
    /// Moves the values of write-only fields into the fields they stand for.
    pub(crate) fold_aliases: Option<fn(&mut JsonObject)>,
    /// The status of a new object, if the kind has a status.
    pub(crate) first_status: InitialStatus,
    /// Sets the fields of a new object that the server decides.
    pub(crate) prepare_create: Option<PrepareCreate>,
    /// Sets the fields of a changed object that the server decides.
    pub(crate) prepare_update: Option<fn(&mut JsonObject, &Value)>,
    /// Sets the fields that the server decides when the status is changed.
    pub(crate) prepare_status: Option<fn(&mut JsonObject, &Value, &Clock)>,
    /// Whether its objects get addresses and ports from the server.
    pub has_cluster_addresses: bool,
    /// Whether its objects define kinds, which are served as soon as a write is answered.
    pub defines_kinds: bool,
    /// Whether approving or signing its objects requires a permission on their signer.
    pub has_signer: bool,

    /// Validates an object, new or changed.
    pub(crate) validate: Option<ValidateObject>,
    /// Validates a new object; `None` means `validate`.
    pub(crate) validate_create: Option<ValidateObject>,
    /// Validates a change, in addition to `validate`.
    pub(crate) validate_update: Option<ValidateChange>,
    /// Validates a change to the status.
    pub(crate) validate_status: Option<ValidateChange>,
    /// Converts an object to the form that errors refer to; `None` means this version.
    pub(crate) validated_as: Option<fn(Value) -> Value>,
    /// The Pod in its objects, for warnings about it.
    pub(crate) pod_template: Option<PodTemplate>,
    /// Returns warnings about the object itself for its writer.
    pub warn: Option<WarnAboutObject>,
    /// Returns warnings about settings that this server does not enforce.
    pub warn_unenforced: Option<WarnUnenforced>,
    /// Objects that must not be deleted.
    pub protected: ProtectedNames,
    /// How an object is marked when it is being deleted, and what delays its deletion.
    pub deletion: DeletionRules,
    /// The warning for a deletion without a propagation policy.
    pub delete_warning: Option<&'static str>,

    /// The columns of its tables, if it has its own.
    pub(crate) columns: &'static [Column],
    /// Prints the cells of these columns.
    pub(crate) cells: Option<PrintCells>,
    /// The conditions of its rows, if they have any.
    pub(crate) row_conditions: Option<PrintConditions>,
    /// The fields that field selectors may name.
    pub(crate) selectable: SelectableFields,
}

/// Validates an object.
pub(crate) type ValidateObject = fn(&ValueAt<'_>, &mut Errors);
/// Validates a change to the stored object.
pub(crate) type ValidateChange = fn(&ValueAt<'_>, &Value, &mut Errors);
/// Sets the fields of a new object that the server decides.
pub(crate) type PrepareCreate = fn(&Resource, &mut JsonObject, &PrepareContext<'_>) -> Result<(), Status>;
/// Returns the object that results from the stored object and the body of a write to a subresource.
pub(crate) type MergeSubresource = fn(&Resource, &Value, Value, &Clock) -> Value;
/// Returns warnings about the new object, given the stored one.
pub(crate) type WarnAboutObject = fn(&Value, Option<&Value>) -> Vec<String>;
/// Returns warnings about settings that are stored but not enforced.
pub(crate) type WarnUnenforced = fn(&BuiltInKind, &ObjectWrite<'_>) -> Vec<String>;

/// A write of an object.
pub struct ObjectWrite<'a> {
    /// The subresource that is written; empty means the object itself.
    pub subresource: &'a str,
    /// The object as it will be stored.
    pub new: &'a Value,
    /// The stored object, if there is one.
    pub old: Option<&'a Value>,
    /// Whether the server keeps an audit log.
    pub has_audit_log: bool,
}

/// What a POST to a resource does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostAction {
    /// Creates an object.
    Create,
    /// Binds the Pod the body names to a node.
    BindPod,
    /// Answers a question without storing anything.
    Review,
}

/// The status of a new object.
#[derive(Clone, Copy)]
pub(crate) enum InitialStatus {
    /// The status that the client sent.
    AsSent,
    /// This status, if the kind has a status endpoint.
    Fixed(fn() -> Value),
}

/// Names of objects that must not be deleted, and why.
#[derive(Clone, Copy)]
pub struct ProtectedNames {
    /// The names.
    pub names: &'static [&'static str],
    /// The reason, in kube-apiserver's wording.
    pub why: &'static str,
}

/// How an object is marked when it is being deleted, and what delays its deletion besides finalizers.
#[derive(Clone, Copy)]
pub struct DeletionRules {
    /// Marks an object when its deletion begins, instead of the usual mark; takes the current time.
    pub begin: Option<fn(&mut Value, &str)>,
    /// Changes the object in addition to the usual mark.
    pub mark: Option<fn(&mut Value)>,
    /// Whether the usual mark has a grace period.
    pub has_grace_period: bool,
    /// Returns whether something specific to this kind delays the deletion.
    pub(crate) is_held: Option<fn(&Value) -> bool>,
}

/// Converts between the stored version and another one.
#[derive(Clone, Copy)]
pub(crate) struct VersionConversion {
    /// Returns whether the stored bytes are already in this version.
    pub(crate) is_current: fn(&Resource, &[u8]) -> bool,
    /// Converts a stored object to this version.
    pub(crate) from_stored: fn(Value, &str) -> Value,
    /// Converts an object of this version to its stored form, if that differs.
    pub(crate) to_stored: fn(&Value, &str) -> Option<Value>,
}

/// The Pod, or the template of Pods, in the objects of a kind.
#[derive(Clone, Copy)]
pub(crate) struct PodTemplate {
    /// Its path; empty means the object itself.
    pub(crate) path: &'static str,
    /// The names that the object's name becomes part of; empty if none of them must be a label.
    pub(crate) name_is_used_in: &'static str,
    /// Whether it is also checked when an object is changed.
    pub(crate) is_checked_on_update: bool,
}

impl PodTemplate {
    /// The template of a workload whose Pods are named after it.
    pub(crate) const OF_WORKLOAD: Self = Self {
        path: "spec.template",
        name_is_used_in: "Pod names and hostnames",
        is_checked_on_update: true,
    };
}

/// A subresource.
pub struct SubresourceDeclaration {
    /// Its name in paths.
    pub name: &'static str,
    /// Group and version of its body (empty for the kind's own), and the kind (empty for the kind itself).
    pub(crate) body: (&'static str, &'static str, &'static str),
    /// Verbs.
    pub(crate) verbs: &'static [&'static str],
    /// Merges the stored object and the body into the new object; `None` if the body is the new object.
    pub merge: Option<MergeSubresource>,
    /// Whether a change through it changes the content, which raises the generation.
    pub changes_content: bool,
    /// Validates a change through it; `None` if it is not validated here.
    pub(crate) validate: Option<ValidateChange>,
}

impl SubresourceDeclaration {
    /// Declares a subresource whose body is the object itself.
    pub(crate) const fn own(name: &'static str, verbs: &'static [&'static str]) -> Self {
        Self::with_body(name, ("", "", ""), verbs)
    }

    /// Declares a subresource with a body of a different kind.
    pub(crate) const fn with_body(
        name: &'static str,
        body: (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, body, verbs, merge: None, changes_content: false, validate: None }
    }

    /// Makes the subresource merge part of the body into the stored object.
    pub(crate) const fn merged_by(mut self, merge: MergeSubresource) -> Self {
        self.merge = Some(merge);
        self
    }

    /// Makes changes raise the generation.
    pub(crate) const fn changing_content(mut self) -> Self {
        self.changes_content = true;
        self
    }

    /// Makes `check` validate changes.
    pub(crate) const fn validated_by(mut self, check: ValidateChange) -> Self {
        self.validate = Some(check);
        self
    }
}

impl BuiltInKind {
    /// Declares a plain namespaced kind.
    pub(crate) const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { namespaced: true, ..Self::cluster_scoped(group, version, plural, kind) }
    }

    /// Declares a plain cluster-scoped kind.
    pub(crate) const fn cluster_scoped(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            kind,
            namespaced: false,
            verbs: ALL_VERBS,
            short_names: &[],
            categories: &[],
            subresources: &[],
            old_versions: &[],
            deprecation: None,
            post: PostAction::Create,
            stored_in: (group, version),
            registry_name: None,
            conversion: None,
            strategy: PLAIN,
            defaults: None,
            fold_aliases: None,
            first_status: InitialStatus::Fixed(empty),
            prepare_create: None,
            prepare_update: None,
            prepare_status: None,
            has_cluster_addresses: false,
            defines_kinds: false,
            has_signer: false,
            validate: None,
            validate_create: None,
            validate_update: None,
            validate_status: None,
            validated_as: None,
            pod_template: None,
            warn: None,
            warn_unenforced: None,
            protected: ProtectedNames { names: &[], why: "" },
            deletion: DeletionRules { begin: None, mark: None, has_grace_period: true, is_held: None },
            delete_warning: None,
            columns: &[],
            cells: None,
            row_conditions: None,
            selectable: SelectableFields::NAMES_ONLY,
        }
    }

    /// Returns the subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&'static SubresourceDeclaration> {
        self.subresources.iter().find(|part| part.name == name)
    }

    /// Returns where its objects are stored.
    pub const fn storage(&self) -> ResourceIdentity<'static> {
        ResourceIdentity::BuiltIn(self.stored_in.0, self.plural)
    }

    /// Returns the form of an object that errors refer to.
    pub(crate) fn validated_form<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        self.validated_as.map_or(Cow::Borrowed(object), |convert| Cow::Owned(convert(object.clone())))
    }
}

impl std::fmt::Debug for BuiltInKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{} {}", self.group, self.version, self.kind)
    }
}

fn empty() -> Value {
    Value::Object(JsonObject::new())
}

/// Returns warnings about objects that ask a server to reject, change or forward something but are only stored here.
pub(crate) fn warn_only_stored(kind: &BuiltInKind, write: &ObjectWrite<'_>) -> Vec<String> {
    let warning = || format!("{} is stored, but this server does not enforce it", kind.kind);
    write.subresource.is_empty().then(warning).into_iter().collect()
}
