//! What a built-in kind declares about itself: its names, how the verbs treat it, and what happens to its objects on
//! the way in and out.
//!
//! **Invariant:** a declaration is plain data and functions of the objects they are given; every aspect a kind does not
//! name has the value most kinds have. Verbs ask for an aspect, never for the name of a kind.

use std::borrow::Cow;

use homeostat_core::Clock;
use homeostat_store::Entry;
use serde_json::Value;

use super::fill::Fields;
use super::prepare::Prepare;
use super::printing::{Cells, Column, Conditions};
use super::selectable::Selectable;
use super::strategy::{PLAIN, Strategy};
use super::subresource;
use super::validate::{ChangeCheck, Check};
use super::warnings::PodTemplate;
use crate::resource::Resource;
use crate::status::Status;
use crate::storage::Storage;

/// The verbs of kinds that are stored, in the order discovery lists them.
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a part that can be read and changed.
pub(super) const CHANGE: &[&str] = &["get", "patch", "update"];
/// The verbs of a part that takes a body and gives an answer.
pub(super) const CREATE: &[&str] = &["create"];
/// The verbs of a part that opens a connection.
pub(super) const CONNECT: &[&str] = &["create", "get"];
/// The verbs of a part that passes requests on.
pub(super) const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// The status of an object.
pub(super) const STATUS: Part = Part::own("status", CHANGE).merged_by(subresource::status);
/// The number of replicas of an object.
pub(super) const SCALE: Part =
    Part::with_body("scale", ("autoscaling", "v1", "Scale"), CHANGE).changing_content();

/// One built-in kind in one version.
#[expect(clippy::struct_field_names, reason = "Kubernetes calls the name of a kind its kind")]
#[expect(clippy::struct_excessive_bools, reason = "one independent fact each, read by different verbs")]
pub(crate) struct Kind {
    /// API group, empty for core.
    pub(crate) group: &'static str,
    /// API version.
    pub(crate) version: &'static str,
    /// Plural name, as in paths.
    pub(crate) plural: &'static str,
    /// Kind; in lower case it is the singular name.
    pub(crate) kind: &'static str,
    /// Does it live in namespaces?
    pub(crate) namespaced: bool,
    /// Verbs on the resource itself.
    pub(crate) verbs: &'static [&'static str],
    /// Short names.
    pub(crate) short_names: &'static [&'static str],
    /// Categories, as `all`.
    pub(crate) categories: &'static [&'static str],
    /// What can be asked for below an object.
    pub(crate) subresources: &'static [Part],
    /// Versions no longer served that patches may still name.
    pub(crate) old_versions: &'static [&'static str],
    /// What users of this version are warned of.
    pub(crate) deprecation: Option<&'static str>,
    /// What a POST to the resource does.
    pub(crate) post: Post,
    /// The group its objects are kept under, and the version they are kept in.
    pub(crate) stored_in: (&'static str, &'static str),
    /// The words Kubernetes' storage has for the kind, where they are not the plural name.
    pub(crate) registry_name: Option<&'static str>,
    /// How to get from the version objects are kept in to this one and back; `None`: it is the same.
    pub(crate) conversion: Option<Conversion>,

    /// How the generic verbs treat it.
    pub(crate) strategy: Strategy,
    /// What absent fields become.
    pub(crate) defaults: Option<fn(&mut Fields)>,
    /// Folds fields that exist for writing only into those they stand for.
    pub(crate) fold_aliases: Option<fn(&mut Fields)>,
    /// The status a new object starts with, if it has one at all.
    pub(crate) first_status: FirstStatus,
    /// What the server puts into a new object.
    pub(crate) prepare_create: Option<PrepareCreate>,
    /// What the server puts into a changed object.
    pub(crate) prepare_update: Option<fn(&mut Fields, &Value)>,
    /// What the server puts into an object whose status is changed.
    pub(crate) prepare_status: Option<fn(&mut Fields, &Value, &Clock)>,
    /// Are addresses and ports given to its objects?
    pub(crate) has_cluster_addresses: bool,
    /// Do its objects define kinds? Then those are served as soon as a write is answered.
    pub(crate) defines_kinds: bool,
    /// Does approving or signing its objects take a right on the signer they name?
    pub(crate) has_signer: bool,

    /// What is wrong with an object, new or changed.
    pub(crate) validate: Option<Check>,
    /// What is wrong with a new object; `None`: what `validate` says.
    pub(crate) validate_create: Option<Check>,
    /// What is wrong with a change, beside what `validate` says.
    pub(crate) validate_update: Option<ChangeCheck>,
    /// What is wrong with a change of the status.
    pub(crate) validate_status: Option<ChangeCheck>,
    /// The form complaints speak of; `None`: that of this version.
    pub(crate) judged_as: Option<fn(Value) -> Value>,
    /// The Pod in its objects, for warnings about it.
    pub(crate) pod_template: Option<PodTemplate>,
    /// What the writer is warned of, whatever part of the object is written.
    pub(crate) warn: Option<Warn>,
    /// What the writer is told that relies on this server to enforce the object.
    pub(crate) warn_unenforced: Option<WarnUnenforced>,
    /// Objects that may not be deleted.
    pub(crate) protected: Protected,
    /// How an object is marked that is being deleted, and what holds it.
    pub(crate) deletion: Deletion,
    /// What whoever deletes without a propagation policy is told.
    pub(crate) delete_warning: Option<&'static str>,

    /// The columns of its tables, if it has its own.
    pub(crate) columns: &'static [Column],
    /// What is in these columns.
    pub(crate) cells: Option<Cells>,
    /// The conditions of its rows, if they have any.
    pub(crate) row_conditions: Option<Conditions>,
    /// The fields selectors may name.
    pub(crate) selectable: Selectable,
}

