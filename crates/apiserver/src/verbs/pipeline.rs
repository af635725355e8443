//! Implements the single path that every write takes. Create, update, every patch, server-side apply, subresources and
//! Scale run these stages, in this order. The verbs differ in how they decode and merge; after that, they are the same.
//!
//! | stage | what happens | where |
//! |---|---|---|
//! | decode | parses the body, removes unknown fields, adds defaults | [`super::decode_body`] |
//! | convert | reads the stored object in the version of the request | [`crate::stored::convert`] |
//! | merge | merges patch, configuration, Scale or subresource with the stored object | the verb, [`merge`] |
//! | default | adds defaults to the merged object | [`super::decode_body`] |
//! | identify | removes server-set fields from a new object, keeps stored values in a changed one | [`metadata`] |
//! | record managers | records field managers (server-side apply does that while it merges) | [`field_managers`] |
//! | admit (mutate) | lets admission change or refuse the object | [`admit::mutate`] |
//! | prepare | sets name, uid and time of a new object, and fields that the kind sets | [`metadata`], [`prepare`] |
//! | validate | validates the whole object; allocates addresses for a valid one | [`validate`], [`prepare`] |
//! | admit (validate) | lets admission refuse the object, unchanged | [`admit::validate`] |
//! | charge | charges quotas, as steps of the commit | [`admit::charge_quotas`] |
//! | encode, commit | commits if the stored object is unchanged; otherwise starts over from it | [`commit`] |
//! | answer | sends the stored bytes, and all warnings | [`super::answer`] |
//!
//! The order is the same as in Kubernetes: its handlers decode, merge, record managers and run mutating admission; its
//! generic store prepares, validates, warns, runs validating admission and commits. In Kubernetes, too, a retry starts
//! from the stored object.
//!
//! **Invariant:** no stage before the commit has an effect outside the object, except for the addresses allocated to a
//! Service, which are freed if it is not written. **Invariant:** the loops terminate because each failed attempt means
//! that another write succeeded.

mod admit;
mod commit;
mod field_managers;
mod merge;
mod metadata;
mod policy_parameters;
mod prepare;
mod validate;

use std::sync::Arc;

use homeostat_api::object::meta;
use homeostat_api::patch::apply::keep_times;
use homeostat_api::status::Status;
use homeostat_store::Entry;
use serde_json::Value;

use super::answer::add_warnings;
use super::options::WriteOptions;
use super::{Answer, AuthorizedRequest};
use crate::new_object_metadata;
use crate::stored::convert;

pub(super) use admit::{admit_deletion, admit_document};
pub(super) use metadata::wrong_uid;

/// How often an expensive change is retried after another write came first: Kubernetes' limit for patches. Cheap
/// changes are retried until they succeed, because each retry means that another write has succeeded.
const EXPENSIVE_RETRIES_MAX: usize = 5;
/// How often a generated name is tried, as in Kubernetes.
const GENERATE_ATTEMPTS_MAX: u32 = 8;

/// An object that a verb produced: decoded, merged and defaulted.
pub(super) struct ObjectDraft {
    /// The object.
    pub(super) object: Value,
    /// Warnings for the client, regardless of the result of the write.
    pub(super) warnings: Vec<String>,
    /// Whether the object already records its field managers. Server-side apply does that while it merges.
    pub(super) has_managers: bool,
}

impl ObjectDraft {
    pub(super) fn new(object: Value) -> Self {
        Self { object, warnings: Vec::new(), has_managers: false }
    }
}

/// What happens when the object to change does not exist.
pub(super) enum OnMissing<'a> {
    /// The change is refused.
    Refuse,
    /// The change creates this object.
    Create(&'a (dyn Fn() -> Result<ObjectDraft, Status> + Send + Sync)),
}

/// Writes a new object, under a generated name if it requests one.
pub(super) async fn create(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    mut draft: ObjectDraft,
) -> Result<Answer, Status> {
    let warnings = std::mem::take(&mut draft.warnings);
    add_warnings(insert_under_any_name(call, options, draft).await, warnings)
}

