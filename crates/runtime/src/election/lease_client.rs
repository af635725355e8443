//! Reads, acquires, renews and releases Leases; this is the I/O of elections.

use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_core::Clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, GetParams, ListParams, PostParams, Preconditions};
use kube::core::{ObjectList, Request as Path};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::lease_rules::{LeaseAction, LeaseCandidate, LeaseTimes, given_back};
use super::shard_count_agreement::COUNT_ANNOTATION;
use crate::admin_address::{ADDRESS_ANNOTATION, AdminAddress, POD_ANNOTATION};
use crate::error::Error;
use crate::request::{Built, RequestLabel, call_within};

/// The label by which the leases of one operator are found.
pub(super) const OPERATOR_LABEL: &str = "homeostat.dev/operator";

/// The name of a lease, and the number of shards to record on it.
#[derive(Clone, Copy)]
pub(super) struct LeaseName<'a> {
    pub(super) name: &'a str,
    pub(super) count: Option<u32>,
}

/// A replica of an operator.
pub(super) struct Replica {
    /// The operator's name in a form that is valid for a Lease.
    pub(super) operator: String,
    pub(super) identity: String,
    pub(super) admin_address: Option<AdminAddress>,
}

/// The content of a lease.
struct LeaseContent {
    spec: LeaseSpec,
    /// The number of shards; `None` leaves it unchanged.
    count: Option<u32>,
}

/// A client for the leases of one operator, on behalf of one replica.
pub(super) struct LeaseClient {
    pub(super) client: Client,
    pub(super) operator: String,
    pub(super) identity: String,
    pub(super) clock: Clock,
    pub(super) terms: LeaseTimes,
    /// The address of this replica's admin server, recorded on the leases it holds.
    admin_address: Option<AdminAddress>,
    has_reported_wait: AtomicBool,
}

impl LeaseClient {
    /// Creates a client for this replica.
    pub(super) fn new(client: Client, replica: Replica, clock: Clock, terms: LeaseTimes) -> Self {
        let Replica { operator, identity, admin_address } = replica;
        let has_reported_wait = AtomicBool::new(false);
        Self { client, operator, identity, clock, terms, admin_address, has_reported_wait }
    }

    /// Logs once that a lease must be held for a while before anything is done, and why.
    pub(super) fn report_wait(&self, lease: &str, candidate: &LeaseCandidate) {
        if let Some(wait) = candidate.begins_in(self.clock.instant())
            && !self.has_reported_wait.swap(true, Ordering::Relaxed)
        {
            tracing::info!(
                lease,
                ?wait,
                identity = self.identity,
                "found no previous lease (first start, or it was deleted): waiting one lease term in case another replica is still \
                 active (Operator::lease_term)"
            );
        }
    }

    /// Reads the lease and acquires or renews it if allowed. Returns the time until which it is held.
    pub(super) async fn acquire_or_renew(
        &self,
        lease: LeaseName<'_>,
        candidate: &mut LeaseCandidate,
    ) -> Result<Option<Instant>, Error> {
        let found = self.get(lease.name).await?;
        self.acquire_or_renew_found(lease, found, candidate).await
    }

