//! Looking at, taking, renewing and giving back Leases: the I/O of elections.

use homeostat_core::Clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{GetParams, ListParams, PostParams};
use kube::core::{ObjectList, Request as Path};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::lease::{Candidate, Move, Terms, released};
use crate::error::Error;
use crate::talk::{Attempt, call_within};

/// The label by which the leases of one operator are found.
pub(super) const OPERATOR_LABEL: &str = "homeostat.dev/operator";

/// One replica among the leases of its operator.
pub(super) struct Holder {
    pub(super) client: Client,
    pub(super) operator: String,
    pub(super) identity: String,
    pub(super) clock: Clock,
    pub(super) terms: Terms,
}

impl Holder {
    /// Looks at the lease and takes or renews it if that is its turn. Returns until when it is held.
    pub(super) async fn look(&self, name: &str, candidate: &mut Candidate) -> Result<Option<Instant>, Error> {
        let lease = self.get(name).await?;
        self.act(name, lease, candidate).await
    }

    /// The same with a lease already read.
    pub(super) async fn act(
        &self,
        name: &str,
        lease: Option<Lease>,
        candidate: &mut Candidate,
    ) -> Result<Option<Instant>, Error> {
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let decision = candidate.judge(&self.identity, spec, self.clock.instant());
        let acquired = spec.and_then(|spec| spec.acquire_time.clone());
        let now = MicroTime(self.clock.now());
        let (transitions, acquired) = match decision {
            Move::Wait => return Ok(None),
            Move::Take { transitions } => (transitions, Some(now.clone())),
            Move::Renew { transitions } => (transitions, acquired),
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.terms.term.as_secs()).ok(),
            lease_transitions: Some(transitions),
            acquire_time: acquired,
            renew_time: Some(now),
            ..LeaseSpec::default()
        };
        // The right is counted from before the request: what the server sees later cannot lengthen it.
        let sent = self.clock.instant();
        match self.write(name, lease, spec).await {
            Ok(()) => Ok(Some(sent + self.terms.renew_within)),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the lease back, if it is ours.
    pub(super) async fn release(&self, name: &str) -> Result<(), Error> {
        let Some(lease) = self.get(name).await? else { return Ok(()) };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return Ok(());
        }
        self.write(name, Some(lease), released(spec)).await
    }

    /// Removes a lease that only told of us.
    pub(super) async fn remove(&self, name: &str) -> Result<(), Error> {
        let request = self.path().delete(name, &kube::api::DeleteParams::default());
        let answer: Result<serde_json::Value, Error> =
            self.call(attempt("delete the lease", name), request).await;
        answer.map(drop)
    }

    /// Every lease of the operator.
    pub(super) async fn list(&self) -> Result<Vec<Lease>, Error> {
        let params = ListParams::default().labels(&format!("{OPERATOR_LABEL}={}", self.operator));
        let list: ObjectList<Lease> =
            self.call(attempt("list the leases of", &self.operator), self.path().list(&params)).await?;
        Ok(list.items)
    }

    async fn get(&self, name: &str) -> Result<Option<Lease>, Error> {
        let request = self.path().get(name, &GetParams::default());
        match self.call(attempt("get the lease", name), request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates or replaces; a write in between by anybody else is a conflict.
    async fn write(&self, name: &str, old: Option<Lease>, spec: LeaseSpec) -> Result<(), Error> {
        let is_new = old.is_none();
        let mut lease = old.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: None,
        });
        lease.spec = Some(spec);
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert(OPERATOR_LABEL.to_owned(), self.operator.clone());
        let body = serde_json::to_vec(&lease).map_err(|error| Error::Invalid(error.to_string()))?;
        let params = PostParams::default();
        let request =
            if is_new { self.path().create(&params, body) } else { self.path().replace(name, &params, body) };
        let written: Result<Lease, Error> = self.call(attempt("write the lease", name), request).await;
        written.map(drop)
    }

    /// A right that ends in seconds cannot wait a minute for an answer.
    async fn call<T: DeserializeOwned>(
        &self,
        attempt: Attempt<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Error> {
        call_within(self.terms.look_every * 2, &self.client, attempt, request).await
    }

    fn path(&self) -> Path {
        Path::new(Lease::url_path(&(), Some(self.client.default_namespace())))
    }
}

fn attempt<'a>(verb: &'static str, target: &'a str) -> Attempt<'a> {
    Attempt { verb, target }
}
