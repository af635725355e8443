//! The update loop: read, change, check, and commit if nothing moved underneath; else again.
//!
//! PUT, every patch and every subresource go through [`change`]; they differ only in how they make the new object
//! out of the stored one. The loop ends because each turn that loses has seen another write win.

use std::sync::Arc;

use homeostat_core::Uid;
use homeostat_store::{Entry, Error as StoreError, Op};
use serde_json::Value;

use super::options::WriteOptions;
use super::{Answer, Call};
use crate::auth::RoleWrite;
use crate::backend::{Backend, refusal};
use crate::convert;
use crate::crd;
use crate::deletion;
use crate::field;
use crate::kinds;
use crate::kinds::core::service::allocator::Mode;
use crate::kinds::prepare::{fold_aliases, prepare_for_update};
use crate::kinds::subresource;
use crate::metadata::validate::{Rules, validate_object_meta_update};
use crate::object::depth::{DEPTH_MAX, is_deeper};
use crate::object::{encode, meta};
use crate::patch::apply::{Manager, keep_times, track_update};
use crate::request::Verb;
use crate::resource::{Resource, Source};
use crate::schema;
use crate::status::Status;

/// How often a change that is much work is tried again after another write came between: Kubernetes' limit for patches. Light
/// ones are tried until they succeed: whoever loses has seen somebody else win.
const HEAVY_RETRIES_MAX: usize = 5;

/// What a change made of the stored object.
pub(super) struct Changed {
    /// The new object, before metadata is preserved and checks are made.
    pub(super) object: Value,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
    /// Were the managed fields worked out already (server-side apply)?
    pub(super) is_applied: bool,
}

impl Changed {
    pub(super) fn new(object: Value) -> Self {
        Self { object, warnings: Vec::new(), is_applied: false }
    }
}

/// Runs `make` on the stored object until its result is committed. Answers 404 when there is none.
pub(super) async fn change(
    call: &Call,
    options: &WriteOptions,
    make: impl Fn(&Value) -> Result<Changed, Status> + Send + Sync,
) -> Result<Answer, Status> {
    let key = call.key();
    for attempt in 0_usize.. {
        if call.is_heavy && attempt > HEAVY_RETRIES_MAX {
            break;
        }
        let snapshot = call.backend.store.snapshot();
        let entry = snapshot.get(&key).ok_or_else(|| call.not_found())?;
        let old = convert::decode(&call.resource, entry);
        let changed = make(&old)?;
        let Changed { object, warnings, is_applied } = changed;
        let about_kind = warnings_of(call, &object, Some(&old));
        let mut object = part(call, &old, object);
        check_preconditions(call, &object, &old, entry)?;
        preserve(&mut object, &old);
        if !call.resource.namespaced {
            meta::set(&mut object, "namespace", None);
        }
        if !is_applied {
            track(call, Some(&old), &mut object, &options.manager);
        }
        prepare(call, &mut object, &old)?;
        let mut errors = errors_of(call, &object, &old);
        if errors.is_empty() {
            errors = allocate(call, &mut object, Some(&old), options.is_dry_run);
        }
        if !errors.is_empty() {
            return Err(call.invalid(&call.path.name, &errors).warned(warnings));
        }
        add_always_written(&call.resource, &mut object);
        keep_times(&old, &mut object);
        check_depth(&object)?;
        match store(call, entry, old, object, options.is_dry_run).await? {
            Some(answer) => return Ok(answer.warned(warnings).warned(about_kind)),
            None => tokio::task::yield_now().await,
        }
    }
    Err(Status::modified(&call.resource.about(&call.path.name)))
}

