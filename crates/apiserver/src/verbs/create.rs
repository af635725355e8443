//! Create: a body becomes an object that did not exist before.

use homeostat_store::{Error as StoreError, Op, Snapshot};
use serde_json::Value;

use super::admit::{self, Admitted};
use super::answer::warned;
use super::options::WriteOptions;
use super::update::OTHER_NAMESPACE;
use super::write::{add_always_written, allocate, check_depth, is_definition, stamp_new, track, warnings_of};
use super::{Answer, Call};
use crate::auth::RoleWrite;
use crate::backend::{key_of, refusal};
use crate::convert;
use crate::crd;
use crate::field;
use crate::kinds;
use crate::kinds::prepare::{Prepare, prepare_for_create};
use crate::kinds::scheduling::priority_class::PRIORITY_CLASS;
use crate::kinds::subresource::validate_scaled;
use crate::metadata::validate::validate_object_meta;
use crate::namespace;
use crate::object::{encode, meta};
use crate::resource::Source;
use crate::schema;
use crate::status::Status;
use crate::storage::Storage;

/// Random letters appended to `generateName`.
const SUFFIX_LETTERS: usize = 5;
/// Longest base of a generated name: with the suffix it still fits a DNS label.
const GENERATE_NAME_BYTES_MAX: usize = 63 - SUFFIX_LETTERS;
/// How often a generated name is tried before giving up, as in Kubernetes.
const GENERATE_ATTEMPTS_MAX: u32 = 8;

/// Creates the object of the body.
pub(super) async fn create(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::of(call, "CreateOptions")?;
    let Admitted { object, warnings } = admit::body(call, body, options.strictness)?;
    let about_kind = warnings_of(call, &object, None);
    let answer = create_object(call, &options, object).await.map(|answer| answer.warned(about_kind));
    warned(answer, warnings)
}

/// Creates an object that is already decoded and defaulted.
pub(super) async fn create_object(
    call: &Call,
    options: &WriteOptions,
    mut object: Value,
) -> Result<Answer, Status> {
    let resource = &call.resource;
    check_body(call, &object)?;
    if resource.custom().is_some_and(|custom| custom.is_terminating) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&resource.about(meta::name(&object)), why));
    }
    let is_generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
    let template = is_generated.then(|| object.clone());
    for attempt in 1.. {
        if is_generated {
            generate_name(call, &mut object);
        }
        let name = meta::name(&object).to_owned();
        match create_named(call, options, object).await? {
            Some(answer) => return Ok(answer),
            None if is_generated && attempt < GENERATE_ATTEMPTS_MAX => {
                object = template.clone().expect("kept for generated names");
            }
            None => return Err(already_exists(call, &name, is_generated)),
        }
    }
    unreachable!("the loop ends by returning")
}