    /// Like [`acquire_or_renew`](Self::acquire_or_renew), with a lease that has already been read.
    pub(super) async fn acquire_or_renew_found(
        &self,
        LeaseName { name, count }: LeaseName<'_>,
        lease: Option<Lease>,
        candidate: &mut LeaseCandidate,
    ) -> Result<Option<Instant>, Error> {
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let decision = candidate.evaluate_lease(&self.identity, spec, self.clock.instant(), self.terms.term);
        let acquired = spec.and_then(|spec| spec.acquire_time.clone());
        let now = MicroTime(self.clock.now());
        let (transitions, acquired) = match decision {
            LeaseAction::Wait => return Ok(None),
            LeaseAction::Take { transitions } => (transitions, Some(now.clone())),
            LeaseAction::Renew { transitions } => (transitions, acquired),
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.terms.term.as_secs()).ok(),
            lease_transitions: Some(transitions),
            acquire_time: acquired,
            renew_time: Some(now),
            ..LeaseSpec::default()
        };
        let sent = self.clock.instant();
        match (self.write(name, lease, LeaseContent { spec, count }).await, decision) {
            (Ok(()), _) => candidate.wrote(sent, self.clock.instant(), self.terms),
            // Another client wrote it in the meantime: the next read shows which one, and the previous renewal is still
            // valid.
            (Err(error), LeaseAction::Renew { .. }) if error.is_conflict() => {}
            (Err(error), _) if error.is_conflict() => candidate.lost(),
            (Err(error), _) => return Err(error),
        }
        Ok(candidate.right(self.clock.instant()))
    }

    /// Releases the lease if it is ours. Whatever the response, we no longer rely on the lease.
    pub(super) async fn release(&self, name: &str, candidate: &mut LeaseCandidate) -> Result<(), Error> {
        let may_give_back = candidate.may_give_back(self.clock.instant());
        candidate.lost();
        if !may_give_back {
            return Ok(());
        }
        let Some(lease) = self.get(name).await? else { return Ok(()) };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return Ok(());
        }
        self.write(name, Some(lease), LeaseContent { spec: given_back(&spec), count: None }).await
    }

    /// Removes the lease whose only purpose was to show that we are alive.
    pub(super) async fn remove(&self, name: &str) -> Result<(), Error> {
        let request = self.path().delete(name, &DeleteParams::default());
        self.send::<serde_json::Value>("delete the lease", name, request).await.map(drop)
    }

    /// Removes another replica's lease, unless it was written since it was read.
    pub(super) async fn remove_unchanged(&self, lease: &Lease) -> Result<(), Error> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions {
            uid: lease.metadata.uid.clone(),
            resource_version: lease.metadata.resource_version.clone(),
        };
        let params = DeleteParams::default().preconditions(preconditions);
        let request = self.path().delete(name, &params);
        match self.send::<serde_json::Value>("delete the lease", name, request).await {
            Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns every lease that carries the operator's label.
    pub(super) async fn list(&self) -> Result<Vec<Lease>, Error> {
        let params = ListParams::default().labels(&format!("{OPERATOR_LABEL}={}", self.operator));
        let request = self.path().list(&params);
        let list: ObjectList<Lease> = self.send("list the leases of", &self.operator, request).await?;
        Ok(list.items)
    }

    async fn get(&self, name: &str) -> Result<Option<Lease>, Error> {
        let request = self.path().get(name, &GetParams::default());
        match self.send("get the lease", name, request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a number of shards on a lease that nobody holds. A concurrent write by anyone else causes a conflict.
    pub(super) async fn write_count(&self, name: &str, old: Option<Lease>, count: u32) -> Result<(), Error> {
        self.write(name, old, LeaseContent { spec: LeaseSpec::default(), count: Some(count) }).await
    }

    /// Creates or replaces the lease; a concurrent write by anyone else causes a conflict.
    async fn write(&self, name: &str, old: Option<Lease>, content: LeaseContent) -> Result<(), Error> {
        let LeaseContent { spec, count } = content;
        let is_new = old.is_none();
        let mut lease = old.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: None,
        });
        lease.spec = Some(spec);
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert(OPERATOR_LABEL.to_owned(), self.operator.clone());
        if let Some(count) = count {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(COUNT_ANNOTATION.to_owned(), count.to_string());
        }
        if let Some(annotations) = &mut lease.metadata.annotations {
            annotations.remove(ADDRESS_ANNOTATION);
            annotations.remove(POD_ANNOTATION);
        }
        if let Some(address) = &self.admin_address {
            lease.metadata.annotations.get_or_insert_default().extend(address.annotations());
        }
        let body = serde_json::to_vec(&lease).map_err(|error| Error::Invalid(error.to_string()))?;
        let params = PostParams::default();
        let request =
            if is_new { self.path().create(&params, body) } else { self.path().replace(name, &params, body) };
        self.send::<Lease>("write the lease", name, request).await.map(drop)
    }

    /// Sends a request that completes or times out well before the term ends.
    async fn send<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        target: &str,
        request: Built,
    ) -> Result<T, Error> {
        call_within(self.terms.answer_within, &self.client, RequestLabel { verb, target }, request).await
    }

    fn path(&self) -> Path {
        Path::new(Lease::url_path(&(), Some(self.client.default_namespace())))
    }
}