/// Puts into a new object what the server decides.
pub(crate) type PrepareCreate = fn(&Resource, &mut Fields, &Prepare<'_>) -> Result<(), Status>;
/// Returns the object that a write through a subresource makes of the stored object and the body.
pub(crate) type MergePart = fn(&Resource, &Value, Value, &Clock) -> Value;
/// Returns warnings about the new object, given the stored one.
pub(crate) type Warn = fn(&Value, Option<&Value>) -> Vec<String>;
/// Returns warnings about what is stored and not enforced.
pub(crate) type WarnUnenforced = fn(&Kind, &Write<'_>) -> Vec<String>;

/// What a request writes.
pub(crate) struct Write<'a> {
    /// The subresource it writes; empty: the object itself.
    pub(crate) subresource: &'a str,
    /// The object as it will be stored.
    pub(crate) new: &'a Value,
    /// The stored one, if there is one.
    pub(crate) old: Option<&'a Value>,
}

/// What a POST to a resource does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// Creates an object.
    Create,
    /// Binds the Pod the body names to a node.
    BindPod,
    /// Answers a question, and stores nothing.
    Review,
}

/// The status of a new object.
#[derive(Clone, Copy)]
pub(crate) enum FirstStatus {
    /// What the client said.
    AsSent,
    /// This, if the kind has a status endpoint.
    Fixed(fn() -> Value),
}

/// Names of objects that may not be deleted, and why.
#[derive(Clone, Copy)]
pub(crate) struct Protected {
    /// The names.
    pub(crate) names: &'static [&'static str],
    /// Why, in the words of the real server.
    pub(crate) why: &'static str,
}

/// How an object is marked that is being deleted, and what holds it beside finalizers.
#[derive(Clone, Copy)]
pub(crate) struct Deletion {
    /// Marks an object when its deletion begins, instead of the usual mark; it is told the time.
    pub(crate) begin: Option<fn(&mut Value, &str)>,
    /// What is said in the object beside the usual mark.
    pub(crate) mark: Option<fn(&mut Value)>,
    /// Does the usual mark have a grace period?
    pub(crate) has_grace_period: bool,
    /// Does something that only this kind has hold an object?
    pub(crate) is_held: Option<fn(&Value) -> bool>,
}

