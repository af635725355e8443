//! Sends reports from children to their parent: each has its own entry, `status.children.{id}`, and changes no other.
//!
//! A report is a JSON patch that sets the one entry, so children that report at the same moment do not overwrite each
//! other, and no cache is used, so a stale cache does no harm. The parent is read only if it has no such map yet; in
//! that case the map is added with a test that nobody else has added it in the meantime.
//!
//! **Invariant:** no data of another child or of the parent is ever part of a request.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::journal::{Verb, WriteOutcome};
use homeostat_core::{FieldDiff, Key};
use serde::Serialize;
use serde_json::{Value, json};

use super::json_requests::{JsonPatch, escaped, is_stale, read_whole, send_patch};
use super::status::{StatusBasis, StatusChange};
use super::{Context, ReconcileRun};
use crate::error::Error;
use crate::json_diff::{differences, without_nulls};
use crate::kind::{Kind, KindInfo, ObjectName, info, key_of};
use crate::rights::declared_writes::WriteVerb;

/// The field of a parent's status that holds the reports.
const CHILDREN: &str = "children";

/// The maximum number of attempts for one report. Usually the first child of a parent needs two attempts and every
/// other child one; after losing to other writers this often, retrying the reconcile later is better.
const TRIES_MAX: usize = 6;

/// The object to report to: the object itself, or its name (in our namespace), or namespace and name. If only the name
/// is given, the uid is taken from our owner reference to it, if there is one.
#[derive(Clone, Debug)]
pub struct Parent<P> {
    target: ObjectName,
    uid: Option<String>,
    kind: PhantomData<fn() -> P>,
}

impl<P: Kind> From<&P> for Parent<P> {
    fn from(parent: &P) -> Self {
        let key = key_of(parent);
        let namespace = Some(key.namespace().to_owned()).filter(|namespace| !namespace.is_empty());
        let target = ObjectName { namespace, name: key.name().to_owned() };
        Self { target, uid: parent.meta().uid.clone(), kind: PhantomData }
    }
}

impl<P: Kind> From<&Arc<P>> for Parent<P> {
    fn from(parent: &Arc<P>) -> Self {
        Self::from(&**parent)
    }
}

impl<P: Kind> From<&str> for Parent<P> {
    fn from(name: &str) -> Self {
        ObjectName::from(name).into()
    }
}

impl<P: Kind> From<ObjectName> for Parent<P> {
    fn from(target: ObjectName) -> Self {
        Self { target, uid: None, kind: PhantomData }
    }
}

/// The entry of one child in the status of one parent.
struct Report<'a> {
    info: &'static KindInfo,
    parent: Key,
    uid: Option<String>,
    id: &'a str,
    /// `None` withdraws it.
    value: Option<Value>,
}

/// The result of a report.
enum Reported {
    /// It was sent; this is the resulting parent.
    Sent(Value),
    /// The parent already has this entry.
    Already,
    /// There is no such parent.
    Gone,
}

impl<K: Kind> Context<K> {
    /// Reports our object's state to its parent: `value` becomes `status.children.{id}` of the parent immediately.
    /// Other children's entries are kept, even those that are written at the same moment. The parent's controller sees
    /// the report as a change to its object, to which `on_field` reacts. Declare it with
    /// [`reports_to`](crate::Controller::reports_to).
    ///
    /// It is an error if the parent is gone ([`Error::ParentGone`]) or its schema has no field for the report
    /// ([`Error::ReportDropped`]).
    pub async fn report<P: Kind>(
        &self,
        parent: impl Into<Parent<P>>,
        id: impl AsRef<str>,
        value: impl Serialize,
    ) -> Result<(), Error> {
        self.run.report(parent.into().erased(), id.as_ref(), serde_json::to_value(value)).await
    }

    /// Removes our object's report, `status.children.{id}`, from the parent. Use it in a cleanup or in `on_delete`. It
    /// is not an error if there is no such entry or no such parent.
    pub async fn withdraw_report<P: Kind>(
        &self,
        parent: impl Into<Parent<P>>,
        id: impl AsRef<str>,
    ) -> Result<(), Error> {
        self.run.withdraw_report(parent.into().erased(), id.as_ref()).await
    }
}

/// A parent without its type.
struct AnyParent {
    info: &'static KindInfo,
    target: ObjectName,
    uid: Option<String>,
}

impl<P: Kind> Parent<P> {
    fn erased(self) -> AnyParent {
        AnyParent { info: info::<P>(), target: self.target, uid: self.uid }
    }
}

