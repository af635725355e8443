//! Implements delete: removes an object, or marks it for deletion while finalizers, dependents or a grace period hold
//! it.

use std::sync::Arc;

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::resource::deletion;
use homeostat_api::resource::strategy::strategy;
use homeostat_api::status::{Details, Status};
use homeostat_core::Revision;
use homeostat_store::{Entry, Error as StoreError, Op};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decode_body::decode_document;
use super::pipeline::admit_deletion;
use super::{Answer, AuthorizedRequest};
use crate::backend::{Backend, commit_refusal};
use crate::stored::convert;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// Holds an owner until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an owner until its dependents no longer refer to it.
pub(crate) const ORPHAN: &str = "orphan";
/// The grace period of a Pod that specifies none.
const POD_GRACE_S: i64 = 30;

/// The file in which Kubernetes registers the options of requests, as named in its refusals.
const OPTIONS_SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// The treatment of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) policy: Option<PropagationPolicy>,
    pub(crate) grace_s: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) is_dry_run: bool,
    /// Whether the request contains `orphanDependents: false`. In that case the response says whether the object still
    /// exists.
    pub(crate) must_report_if_kept: bool,
    /// The options as they were sent, for admission.
    pub(crate) sent: Value,
}

impl DeleteOptions {
    /// Parses the options of a request: its body, or its query if there is no body.
    pub(super) fn parse(call: &AuthorizedRequest, body: &[u8]) -> Result<Self, Status> {
        let options = if body.is_empty() { Self::query_json(call)? } else { Self::body_json(call, body)? };
        Self::from_json(&options)
    }

    fn body_json(call: &AuthorizedRequest, body: &[u8]) -> Result<Value, Status> {
        let options = decode_document(call, body, ("v1", "DeleteOptions"))?;
        if let Some(kind) = options["kind"].as_str()
            && !kind.is_empty()
            && kind != "DeleteOptions"
        {
            let version = options["apiVersion"].as_str().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme {OPTIONS_SCHEME:?}"
            )));
        }
        Ok(options)
    }

    fn query_json(call: &AuthorizedRequest) -> Result<Value, Status> {
        let query = &call.query;
        let mut options = json!({});
        if let Some(policy) = query.value("propagationPolicy") {
            options["propagationPolicy"] = policy.into();
        }
        if query.has("orphanDependents") {
            options["orphanDependents"] = query.flag("orphanDependents").into();
        }
        if let Some(seconds) = query.number("gracePeriodSeconds")? {
            options["gracePeriodSeconds"] = seconds.into();
        }
        // In the query, the fields of the preconditions have no parent.
        for name in ["uid", "resourceVersion"] {
            if let Some(text) = query.value(name).filter(|text| !text.is_empty()) {
                options["preconditions"][name] = text.into();
            }
        }
        let dry_run = query.all("dryRun").map(Value::from).collect::<Vec<_>>();
        if !dry_run.is_empty() {
            options["dryRun"] = dry_run.into();
        }
        Ok(options)
    }

    pub(super) fn from_json(options: &Value) -> Result<Self, Status> {
        let root = FieldPath::Root;
        let mut errors = Errors::new();
        let orphan = options["orphanDependents"].as_bool();
        let policy_path = root.field("propagationPolicy");
        let named = options["propagationPolicy"].as_str();
        if named.is_some() && orphan.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid(&policy_path, &options["propagationPolicy"], detail));
        }
        let policy = match (named, orphan) {
            (Some("Background"), _) | (None, Some(false)) => Some(PropagationPolicy::Background),
            (Some("Foreground"), _) => Some(PropagationPolicy::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(PropagationPolicy::Orphan),
            (None, None) => None,
            (Some(_), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(Error::not_supported(&policy_path, &options["propagationPolicy"], &supported));
                None
            }
        };
        let dry_run = options["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
        if dry_run.iter().any(|one| one != "All") {
            errors.push(Error::not_supported(&root.field("dryRun"), &options["dryRun"], &["All"]));
        }
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let precondition = |name: &str| options["preconditions"][name].as_str().map(Into::into);
        Ok(Self {
            policy,
            grace_s: options["gracePeriodSeconds"].as_i64(),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            is_dry_run: !dry_run.is_empty(),
            must_report_if_kept: orphan == Some(false),
            sent: options.clone(),
        })
    }
}