/// Between the version objects are kept in and another one.
#[derive(Clone, Copy)]
pub(crate) struct Conversion {
    /// Are the stored bytes what this version shows?
    pub(crate) is_current: fn(&Resource, &Entry) -> bool,
    /// Turns a stored object into this version.
    pub(crate) from_stored: fn(Value, &str) -> Value,
    /// The object of this version as it is stored, where that differs.
    pub(crate) to_stored: fn(&Value, &str) -> Option<Value>,
}

/// A subresource.
pub(crate) struct Part {
    /// Its name in paths.
    pub(crate) name: &'static str,
    /// Group and version of its body, empty for the kind's own, and the kind, empty for the kind itself.
    pub(crate) body: (&'static str, &'static str, &'static str),
    /// Verbs.
    pub(crate) verbs: &'static [&'static str],
    /// Makes the new object of the stored one and the body; `None`: the body is the new object.
    pub(crate) merge: Option<MergePart>,
    /// Does a change through it count as one of the content, which raises the generation?
    pub(crate) changes_content: bool,
    /// What is wrong with a change through it; `None`: not judged here.
    pub(crate) validate: Option<ChangeCheck>,
}

impl Part {
    /// A subresource whose body is the object itself.
    pub(super) const fn own(name: &'static str, verbs: &'static [&'static str]) -> Self {
        Self::with_body(name, ("", "", ""), verbs)
    }

    /// A subresource with a body of another kind.
    pub(super) const fn with_body(
        name: &'static str,
        body: (&'static str, &'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, body, verbs, merge: None, changes_content: false, validate: None }
    }

    /// The same, taking its own part of the body and the rest of what is stored.
    pub(super) const fn merged_by(mut self, merge: MergePart) -> Self {
        self.merge = Some(merge);
        self
    }

    /// The same, with changes that raise the generation.
    pub(super) const fn changing_content(mut self) -> Self {
        self.changes_content = true;
        self
    }

    /// The same, with changes judged by `check`.
    pub(super) const fn judged_by(mut self, check: ChangeCheck) -> Self {
        self.validate = Some(check);
        self
    }
}

impl Kind {
    /// A kind in namespaces that has nothing special about it.
    pub(super) const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { namespaced: true, ..Self::cluster_scoped(group, version, plural, kind) }
    }

    /// A cluster-scoped kind that has nothing special about it.
    pub(super) const fn cluster_scoped(
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
            post: Post::Create,
            stored_in: (group, version),
            registry_name: None,
            conversion: None,
            strategy: PLAIN,
            defaults: None,
            fold_aliases: None,
            first_status: FirstStatus::Fixed(empty),
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
            judged_as: None,
            pod_template: None,
            warn: None,
            warn_unenforced: None,
            protected: Protected { names: &[], why: "" },
            deletion: Deletion { begin: None, mark: None, has_grace_period: true, is_held: None },
            delete_warning: None,
            columns: &[],
            cells: None,
            row_conditions: None,
            selectable: Selectable::NAMES_ONLY,
        }
    }

    /// Returns the subresource of this name.
    pub(crate) fn part(&self, name: &str) -> Option<&'static Part> {
        self.subresources.iter().find(|part| part.name == name)
    }

    /// Where its objects are kept.
    pub(crate) const fn storage(&self) -> Storage<'static> {
        Storage::BuiltIn(self.stored_in.0, self.plural)
    }

    /// The form of an object that complaints speak of.
    pub(crate) fn judged<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        self.judged_as.map_or(Cow::Borrowed(object), |convert| Cow::Owned(convert(object.clone())))
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{} {}", self.group, self.version, self.kind)
    }
}

fn empty() -> Value {
    Value::Object(Fields::new())
}

/// Warns of objects that tell a server to refuse, change or forward something, and are only kept here.
pub(super) fn warn_only_stored(kind: &Kind, write: &Write<'_>) -> Vec<String> {
    let warning = || format!("{} is stored, but this server does not enforce it", kind.kind);
    write.subresource.is_empty().then(warning).into_iter().collect()
}