impl ReconcileRun {
    // The futures here and below are boxed, so that they are compiled here and not in every operator.
    fn report<'a>(
        &'a self,
        parent: AnyParent,
        id: &'a str,
        value: serde_json::Result<Value>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.report_value(parent, id, value))
    }

    async fn report_value(
        &self,
        parent: AnyParent,
        id: &str,
        value: serde_json::Result<Value>,
    ) -> Result<(), Error> {
        let invalid = |error: String| Error::Invalid(format!("the report {id} of {}: {error}", self.key));
        let value = value.map_err(|error| invalid(error.to_string()))?;
        if value.is_null() {
            return Err(invalid("it is null; call withdraw_report to remove a report".to_owned()));
        }
        let report = self.report_of(parent, id, Some(without_nulls(value)))?;
        match self.send_report(&report).await? {
            Reported::Sent(object) => self.check_report(&report, &object),
            Reported::Already => {
                self.record_write(Verb::Status, &report.parent, WriteOutcome::Skipped);
                Ok(())
            }
            Reported::Gone => {
                let gone = Err(Error::ParentGone { parent: report.parent.clone() });
                self.record_failure(Verb::Status, &report.parent, gone)
            }
        }
    }

    fn withdraw_report<'a>(&'a self, parent: AnyParent, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let report = self.report_of(parent, id, None)?;
            match self.send_report(&report).await? {
                Reported::Sent(object) => self.keep_report(&report, &object),
                Reported::Already | Reported::Gone => {
                    self.record_write(Verb::Status, &report.parent, WriteOutcome::Skipped);
                }
            }
            Ok(())
        })
    }

    fn report_of<'a>(
        &self,
        AnyParent { info, target, uid }: AnyParent,
        id: &'a str,
        value: Option<Value>,
    ) -> Result<Report<'a>, Error> {
        if id.is_empty() {
            return Err(Error::Invalid(format!("a report of {} needs an id, such as its name", self.key)));
        }
        let parent = info.target_key(&target, self.key.namespace());
        let uid = uid.or_else(|| self.uid_of_owner(info, &parent));
        Ok(Report { info, parent, uid, id, value })
    }

    /// Returns the uid in our object's owner reference to this parent.
    fn uid_of_owner(&self, info: &KindInfo, parent: &Key) -> Option<String> {
        let owners = self.object.meta().owner_references.as_deref().unwrap_or_default();
        let is_meant = |reference: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
            let owner_group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
            reference.kind == info.kind && owner_group == info.group && reference.name == parent.name()
        };
        // An owner lives in its child's namespace, or in none.
        let is_near = parent.namespace().is_empty() || parent.namespace() == self.key.namespace();
        owners.iter().find(is_meant).filter(|_| is_near).map(|reference| reference.uid.clone())
    }

    async fn send_report(&self, report: &Report<'_>) -> Result<Reported, Error> {
        let (shared, info, parent) = (&self.controller.operator, report.info, &report.parent);
        shared.declared.warn_unless_declared(info, WriteVerb::Report);
        let change = StatusChange::entry(CHILDREN, report.id, report.value.as_ref());
        let cache = self.cache(info).ok();
        let _writing = cache.as_ref().map(|cache| cache.writing(parent, self.writer()));
        let (mut operations, mut known) = (report.operations(), None);
        for tries in 1.. {
            if operations.is_empty() {
                return Ok(Reported::Already);
            }
            self.check_right(Verb::Status, parent)?;
            let patch = JsonPatch { verb: "report to", subresource: Some("status"), operations };
            let refusal = match send_patch(info, shared, parent, patch).await {
                Ok(object) => return Ok(Reported::Sent(object)),
                Err(error) if error.is_not_found() || (is_stale(&error) && tries < TRIES_MAX) => error,
                Err(error) => return self.record_failure(Verb::Status, parent, Err(error)),
            };
            let Some(newest) = read_whole(info, shared, parent).await? else { return Ok(Reported::Gone) };
            let newest = StatusBasis::whole(newest);
            if report.uid.is_some() && newest.uid != report.uid {
                return Ok(Reported::Gone);
            }
            if refusal.is_not_found() {
                let error =
                    format!("{parent} has no status to report into: its kind lacks the status subresource");
                return self.record_failure(Verb::Status, parent, Err(Error::Invalid(error)));
            }
            if known.as_ref() == Some(&newest) {
                // The server has the state that we know about and still refuses the change.
                return self.record_failure(Verb::Status, parent, Err(refusal));
            }
            operations = change.operations(&newest, self.now());
            known = Some(newest);
        }
        unreachable!("the last try returns")
    }

    /// Fails if the server has not stored the whole report.
    fn check_report(&self, report: &Report<'_>, object: &Value) -> Result<(), Error> {
        let stored = &object["status"][CHILDREN][report.id];
        let missing = report.value.as_ref().map(|value| differences(value, stored)).unwrap_or_default();
        self.keep_report(report, object);
        match missing.first() {
            None => Ok(()),
            Some(path) => {
                let field = format!("status.{CHILDREN}.{}{}", report.id, path.replace('/', "."));
                Err(Error::ReportDropped { parent: report.parent.clone(), field })
            }
        }
    }

    /// Records the write and adds its result to the cache, if the parents are watched.
    fn keep_report(&self, report: &Report<'_>, object: &Value) {
        // A parent that cannot be decoded is reported by its own controller.
        let object = (report.info.decode)(&object.to_string()).ok();
        let revision = object.as_ref().map(|object| object.revision());
        let path = ["status", CHILDREN, report.id];
        let diff = FieldDiff::of_field(&report.parent, &path, None, report.value.as_ref());
        self.note_diff(Verb::Status, &report.parent, WriteOutcome::Done { revision }, diff);
        if let (Some(object), Ok(cache)) = (object, self.cache(report.info)) {
            cache.wrote(object, self.writer());
        }
    }
}

impl Report<'_> {
    /// Returns the patch for a parent that already has reports, so that it need not be read first.
    fn operations(&self) -> Vec<Value> {
        let path = format!("/status/{CHILDREN}/{}", escaped(self.id));
        let test = self.uid.as_ref().map(|uid| json!({"op": "test", "path": "/metadata/uid", "value": uid}));
        let change = match &self.value {
            Some(value) => json!({"op": "add", "path": path, "value": value}),
            None => json!({"op": "remove", "path": path}),
        };
        test.into_iter().chain([change]).collect()
    }
}