/// One attempt; `None` when the name is taken.
async fn create_named(
    call: &Call,
    options: &WriteOptions,
    mut object: Value,
) -> Result<Option<Answer>, Status> {
    let resource = &call.resource;
    let name = meta::name(&object).to_owned();
    let condition = namespace::check_create(&call.backend, resource, &call.path.namespace, &name)?;
    if !call.is_apply() {
        track(call, None, &mut object, &options.manager);
    }
    stamp_new(&call.backend, resource, &call.path.namespace, &mut object);
    prepare(call, &mut object)?;
    let mut errors = errors_of(call, &object);
    if errors.is_empty() {
        errors = allocate(call, &mut object, None, options.is_dry_run);
    }
    if !errors.is_empty() {
        return Err(call.invalid(&name, &errors));
    }
    add_always_written(resource, &mut object);
    check_depth(&object)?;
    let key = key_of(resource, &call.path.namespace, &name);
    if call.backend.store.snapshot().get(&key).is_some() {
        return Ok(None);
    }
    if options.is_dry_run {
        return Answer::object(call, 201, &object).map(Some);
    }
    let value = convert::encode(resource, &object);
    drop(object);
    match call.backend.create(key, Op::Put(value), condition).await {
        Ok(committed) => {
            let entry = committed.entries.first().and_then(Option::as_ref).expect("a put leaves an entry");
            if is_definition(resource) {
                crd::establish(&call.backend, &entry.key).await?;
            }
            Answer::entry(call, 201, entry).map(Some)
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(refusal(&error)),
    }
}

fn check_body(call: &Call, object: &Value) -> Result<(), Status> {
    let (asked, given) = (&*call.path.namespace, meta::namespace(object));
    if call.resource.namespaced && !given.is_empty() && given != asked {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    let revision = meta::text(object, "resourceVersion");
    if !revision.is_empty() && revision != "0" && !call.is_apply() {
        return Err(Status::unclassified("resourceVersion should not be set on objects to be created"));
    }
    Ok(())
}

fn generate_name(call: &Call, object: &mut Value) {
    let mut base = meta::text(object, "generateName").to_owned();
    if base.len() > GENERATE_NAME_BYTES_MAX {
        let end = (0..=GENERATE_NAME_BYTES_MAX).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        base.truncate(end);
    }
    base.push_str(&call.backend.entropy.suffix(SUFFIX_LETTERS));
    meta::set(object, "name", Some(base.into()));
}

fn already_exists(call: &Call, name: &str, is_generated: bool) -> Status {
    let mut status = Status::already_exists(&call.resource.about(name));
    let snapshot = call.backend.store.snapshot();
    let taken = snapshot.get(&key_of(&call.resource, &call.path.namespace, name));
    if taken.is_some_and(|entry| meta::is_deleting(&encode::decode(entry))) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    if is_generated {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status = status.retry_after(1);
    }
    status
}

fn prepare(call: &Call, object: &mut Value) -> Result<(), Status> {
    let resource = &call.resource;
    let backend = &call.backend;
    let uid = meta::uid(object).to_owned();
    let snapshot = backend.store.snapshot();
    let priority_class = |name: &str| priority_class(&snapshot, name);
    let with = Prepare {
        clock: &backend.clock,
        uid: &uid,
        identity: &call.who,
        priority_classes: &priority_class,
        has_node: backend.logs.get().is_some(),
    };
    prepare_for_create(resource, object, &with)?;
    if let Some(schema) = resource.custom().and_then(|custom| custom.schema.as_ref()) {
        // The status was taken away; its defaults come back.
        schema::default(schema, object).map_err(admit::defaults_too_large)?;
    }
    let write =
        RoleWrite { storage: resource.storage(), namespace: &call.path.namespace, name: &call.path.name };
    backend.authorizer.check_role_write(&call.who, &write, object, None)
}

/// The PriorityClass of this name; the empty name asks for the global default.
fn priority_class(snapshot: &Snapshot, name: &str) -> Option<Value> {
    const CLASSES: Storage<'static> = PRIORITY_CLASS.storage();
    if !name.is_empty() {
        return snapshot.get(&CLASSES.key("", name)).map(|entry| encode::decode(entry));
    }
    snapshot
        .range(&CLASSES.prefix(), "")
        .map(|entry| encode::decode(entry))
        .find(|class| class["globalDefault"] == true)
}

fn errors_of(call: &Call, object: &Value) -> field::Errors {
    let resource = &call.resource;
    let path = field::Path::Root.field("metadata");
    let mut errors = validate_object_meta(&object["metadata"], call.metadata_rules(), &path);
    match &resource.source {
        Source::Custom(custom) => {
            if let Some(schema) = &custom.schema {
                errors.append(schema::validate(schema, object, None));
            }
            errors.append(validate_scaled(resource, object, false));
            if let Some(cel) = &custom.cel {
                cel.judge_after(&mut errors, object, None);
            }
        }
        Source::BuiltIn(known) => errors.append(kinds::validate::validate_create(known.kind, object)),
    }
    errors
}
