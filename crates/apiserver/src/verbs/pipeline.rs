//! The one path of a write. Create, update, every patch, server-side apply, subresources and Scale run these stages, in this
//! order. The verbs differ in what they decode and merge; from there on they are the same.
//!
//! | stage | what happens | where |
//! |---|---|---|
//! | decode | the body becomes an object: unknown fields go, defaults come | [`super::decode_body`] |
//! | convert | the stored object is read in the version of the request | [`crate::convert`] |
//! | merge | patch, configuration, Scale or subresource and stored object become the new object | the verb, [`merge`] |
//! | default | what was merged gets defaults, too | [`super::decode_body`] |
//! | identify | what only the server sets is taken out of a new object, and kept in a changed one | [`metadata`] |
//! | record managers | who manages which field (server-side apply knows since it merged) | [`managers`] |
//! | admit (mutate) | admission changes or refuses the object | [`admit::mutate`] |
//! | prepare | a new object gets its name, uid and time; the kind puts in what the server decides | [`metadata`], [`prepare`] |
//! | validate | the object is judged whole; addresses are given to one that is right | [`validate`], [`prepare`] |
//! | admit (validate) | admission refuses the object, or lets it pass as it is | [`admit::validate`] |
//! | encode, commit | once, if nothing moved underneath; else all over, from the stored object | [`commit`] |
//! | answer | the stored bytes, and every warning on the way | [`super::answer`] |
//!
//! The order is that of Kubernetes: its handlers decode, merge, record managers and let admission mutate; its generic store
//! prepares, validates, warns, lets admission validate and commits. A retry starts at the stored object there, too.
//!
//! **Invariant:** no stage before the commit has an effect outside of the object, but for addresses a Service is given,
//! which are free again if it is not written. **Invariant:** the loops end because each turn that loses has seen another write
//! win.

mod admit;
mod commit;
mod managers;
mod merge;
mod metadata;
mod prepare;
mod validate;

use std::sync::Arc;

use homeostat_store::Entry;
use serde_json::Value;

use super::answer::warned;
use super::options::WriteOptions;
use super::{Answer, Call};
use crate::convert;
use crate::namespace;
use crate::object::meta;
use crate::patch::apply::keep_times;
use crate::status::Status;

pub(crate) use metadata::stamp_new;
pub(super) use metadata::wrong_uid;

/// How often a change that is much work is tried again after another write came between: Kubernetes' limit for patches. Light
/// ones are tried until they succeed: whoever loses has seen somebody else win.
const HEAVY_RETRIES_MAX: usize = 5;
/// How often a generated name is tried before giving up, as in Kubernetes.
const GENERATE_ATTEMPTS_MAX: u32 = 8;

/// An object that a verb made: decoded, merged and defaulted.
pub(super) struct Draft {
    /// The object.
    pub(super) object: Value,
    /// What the client is warned of, whatever comes of the write.
    pub(super) warnings: Vec<String>,
    /// Does the object say already who manages which field? Server-side apply works that out while it merges.
    pub(super) has_managers: bool,
}

impl Draft {
    pub(super) fn new(object: Value) -> Self {
        Self { object, warnings: Vec::new(), has_managers: false }
    }
}

/// What becomes of a change of an object that is not there.
pub(super) enum OnMissing<'a> {
    /// It is refused.
    Refuse,
    /// It creates this object.
    Create(&'a (dyn Fn() -> Result<Draft, Status> + Send + Sync)),
}

/// Writes a new object, under a generated name if it asks for one.
pub(super) async fn create(call: &Call, options: &WriteOptions, mut draft: Draft) -> Result<Answer, Status> {
    let warnings = std::mem::take(&mut draft.warnings);
    warned(insert_under_any_name(call, options, draft).await, warnings)
}