/// Writes the result of `make` on the stored object, and retries until no other write intervenes.
pub(super) async fn write_with_retries(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    on_missing: OnMissing<'_>,
    make: impl Fn(&Value) -> Result<ObjectDraft, Status> + Send + Sync,
) -> Result<Answer, Status> {
    let key = call.key();
    for attempt in 0_usize.. {
        if call.is_expensive && attempt > EXPENSIVE_RETRIES_MAX {
            break;
        }
        let snapshot = call.backend.store.snapshot();
        let (written, warnings) = match (snapshot.get(&key), &on_missing) {
            (Some(entry), _) => {
                let shown = call.converted(entry).await?;
                let old = convert::decode_in_version(&call.resource, &shown);
                let mut draft = make(&old)?;
                let warnings = std::mem::take(&mut draft.warnings);
                (replace(call, options, entry, old, draft).await, warnings)
            }
            (None, OnMissing::Create(make)) => {
                let mut draft = make()?;
                let warnings = std::mem::take(&mut draft.warnings);
                (insert_missing(call, options, draft).await, warnings)
            }
            (None, OnMissing::Refuse) => return Err(call.not_found()),
        };
        match written.transpose() {
            Some(written) => return add_warnings(written, warnings),
            None => tokio::task::yield_now().await,
        }
    }
    Err(Status::modified(&call.resource.about(&call.path.name)))
}

/// Runs a new object through the stages up to mutating admission, once for all attempts to find a name.
async fn begin(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    draft: ObjectDraft,
) -> Result<Value, Status> {
    let ObjectDraft { mut object, has_managers, .. } = draft;
    metadata::check_new(call, &object)?;
    new_object_metadata::clear(&mut object);
    if !has_managers {
        field_managers::record(call, None, &mut object, &options.manager);
    }
    admit::mutate(call, options, &mut object, None).await?;
    // Like clients, admission must not set these fields.
    new_object_metadata::clear(&mut object);
    Ok(object)
}

/// Writes a new object. If it requests a generated name, retries until that name is free.
async fn insert_under_any_name(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    draft: ObjectDraft,
) -> Result<Answer, Status> {
    let has_revision = metadata::has_revision(call, &draft.object);
    let mut object = begin(call, options, draft).await?;
    let is_generated = metadata::wants_name(&object);
    let template = is_generated.then(|| object.clone());
    for attempt in 1.. {
        if is_generated {
            metadata::generate_name(call, &mut object);
        }
        let name = meta::name(&object).to_owned();
        match insert(call, options, object, has_revision).await? {
            Some(answer) => return Ok(answer),
            None if is_generated && attempt < GENERATE_ATTEMPTS_MAX => {
                object = template.clone().expect("kept for generated names");
            }
            None => return Err(commit::already_exists(call, &name, is_generated)),
        }
    }
    unreachable!("the loop ends by returning")
}

/// Writes a new object under the name in the path; returns `None` if the object already exists by then.
async fn insert_missing(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    draft: ObjectDraft,
) -> Result<Option<Answer>, Status> {
    let object = begin(call, options, draft).await?;
    insert(call, options, object, false).await
}

/// Runs a new object through the remaining stages; returns `None` if its name is taken.
async fn insert(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    mut object: Value,
    has_revision: bool,
) -> Result<Option<Answer>, Status> {
    let (resource, namespace) = (&call.resource, &*call.path.namespace);
    new_object_metadata::stamp(&call.backend, resource, namespace, &mut object);
    let warnings = finish(call, options, &mut object, None).await?;
    if has_revision && !options.is_dry_run {
        return Err(Status::unclassified("resourceVersion should not be set on objects to be created"));
    }
    let written = commit::insert(call, options, object).await?;
    Ok(written.map(|answer| answer.warned(warnings)))
}

/// Runs a changed object through the stages; returns `None` if another write intervened.
async fn replace(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    entry: &Arc<Entry>,
    old: Value,
    draft: ObjectDraft,
) -> Result<Option<Answer>, Status> {
    let mut object = merge::part(call, &old, draft.object);
    metadata::check_preconditions(call, &object, &old, entry, draft.has_managers)?;
    metadata::preserve(call, &mut object, &old);
    if !draft.has_managers {
        field_managers::record(call, Some(&old), &mut object, &options.manager);
    }
    admit::mutate(call, options, &mut object, Some(&old)).await?;
    metadata::preserve(call, &mut object, &old);
    let warnings = finish(call, options, &mut object, Some(&old)).await?;
    let written = commit::replace(call, options, entry, old, object).await?;
    Ok(written.map(|answer| answer.warned(warnings)))
}

/// Runs the stages between mutating admission and the commit. Returns the kind's warnings.
async fn finish(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<String>, Status> {
    prepare::prepare(call, object, old)?;
    validate::validate(call, object, old)?;
    prepare::allocate(call, options, object, old)?;
    prepare::add_always_written(call, object);
    if let Some(old) = old {
        keep_times(old, object);
    }
    validate::check_depth(object)?;
    let warnings = validate::warnings(call, options, object, old);
    admit::validate(call, options, object, old).await?;
    Ok(warnings)
}
