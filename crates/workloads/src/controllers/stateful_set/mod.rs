//! Handles StatefulSets: Pods with stable names, created and deleted in order, each with its own volume claims.
//!
//! Nothing binds the claims here: they are created, owned and deleted as in Kubernetes, and a node that needs no
//! volumes may run the Pods while their claims are pending. The decisions are in `plan` and `claims`.

mod claims;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, BuiltController, Context, Controller, Error, Result, Severity};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{self as core, PersistentVolumeClaim};
use serde_json::json;

use self::plan::{PodStep, StatefulSetState, ordinal_of, partition, revision_of};
use super::numbers::{as_count, as_usize, omit_zero};
use super::ownership::{OrphansInNamespace, claim_objects, label_selector, orphan_index_key};
use super::partial_pod::{PartialPod, next_available};
use super::pod_control::error_message;
use super::pod_template::pod_from_template;
use super::revisions::{self, REVISION, revision_name, surplus_revisions};

/// How long to wait for a claim that is being deleted with its former Pod.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// How many revisions to keep if the set does not specify it.
const HISTORY: i32 = 10;

pub(super) fn control() -> BuiltController {
    Controller::<StatefulSet>::new()
        .named("statefulset-controller")
        .owns::<PartialPod>()
        .owns::<ControllerRevision>()
        .selects::<PartialPod, _>(|set: &StatefulSet| Some(label_selector(&set.spec.as_ref()?.selector)))
        .index::<ControllerRevision, OrphansInNamespace, _>(orphan_index_key)
        .reads::<PersistentVolumeClaim>()
        .writes::<PersistentVolumeClaim>()
        .writes_status::<StatefulSet>()
        .starts_fresh()
        .reconcile(reconcile)
}

async fn reconcile(set: Arc<StatefulSet>, cx: Context<StatefulSet>) -> Result {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = label_selector(&spec.selector);
    let set_name = set.metadata.name.clone().unwrap_or_default();
    let pods =
        claim_objects::<_, PartialPod>(&cx, &selector, |pod| ordinal_of(&set_name, pod.name()).is_some())
            .await?;
    let mut history = claim_objects::<_, ControllerRevision>(&cx, &selector, |_| true).await?;
    history.sort_by(|left, right| {
        (left.revision, revision_name(left)).cmp(&(right.revision, revision_name(right)))
    });
    let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default();
    let sync = StatefulSetSync { cx: &cx, set: &set, spec, set_name, collisions };
    let update = revisions::ensure_newest(&cx, &*set, &spec.template, &history, collisions).await?;
    let current = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    let current =
        history.iter().find(|revision| Some(revision_name(revision)) == current).unwrap_or(&update).clone();
    let made = sync.take_steps(sync.by_ordinal(&pods), &current, &update).await;
    let pods = sync.by_ordinal(&cx.owned::<PartialPod>()?);
    let status = sync.status(&pods, &current, &update);
    cx.replace_status(&status);
    sync.delete_old_revisions(&history, &pods, &[revision_name(&current), revision_name(&update)]).await?;
    let is_waiting = made?;
    let state = StatefulSetState { spec, pods: &pods, update: revision_name(&update), now: cx.now() };
    let wait = next_available(pods.values().map(|pod| &**pod), state.min_ready(), cx.now());
    let wait = wait.into_iter().chain(is_waiting.then_some(CLAIM_WAIT)).min();
    Ok(wait.map_or(Action::await_change(), Action::requeue))
}

struct StatefulSetSync<'a> {
    cx: &'a Context<StatefulSet>,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    set_name: String,
    collisions: i32,
}