/// What to tell the writer of an object that is stored all the same.
pub(super) fn warnings_of(call: &Call, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(kind) = call.resource.declaration() else { return warnings };
    if let Some(warn) = kind.warn {
        warnings.extend(warn(object, old));
    }
    if call.path.subresource.is_empty() {
        warnings.extend(kinds::warnings::warnings(&call.resource, object, old));
    }
    // What is only tried is not stored, and nobody relies on it.
    if !call.query.has("dryRun") {
        let write = kinds::declaration::Write { subresource: &call.path.subresource, new: object, old };
        warnings.extend(kind.warn_unenforced.into_iter().flat_map(|warn| warn(kind, &write)));
    }
    warnings
}

/// Commits the new object; `None` when another write came between.
async fn store(
    call: &Call,
    entry: &Arc<Entry>,
    old: Value,
    mut object: Value,
    is_dry_run: bool,
) -> Result<Option<Answer>, Status> {
    if deletion::may_go(&call.resource, &object) {
        return release(call, entry, object, is_dry_run).await;
    }
    let value = convert::encode(&call.resource, &object);
    if encode::is_same(entry, &value) {
        return answer_entry(call, entry).map(Some);
    }
    if is_dry_run {
        meta::set(&mut object, "resourceVersion", Some(entry.revision.to_string().into()));
        return answer_object(call, &object).map(Some);
    }
    // While the commit waits for the disk, hundreds of others may; their objects need not.
    drop((old, object));
    match call.backend.commit(entry.key.clone(), Some(entry), Op::Put(value)).await {
        Ok(committed) => {
            let entry = committed.entries.first().and_then(Option::as_ref).expect("a put leaves an entry");
            if is_definition(&call.resource) {
                crd::establish(&call.backend, &entry.key).await?;
            }
            answer_entry(call, entry).map(Some)
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(refusal(&error)),
    }
}

/// Refuses what could not be read back.
pub(super) fn check_depth(object: &Value) -> Result<(), Status> {
    if is_deeper(object, DEPTH_MAX) {
        let message =
            format!("the object is nested deeper than {DEPTH_MAX} levels, its managed fields included");
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Removes the object; the answer shows it as computed, at the revision it had.
async fn release(
    call: &Call,
    entry: &Arc<Entry>,
    mut object: Value,
    is_dry_run: bool,
) -> Result<Option<Answer>, Status> {
    if !is_dry_run {
        match call.backend.commit(entry.key.clone(), Some(entry), Op::Delete).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(refusal(&error)),
        }
    }
    meta::set(&mut object, "resourceVersion", Some(entry.revision.to_string().into()));
    answer_object(call, &object).map(Some)
}

/// A stored object as this endpoint shows it.
fn answer_entry(call: &Call, entry: &Arc<Entry>) -> Result<Answer, Status> {
    match &*call.path.subresource {
        "scale" => answer_object(call, &convert::decode(&call.resource, entry)),
        _ => Answer::entry(call, 200, entry),
    }
}

/// An object as this endpoint shows it.
fn answer_object(call: &Call, object: &Value) -> Result<Answer, Status> {
    match &*call.path.subresource {
        "scale" => Answer::object(call, 200, &subresource::scale_of(&call.resource, object)?),
        _ => Answer::object(call, 200, object),
    }
}

/// The words of Kubernetes' storage for an object that is not the one meant, its key included.
pub(super) fn wrong_uid(call: &Call, asked: &str, actual: &str) -> String {
    let resource = match call.resource.declaration() {
        Some(kind) => kind.registry_name.unwrap_or(kind.plural).to_owned(),
        None => format!("{}/{}", call.resource.group, call.resource.plural),
    };
    let namespace =
        if call.resource.namespaced { format!("{}/", call.path.namespace) } else { String::new() };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{resource}/{namespace}{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {actual}",
        call.path.name
    )
}

/// The uid and resourceVersion the client saw must be those stored.
fn check_preconditions(call: &Call, new: &Value, old: &Value, entry: &Entry) -> Result<(), Status> {
    let about = call.resource.about(&call.path.name);
    let (asked, actual) = (meta::uid(new), meta::uid(old));
    if !asked.is_empty() && asked != actual && call.verb != Verb::Patch {
        return Err(Status::conflict(&about, &wrong_uid(call, asked, actual)));
    }
    let asked = meta::text(new, "resourceVersion");
    if asked.is_empty() || asked == "0" {
        if call.strategy().allows_unconditional_update || call.verb == Verb::Patch {
            return Ok(());
        }
        let path = field::Path::Root;
        let path = path.field("metadata");
        let path = path.field("resourceVersion");
        let errors = field::Error::invalid(&path, &0.into(), "must be specified for an update").into();
        // Kubernetes names the resource here, not the kind.
        let resource = &call.resource;
        return Err(Status::invalid(&resource.group, &resource.plural, &call.path.name, &errors));
    }
    match asked.parse::<homeostat_core::Revision>() {
        Ok(asked) if asked == entry.revision => Ok(()),
        Ok(_) => Err(Status::modified(&about)),
        Err(_) => Err(Status::unclassified(format!("strconv.ParseUint: parsing {asked:?}: invalid syntax"))),
    }
}

/// What a subresource changes of the object: its own part and nothing else.
fn part(call: &Call, old: &Value, new: Value) -> Value {
    let merge = match call.resource.declaration() {
        Some(kind) => kind.part(&call.path.subresource).and_then(|part| part.merge),
        None if call.path.subresource == "status" => Some(subresource::status as _),
        None => None,
    };
    let Some(merge) = merge else { return new };
    let seen = ["uid", "resourceVersion"].map(|field| (field, new["metadata"].get(field).cloned()));
    let mut object = merge(&call.resource, old, new, &call.backend.clock);
    for (field, value) in seen {
        meta::set(&mut object, field, value);
    }
    object
}

/// What only the server sets is kept from the stored object.
fn preserve(new: &mut Value, old: &Value) {
    for name in ["creationTimestamp", "generation"] {
        meta::set(new, name, old["metadata"].get(name).cloned());
    }
    // Given and different, these are refused as immutable; left out, they stay.
    for name in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"] {
        let is_given = new["metadata"].get(name).is_some_and(|value| !value.is_null() && value != "");
        if !is_given {
            meta::set(new, name, old["metadata"].get(name).cloned());
        }
    }
    meta::set(new, "selfLink", None);
    meta::set(new, "resourceVersion", old["metadata"].get("resourceVersion").cloned());
}

/// Records who changed which fields.
pub(super) fn track(call: &Call, old: Option<&Value>, new: &mut Value, manager: &str) {
    fold_aliases(&call.resource, new);
    let schema = schema_of(&call.resource);
    let api_version = call.resource.api_version();
    track_update(schema.as_deref(), old, new, &call.manager(manager, &api_version), call.reset_fields());
}

/// The schema of a resource.
pub(super) fn schema_of(resource: &Resource) -> Option<schema::Ref> {
    resource.schema()
}

/// Per-kind preparation and the generation.
fn prepare(call: &Call, new: &mut Value, old: &Value) -> Result<(), Status> {
    let resource = &call.resource;
    if call.path.subresource.is_empty() {
        prepare_for_update(resource, new, old);
    }
    if changes_content(call) && call.strategy().generation.rises(new, old) {
        meta::set_generation(new, meta::generation(old).saturating_add(1));
    }
    let authorizer = &call.backend.authorizer;
    if resource.declaration().is_some_and(|kind| kind.has_signer) {
        authorizer.check_signing(&call.who, &call.path.subresource, new, old)?;
    }
    let write =
        RoleWrite { storage: resource.storage(), namespace: &call.path.namespace, name: &call.path.name };
    authorizer.check_role_write(&call.who, &write, new, Some(old))
}

/// Does this endpoint change what a generation counts?
fn changes_content(call: &Call) -> bool {
    match (&*call.path.subresource, call.resource.declaration()) {
        ("", _) => true,
        (name, Some(kind)) => kind.part(name).is_some_and(|part| part.changes_content),
        (name, None) => name == "scale",
    }
}

/// Gives a Service the addresses and ports it still needs.
pub(super) fn allocate(
    call: &Call,
    object: &mut Value,
    old: Option<&Value>,
    is_dry_run: bool,
) -> field::Errors {
    let has_addresses = call.resource.declaration().is_some_and(|kind| kind.has_cluster_addresses);
    if !has_addresses || !call.path.subresource.is_empty() {
        return field::Errors::new();
    }
    let mode = if is_dry_run { Mode::DryRun } else { Mode::Real };
    call.backend.services.allocate(object, old, mode, &call.backend.entropy).err().unwrap_or_default()
}

/// Built-in kinds show fields that are always there.
pub(super) fn add_always_written(resource: &Resource, object: &mut Value) {
    if !resource.is_custom()
        && let Some(schema) = schema_of(resource)
    {
        schema::add_always_written(&schema, object);
    }
}

impl Call {
    /// Who writes, for the record of managed fields.
    pub(super) fn manager<'a>(&'a self, name: &'a str, api_version: &'a str) -> Manager<'a> {
        Manager {
            name,
            api_version,
            kind: &self.resource.kind,
            subresource: &self.path.subresource,
            time: self.backend.clock.now(),
        }
    }

    /// The refusal of an object whose fields are wrong. Events of both groups are judged as the core group's.
    pub(super) fn invalid(&self, name: &str, errors: &field::Errors) -> Status {
        Status::invalid(self.resource.storage().group(), &self.resource.kind, name, errors)
    }

    /// What this endpoint does not write, whatever the request says.
    pub(super) fn reset_fields(&self) -> &'static [&'static str] {
        match &*self.path.subresource {
            "" => self.strategy().reset_on_main,
            "status" => self.strategy().reset_on_status,
            _ => &[],
        }
    }

    pub(super) fn metadata_rules(&self) -> Rules {
        Rules {
            namespaced: self.resource.namespaced,
            name: self.strategy().name,
            // Definitions are judged like the objects they define.
            is_custom: self.resource.is_custom() || is_definition(&self.resource),
        }
    }
}