/// Writes what `make` makes of the stored object, again and again until nothing came between.
pub(super) async fn change(
    call: &Call,
    options: &WriteOptions,
    on_missing: OnMissing<'_>,
    make: impl Fn(&Value) -> Result<Draft, Status> + Send + Sync,
) -> Result<Answer, Status> {
    let key = call.key();
    for attempt in 0_usize.. {
        if call.is_heavy && attempt > HEAVY_RETRIES_MAX {
            break;
        }
        let snapshot = call.backend.store.snapshot();
        let (written, warnings) = match (snapshot.get(&key), &on_missing) {
            (Some(entry), _) => {
                let old = convert::decode(&call.resource, entry);
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
            Some(written) => return warned(written, warnings),
            None => tokio::task::yield_now().await,
        }
    }
    Err(Status::modified(&call.resource.about(&call.path.name)))
}

/// A new object, up to the admission that may change it: as often as names are tried, this is done once.
fn begin(call: &Call, options: &WriteOptions, draft: Draft) -> Result<Value, Status> {
    let Draft { mut object, has_managers, .. } = draft;
    metadata::check_new(call, &object)?;
    metadata::clear(&mut object);
    if !has_managers {
        managers::record(call, None, &mut object, &options.manager);
    }
    admit::mutate(call, &mut object, None)?;
    Ok(object)
}

/// A new object's way, as often as it takes to find a name that is free if it asks for one.
async fn insert_under_any_name(call: &Call, options: &WriteOptions, draft: Draft) -> Result<Answer, Status> {
    let mut object = begin(call, options, draft)?;
    let is_generated = metadata::wants_name(&object);
    let template = is_generated.then(|| object.clone());
    for attempt in 1.. {
        if is_generated {
            metadata::generate_name(call, &mut object);
        }
        let name = meta::name(&object).to_owned();
        match insert(call, options, object).await? {
            Some(answer) => return Ok(answer),
            None if is_generated && attempt < GENERATE_ATTEMPTS_MAX => {
                object = template.clone().expect("kept for generated names");
            }
            None => return Err(commit::already_exists(call, &name, is_generated)),
        }
    }
    unreachable!("the loop ends by returning")
}

/// The way of a new object under the name of the path; `None` when it is there meanwhile.
async fn insert_missing(call: &Call, options: &WriteOptions, draft: Draft) -> Result<Option<Answer>, Status> {
    let object = begin(call, options, draft)?;
    insert(call, options, object).await
}

/// The rest of a new object's way; `None` when its name is taken.
async fn insert(call: &Call, options: &WriteOptions, mut object: Value) -> Result<Option<Answer>, Status> {
    let (resource, namespace) = (&call.resource, &*call.path.namespace);
    let condition = namespace::check_create(&call.backend, resource, namespace, meta::name(&object))?;
    metadata::stamp(&call.backend, resource, namespace, &mut object);
    let told = finish(call, options, &mut object, None)?;
    let written = commit::insert(call, options, condition, object).await?;
    Ok(written.map(|answer| answer.warned(told)))
}

/// A changed object's way; `None` when another write came between.
async fn replace(
    call: &Call,
    options: &WriteOptions,
    entry: &Arc<Entry>,
    old: Value,
    draft: Draft,
) -> Result<Option<Answer>, Status> {
    let mut object = merge::part(call, &old, draft.object);
    metadata::check_preconditions(call, &object, &old, entry)?;
    metadata::preserve(call, &mut object, &old);
    if !draft.has_managers {
        managers::record(call, Some(&old), &mut object, &options.manager);
    }
    admit::mutate(call, &mut object, Some(&old))?;
    let told = finish(call, options, &mut object, Some(&old))?;
    let written = commit::replace(call, options, entry, old, object).await?;
    Ok(written.map(|answer| answer.warned(told)))
}

/// What lies between admission that may change an object and the commit. Returns what its kind warns of.
fn finish(
    call: &Call,
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
    admit::validate(call, object, old)?;
    Ok(warnings)
}