impl StatefulSetSync<'_> {
    fn by_ordinal(&self, pods: &[Arc<PartialPod>]) -> BTreeMap<i32, Arc<PartialPod>> {
        let numbered = pods.iter().map(|pod| (ordinal_of(&self.set_name, pod.name()), pod));
        numbered.filter_map(|(ordinal, pod)| Some((ordinal?, pod.clone()))).collect()
    }

    /// Takes the next step. Returns whether the set must be reconciled again without a change that would trigger it.
    async fn take_steps(
        &self,
        pods: BTreeMap<i32, Arc<PartialPod>>,
        current: &ControllerRevision,
        update: &ControllerRevision,
    ) -> Result<bool, Error> {
        let mut is_waiting = false;
        for (ordinal, pod) in &pods {
            self.update_claims(*ordinal, pod).await?;
        }
        let state = StatefulSetState {
            spec: self.spec,
            pods: &pods,
            update: revision_name(update),
            now: self.cx.now(),
        };
        for step in state.steps() {
            match step {
                PodStep::Delete(pod) => self.delete(&pod).await?,
                PodStep::Create(ordinal) => {
                    let revision = if ordinal < partition(self.spec) { current } else { update };
                    is_waiting |= !self.create(ordinal, revision).await?;
                }
            }
        }
        Ok(is_waiting)
    }

    /// Creates a Pod and its claims. Returns false if a claim must be deleted first.
    async fn create(&self, ordinal: i32, revision: &ControllerRevision) -> Result<bool, Error> {
        let pod = self.new_pod(ordinal, revision);
        let pod_name = pod.metadata.name.clone().unwrap_or_default();
        for claim in claims::claims_of_pod(self.set, self.spec, ordinal) {
            match self.cx.get::<PersistentVolumeClaim>(claim.metadata.name.as_deref().unwrap_or_default())? {
                Some(known) if claims::is_leaving(&known, &pod_name) => return Ok(false),
                Some(_) => {}
                None => self.create_claim(claim, &pod_name).await?,
            }
        }
        let created = self.cx.create::<_, PartialPod>(pod).await;
        self.report_result("Create", &format!("Pod {pod_name} in StatefulSet {} ", self.set_name), &created);
        created.map(|_| true)
    }

    async fn create_claim(&self, claim: PersistentVolumeClaim, pod: &str) -> Result<(), Error> {
        let claim_name = claim.metadata.name.clone().unwrap_or_default();
        // If the claim should have an owner, it is set once the Pod exists.
        let created = self.cx.create_unowned::<_, PersistentVolumeClaim>(claim).await;
        let what = format!("Claim {claim_name} Pod {pod} in StatefulSet {} ", self.set_name);
        self.report_result("Create", &what, &created);
        created.map(drop)
    }

    fn new_pod(&self, ordinal: i32, revision: &ControllerRevision) -> core::Pod {
        let template = revisions::template_of(revision).unwrap_or_else(|| self.spec.template.clone());
        let mut pod = pod_from_template(&template);
        let pod_name = format!("{}-{ordinal}", self.set_name);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), pod_name.clone());
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
        labels.insert(REVISION.to_owned(), revision_name(revision).to_owned());
        if let Some(spec) = &mut pod.spec {
            spec.hostname = Some(pod_name.clone());
            spec.subdomain = self.spec.service_name.clone().filter(|service| !service.is_empty());
            claims::mount_claims(spec, self.set, self.spec, ordinal);
        }
        pod.metadata.name = Some(pod_name);
        pod
    }

    async fn delete(&self, pod: &PartialPod) -> Result<(), Error> {
        let deleted = self.cx.delete(pod).await;
        if !matches!(deleted, Ok(false)) {
            let what = format!("Pod {} in StatefulSet {} ", pod.name(), self.set_name);
            self.report_result("Delete", &what, &deleted);
        }
        deleted.map(drop)
    }

    /// Gives a Pod's claims the owners that the retention policy asks for, and a pending Pod its missing claims.
    async fn update_claims(&self, ordinal: i32, pod: &PartialPod) -> Result<(), Error> {
        let owner = claims::owner_of_claims(self.spec, ordinal);
        for wanted in claims::claims_of_pod(self.set, self.spec, ordinal) {
            let claim_name = wanted.metadata.name.clone().unwrap_or_default();
            match self.cx.get::<PersistentVolumeClaim>(claim_name)? {
                None if pod.phase() == "Pending" && !pod.is_dying() => {
                    self.create_claim(wanted, pod.name()).await?;
                }
                None => {}
                Some(claim) => {
                    if let Some(references) = claims::owner_references(&claim, owner, self.set, pod) {
                        let revision = &claim.metadata.resource_version;
                        let meta = json!({"ownerReferences": references, "resourceVersion": revision});
                        self.cx.patch(&*claim, json!({"metadata": meta})).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn report_result<T>(&self, verb: &str, what: &str, outcome: &Result<T, Error>) {
        match outcome {
            Ok(_) => {
                let end = if what.starts_with("Claim") { "success" } else { "successful" };
                let message = format!("{verb} {what}{end}");
                self.cx.event(Severity::Normal, &format!("Successful{verb}"), message);
            }
            Err(error) => {
                let message = format!("{verb} {what}failed error: {}", error_message(error));
                self.cx.event(Severity::Warning, &format!("Failed{verb}"), message);
            }
        }
    }

    fn status(
        &self,
        pods: &BTreeMap<i32, Arc<PartialPod>>,
        current: &ControllerRevision,
        update: &ControllerRevision,
    ) -> StatefulSetStatus {
        let state =
            StatefulSetState { spec: self.spec, pods, update: revision_name(update), now: self.cx.now() };
        let number =
            |test: &dyn Fn(&PartialPod) -> bool| as_count(pods.values().filter(|pod| test(pod)).count());
        let is_ready = |pod: &PartialPod| pod.phase() == "Running" && pod.is_ready();
        let of = |wanted: &str| number(&|pod: &PartialPod| !pod.is_dying() && revision_of(pod) == wanted);
        let mut status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: as_count(pods.len()),
            ready_replicas: omit_zero(number(&is_ready)),
            available_replicas: Some(number(&|pod: &PartialPod| {
                is_ready(pod) && pod.is_available(state.min_ready(), self.cx.now())
            })),
            current_replicas: omit_zero(of(revision_name(current))),
            updated_replicas: omit_zero(of(revision_name(update))),
            current_revision: Some(revision_name(current).to_owned()),
            update_revision: Some(revision_name(update).to_owned()),
            collision_count: Some(self.collisions),
            conditions: self.set.status.as_ref().and_then(|status| status.conditions.clone()),
        };
        let wanted = self.spec.replicas.unwrap_or(1);
        if status.updated_replicas == omit_zero(wanted)
            && status.ready_replicas == omit_zero(wanted)
            && status.replicas == wanted
        {
            status.current_replicas = status.updated_replicas;
            status.current_revision.clone_from(&status.update_revision);
        }
        status
    }

    /// Deletes the revisions beyond the history limit.
    async fn delete_old_revisions(
        &self,
        history: &[Arc<ControllerRevision>],
        pods: &BTreeMap<i32, Arc<PartialPod>>,
        used: &[&str],
    ) -> Result<(), Error> {
        let mut live: Vec<&str> = used.to_vec();
        live.extend(pods.values().map(|pod| revision_of(pod)));
        let limit = as_usize(self.spec.revision_history_limit.unwrap_or(HISTORY));
        for revision in surplus_revisions(history, &live, limit) {
            self.cx.delete(&*revision).await?;
        }
        Ok(())
    }
}