impl DeleteOptions {
    /// Returns warnings about effects that may surprise users who did not set these options.
    pub(super) fn warnings(&self, resource: &Resource) -> Vec<String> {
        if self.policy.is_some() {
            return Vec::new();
        }
        let warning = resource.declaration().and_then(|kind| kind.delete_warning);
        warning.into_iter().map(str::to_owned).collect()
    }
}

/// Checks that the object with this name may be deleted.
fn check_delete(resource: &Resource, name: &str) -> Result<(), Status> {
    let Some(protected) = resource.declaration().map(|kind| kind.protected) else { return Ok(()) };
    if protected.names.contains(&name) {
        return Err(Status::forbidden(&resource.about(name), protected.why));
    }
    Ok(())
}

/// The outcome of a deletion.
pub(crate) enum DeletionOutcome {
    /// Deleted: the last state, and the revision of the deletion.
    Gone(Arc<Entry>, Revision),
    /// Marked for deletion, and still there.
    Marked(Arc<Entry>),
    /// The state that a dry run would have left.
    DryRun(Value),
}

/// Deletes the object that the path names.
pub(super) async fn delete(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let options = DeleteOptions::parse(call, body)?;
    check_delete(&call.resource, &call.path.name)?;
    let removed = remove_admitted(call, &call.path.namespace, &call.path.name, &options).await?;
    let held = if options.must_report_if_kept { 202 } else { 200 };
    let answer = match removed {
        DeletionOutcome::Marked(entry) => Answer::entry(call, held, &call.converted(&entry).await?),
        DeletionOutcome::DryRun(object) => Answer::object(call, held, &in_version(call, object).await?),
        DeletionOutcome::Gone(entry, revision) if call.strategy().returns_object_on_delete => {
            let entry = call.converted(&entry).await?;
            let mut object = last_state(call, &entry, revision);
            if call.strategy().is_graceful && meta::is_deleting(&object) {
                mark_for_deletion(&call.backend, &call.resource, &mut object, 0);
            }
            Answer::object(call, 200, &object)
        }
        DeletionOutcome::Gone(entry, _) => {
            Ok(Answer::value(call, 200, &success_status(call, &encode::parse_entry(&entry))))
        }
    };
    answer.map(|answer| answer.warned(options.warnings(&call.resource)))
}

/// Converts a stored object to the version of the request.
async fn in_version(call: &AuthorizedRequest, object: Value) -> Result<Value, Status> {
    if object["apiVersion"] == *call.resource.api_version() {
        return Ok(object);
    }
    if !call.has_converter() {
        return Ok(homeostat_api::convert::to_version(&call.resource, object));
    }
    let conversions = &call.backend.conversions;
    conversions.object(&call.resource, &call.resource.version, object, call.slot.as_ref()).await
}

/// Returns the last state of the object, at the revision of its deletion.
pub(super) fn last_state(call: &AuthorizedRequest, entry: &Entry, revision: Revision) -> Value {
    let mut object = convert::decode_in_version(&call.resource, entry);
    meta::set(&mut object, "resourceVersion", Some(revision.to_string().into()));
    object
}

fn success_status(call: &AuthorizedRequest, object: &Value) -> Value {
    let details = Details {
        name: call.path.name.clone(),
        group: call.resource.group.to_string(),
        kind: call.resource.plural.to_string(),
        uid: meta::uid(object).into(),
        ..Details::default()
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.to_json()})
}