fn errors_of(call: &Call, new: &Value, old: &Value) -> field::Errors {
    let resource = &call.resource;
    let path = field::Path::Root.field("metadata");
    let (new_meta, old_meta) = (&new["metadata"], &old["metadata"]);
    let mut errors = validate_object_meta_update(new_meta, old_meta, call.metadata_rules(), &path);
    match &resource.source {
        Source::Custom(custom) => {
            if let Some(schema) = &custom.schema {
                errors.append(match &*call.path.subresource {
                    "status" => schema::validate_status(schema, new, old),
                    _ => schema::validate(schema, new, Some(old)),
                });
            }
            errors.append(subresource::validate_scaled(resource, new, call.path.subresource == "status"));
            if let Some(cel) = &custom.cel {
                cel.judge_after(&mut errors, new, Some(old));
            }
        }
        Source::BuiltIn(known) => {
            errors.append(kinds::validate::validate_update(known.kind, &call.path.subresource, new, old));
        }
    }
    errors
}

pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.declaration().is_some_and(|kind| kind.defines_kinds)
}

/// Gives a new object its namespace, uid and birth time, and takes away what clients may not set.
pub(crate) fn stamp_new(backend: &Backend, resource: &Resource, namespace: &str, object: &mut Value) {
    let uid = Uid::random(&backend.entropy);
    let now = backend.now_text();
    let metadata = meta::metadata(object);
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(name);
    }
    if resource.namespaced {
        metadata.insert("namespace".into(), namespace.into());
    } else {
        metadata.remove("namespace");
    }
    metadata.insert("uid".into(), uid.as_str().into());
    metadata.insert("creationTimestamp".into(), now.into());
    if kinds::strategy::strategy(resource).has_generation() {
        metadata.insert("generation".into(), 1.into());
    }
}