/// Deletes one object for a client, unless admission refuses.
pub(super) async fn remove_admitted(
    call: &AuthorizedRequest,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<DeletionOutcome, Status> {
    remove_for((&call.backend, &call.resource), (namespace, name), options, DeletionInitiator::Client(call))
        .await
}

/// Deletes a Pod for a client without consulting admission, which already reviewed the eviction.
pub(super) async fn remove_evicted(
    call: &AuthorizedRequest,
    options: &DeleteOptions,
) -> Result<DeletionOutcome, Status> {
    let object = (call.path.namespace.as_str(), call.path.name.as_str());
    remove_for((&call.backend, &call.resource), object, options, DeletionInitiator::Evicter(call)).await
}

/// Deletes one object for a background task, without consulting admission.
pub(crate) async fn remove(
    (backend, task): (&Backend, ServerTask),
    resource: &Resource,
    object: (&str, &str),
    options: &DeleteOptions,
) -> Result<DeletionOutcome, Status> {
    remove_for((backend, resource), object, options, DeletionInitiator::Task(task)).await
}

/// The initiator of a deletion.
#[derive(Clone, Copy)]
enum DeletionInitiator<'a> {
    /// A client. Admission reviews the deletion.
    Client(&'a AuthorizedRequest),
    /// A client that evicts a Pod.
    Evicter(&'a AuthorizedRequest),
    /// The server itself.
    Task(ServerTask),
}

impl DeletionInitiator<'_> {
    /// Records the deletion in the history: that the object was deleted or marked for deletion.
    fn record(self, backend: &Backend, resource: &Resource, before: &Arc<Entry>, after: Option<&Arc<Entry>>) {
        match self {
            Self::Client(call) | Self::Evicter(call) => call.record_write(Some(before), after),
            Self::Task(task) => {
                backend.writes.record_own(task, resource, (Some(before), after), backend.clock.now());
            }
        }
    }
}

/// Deletes an object. All objects are deleted through this function.
async fn remove_for(
    (backend, resource): (&Backend, &Resource),
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
    remover: DeletionInitiator<'_>,
) -> Result<DeletionOutcome, Status> {
    let key = crate::backend::key_of(resource, namespace, name);
    loop {
        let snapshot = backend.store.snapshot();
        let entry = snapshot.get(&key).ok_or_else(|| Status::not_found(&resource.about(name)))?;
        let object = convert::decode_stored(resource, entry);
        check_preconditions(resource, &object, entry, options)?;
        if let DeletionInitiator::Client(call) = remover {
            let shown = call.converted(entry).await?;
            let shown = convert::decode_in_version(resource, &shown);
            admit_deletion(call, name, &shown, &options.sent).await?;
        }
        let (op, marked) = plan_deletion(backend, resource, &object, options);
        let is_last_mark = marked
            .as_ref()
            .is_some_and(|object| is_running(resource, object) && deletion::may_go(resource, object));
        if options.is_dry_run {
            return Ok(marked.map_or_else(
                || DeletionOutcome::Gone(Arc::clone(entry), entry.revision),
                DeletionOutcome::DryRun,
            ));
        }
        let Some(op) = op else { return Ok(DeletionOutcome::Marked(Arc::clone(entry))) };
        match backend.commit(key.clone(), Some(entry), op).await {
            Ok(committed) => {
                let left = committed.entries.into_iter().next().flatten();
                if is_last_mark {
                    continue;
                }
                remover.record(backend, resource, entry, left.as_ref());
                let gone = || DeletionOutcome::Gone(Arc::clone(entry), committed.revision);
                return Ok(left.map_or_else(gone, DeletionOutcome::Marked));
            }
            Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
}

pub(super) fn check_preconditions(
    resource: &Resource,
    object: &Value,
    entry: &Entry,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // Kubernetes names the kind here, not the resource.
    let about =
        homeostat_api::status::ResourceName { resource: &resource.kind, ..resource.about(entry.key.name()) };
    let pairs = [
        ("UID", &options.uid, meta::uid(object).to_owned(), "deleted and then recreated"),
        ("ResourceVersion", &options.resource_version, entry.revision.to_string(), "modified"),
    ];
    for (what, asked, actual, fate) in pairs {
        if let Some(asked) = asked
            && *asked != actual
        {
            let why = format!(
                "the {what} in the precondition ({asked}) does not match the {what} in record ({actual}). The \
                 object might have been {fate}"
            );
            return Err(Status::conflict(&about, &why));
        }
    }
    Ok(())
}

/// Returns the write that carries out a deletion (`None` if nothing changes) and, if the object stays, its new state.
fn plan_deletion(
    backend: &Backend,
    resource: &Resource,
    object: &Value,
    options: &DeleteOptions,
) -> (Option<Op>, Option<Value>) {
    let mut marked = object.clone();
    let begin = resource.declaration().and_then(|kind| kind.deletion.begin);
    if let Some(begin) = begin.filter(|_| !meta::is_deleting(object)) {
        begin(&mut marked, &backend.now_text());
        return (Some(Op::Put(encode::encode_stored_version(resource, &marked))), Some(marked));
    }
    meta::set_finalizers(&mut marked, finalizers_after(resource, object, options.policy));
    let grace_s = grace_period(resource, object, options.grace_s);
    let has_ended = !is_running(resource, object) || deletion::may_go(resource, object);
    if grace_s == 0 && has_ended && !deletion::is_held(resource, &marked) {
        return (Some(Op::Delete), None);
    }
    mark_for_deletion(backend, resource, &mut marked, grace_s);
    if marked == *object {
        return (None, Some(marked));
    }
    let value = encode::encode_stored_version(resource, &marked);
    (Some(Op::Put(value)), Some(marked))
}

fn mark_for_deletion(backend: &Backend, resource: &Resource, object: &mut Value, grace_s: i64) {
    let was_deleting = meta::is_deleting(object);
    let old_grace_s = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let rules = resource.declaration().map(|kind| kind.deletion);
    if rules.is_some_and(|rules| rules.begin.is_some()) && old_grace_s.is_none() {
        // An object whose deletion began with its kind's own mark has no grace period until it is deleted again.
        meta::set(object, "deletionGracePeriodSeconds", Some(0.into()));
        return;
    }
    if !was_deleting || old_grace_s.is_some_and(|old| grace_s < old) {
        let birth = if was_deleting { requested_at(object, old_grace_s) } else { None };
        let at = add_seconds(birth.unwrap_or_else(|| backend.clock.now()), grace_s);
        meta::set(object, "deletionTimestamp", Some(meta::time(at).into()));
        if rules.is_none_or(|rules| rules.has_grace_period) {
            meta::set(object, "deletionGracePeriodSeconds", Some(grace_s.into()));
        }
        if meta::generation(object) > 0 && !was_deleting {
            let generation = meta::generation(object).saturating_add(1);
            meta::set_generation(object, generation);
        }
    }
    if let Some(mark) = rules.and_then(|rules| rules.mark) {
        mark(object);
    }
}

/// Adds the seconds, up to the maximum timestamp: a period may be any number that a client can write.
fn add_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Returns when the first deletion was requested: the mark minus its grace period. Returns `None` if the mark is the
/// maximum timestamp, which does not reveal that time.
fn requested_at(object: &Value, grace_s: Option<i64>) -> Option<Timestamp> {
    let at = meta::text(object, "deletionTimestamp").parse::<Timestamp>().ok()?;
    if at.as_second() == Timestamp::MAX.as_second() {
        return None;
    }
    at.checked_sub(SignedDuration::from_secs(grace_s.unwrap_or_default())).ok()
}

/// Returns whether the object has processes that must be stopped first.
fn is_running(resource: &Resource, object: &Value) -> bool {
    strategy(resource).is_graceful
        && !object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty()
        && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns the grace period in seconds; only Pods that are running on a node have one.
fn grace_period(resource: &Resource, object: &Value, asked_s: Option<i64>) -> i64 {
    if !is_running(resource, object) {
        return 0;
    }
    let own_s = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(POD_GRACE_S);
    let grace_s = asked_s.unwrap_or(own_s);
    let grace_s = if grace_s < 0 { 1 } else { grace_s };
    match object["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        Some(old) if meta::is_deleting(object) => grace_s.min(old),
        _ => grace_s,
    }
}

/// Returns the finalizers after adding or removing those of the policy.
fn finalizers_after(resource: &Resource, object: &Value, policy: Option<PropagationPolicy>) -> Vec<String> {
    let mut finalizers = meta::finalizers(object).map(Into::into).collect::<Vec<String>>();
    let rules = strategy(resource);
    if !rules.is_collectable {
        return finalizers;
    }
    let has_own = finalizers.iter().any(|one| one == FOREGROUND || one == ORPHAN);
    let policy = match policy {
        None if has_own => return finalizers,
        None if rules.orphans_by_default => PropagationPolicy::Orphan,
        None => PropagationPolicy::Background,
        Some(policy) => policy,
    };
    finalizers.retain(|one| one != FOREGROUND && one != ORPHAN);
    match policy {
        PropagationPolicy::Background => {}
        PropagationPolicy::Foreground => finalizers.push(FOREGROUND.into()),
        PropagationPolicy::Orphan => finalizers.push(ORPHAN.into()),
    }
    finalizers
}
