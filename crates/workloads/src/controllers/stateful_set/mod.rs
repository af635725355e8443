//! StatefulSets: Pods with names that stay, made and removed in order, each with its own volume claims.
//!
//! Nothing binds the claims here: they are made, owned and removed as Kubernetes does it, and a node that needs no
//! volumes may run the Pods while their claims are pending. The decisions are in `plan` and `claims`.

mod claims;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::{Action, Context, Control, Controller, Error, Result, Severity};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{self as core, PersistentVolumeClaim};
use serde_json::json;

use self::plan::{PodStep, StatefulSetState, ordinal, partition, revision};
use super::number::{count, nonzero, size};
use super::ownership::{OrphansInNamespace, claim, orphan, selector};
use super::partial_pod::{Pod, next_available};
use super::pod_control::said;
use super::revisions::{self, NewestRevision, REVISION, name, superfluous};
use super::template::pod;

/// How long to wait for a claim that is about to go with its former Pod.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// Revisions kept when the set does not say.
const HISTORY: i32 = 10;

pub(super) fn control() -> Control {
    Controller::<StatefulSet>::new()
        .named("statefulset-controller")
        .owns::<Pod>()
        .owns::<ControllerRevision>()
        .selects::<Pod, _>(|set: &StatefulSet| Some(selector(&set.spec.as_ref()?.selector)))
        .index::<ControllerRevision, OrphansInNamespace, _>(orphan)
        .reads::<PersistentVolumeClaim>()
        .writes::<PersistentVolumeClaim>()
        .writes_status::<StatefulSet>()
        .reconcile(reconcile)
}

async fn reconcile(set: Arc<StatefulSet>, cx: Context<StatefulSet>) -> Result {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let selector = selector(&spec.selector);
    let set_name = set.metadata.name.clone().unwrap_or_default();
    let pods = claim::<_, Pod>(&cx, &selector, |pod| ordinal(&set_name, pod.name()).is_some()).await?;
    let mut history = claim::<_, ControllerRevision>(&cx, &selector, |_| true).await?;
    history.sort_by(|left, right| (left.revision, name(left)).cmp(&(right.revision, name(right))));
    let mut sync = StatefulSetSync { cx: &cx, set: &set, spec, set_name, collisions: 0 };
    sync.collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default();
    let update = sync.newest(&history).await?;
    let current = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    let current = history.iter().find(|revision| Some(name(revision)) == current).unwrap_or(&update).clone();
    let made = sync.step(sync.by_ordinal(&pods), &current, &update).await;
    let pods = sync.by_ordinal(&cx.owned::<Pod>()?);
    let status = sync.status(&pods, &current, &update);
    cx.replace_status(&status);
    sync.clean_up(&history, &pods, &[name(&current), name(&update)]).await?;
    let is_waiting = made?;
    let view = StatefulSetState { spec, pods: &pods, update: name(&update), now: cx.now() };
    let wait = next_available(pods.values().map(|pod| &**pod), view.min_ready(), cx.now());
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
    fn by_ordinal(&self, pods: &[Arc<Pod>]) -> BTreeMap<i32, Arc<Pod>> {
        let numbered = pods.iter().map(|pod| (ordinal(&self.set_name, pod.name()), pod));
        numbered.filter_map(|(ordinal, pod)| Some((ordinal?, pod.clone()))).collect()
    }

    /// The revision with the set's template, made if it is missing.
    async fn newest(
        &mut self,
        history: &[Arc<ControllerRevision>],
    ) -> Result<Arc<ControllerRevision>, Error> {
        match revisions::newest(&self.set.metadata, &self.spec.template, history, self.collisions) {
            NewestRevision::Known(revision) => Ok(revision),
            NewestRevision::Renumber(revision, number) => {
                self.cx.patch(&*revision, json!({"revision": number})).await
            }
            NewestRevision::Missing(revision) => {
                let created = self.cx.create::<_, ControllerRevision>(*revision).await;
                if matches!(&created, Err(error) if error.is_conflict()) {
                    // The name is taken: another one next time.
                    let status = json!({"status": {"collisionCount": self.collisions + 1}});
                    self.cx.patch_status(self.set, status).await?;
                }
                created
            }
        }
    }

    /// Takes the next step. Returns whether something must be waited for that nobody will tell of.
    async fn step(
        &self,
        pods: BTreeMap<i32, Arc<Pod>>,
        current: &ControllerRevision,
        update: &ControllerRevision,
    ) -> Result<bool, Error> {
        let mut is_waiting = false;
        for (ordinal, pod) in &pods {
            self.mind_claims(*ordinal, pod).await?;
        }
        let view =
            StatefulSetState { spec: self.spec, pods: &pods, update: name(update), now: self.cx.now() };
        for step in view.steps() {
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

    /// Makes a Pod and its claims. Returns false if a claim must go first.
    async fn create(&self, ordinal: i32, revision: &ControllerRevision) -> Result<bool, Error> {
        let pod = self.pod(ordinal, revision);
        let pod_name = pod.metadata.name.clone().unwrap_or_default();
        for claim in claims::claims(self.set, self.spec, ordinal) {
            match self.cx.get::<PersistentVolumeClaim>(claim.metadata.name.as_deref().unwrap_or_default())? {
                Some(known) if claims::is_leaving(&known, &pod_name) => return Ok(false),
                Some(_) => {}
                None => self.create_claim(claim, &pod_name).await?,
            }
        }
        let created = self.cx.create::<_, Pod>(pod).await;
        self.tell("Create", &format!("Pod {pod_name} in StatefulSet {} ", self.set_name), &created);
        created.map(|_| true)
    }

    async fn create_claim(&self, claim: PersistentVolumeClaim, pod: &str) -> Result<(), Error> {
        let claim_name = claim.metadata.name.clone().unwrap_or_default();
        // The owner, if it shall have one, is set when the Pod is there.
        let created = self.cx.create_unowned::<_, PersistentVolumeClaim>(claim).await;
        let what = format!("Claim {claim_name} Pod {pod} in StatefulSet {} ", self.set_name);
        self.tell("Create", &what, &created);
        created.map(drop)
    }

    fn pod(&self, ordinal: i32, revision: &ControllerRevision) -> core::Pod {
        let template = revisions::held(revision).unwrap_or_else(|| self.spec.template.clone());
        let mut pod = pod(&template);
        let pod_name = format!("{}-{ordinal}", self.set_name);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), pod_name.clone());
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_string());
        labels.insert(REVISION.to_owned(), name(revision).to_owned());
        if let Some(spec) = &mut pod.spec {
            spec.hostname = Some(pod_name.clone());
            spec.subdomain = self.spec.service_name.clone().filter(|service| !service.is_empty());
            claims::mount(spec, self.set, self.spec, ordinal);
        }
        pod.metadata.name = Some(pod_name);
        pod
    }

    async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let deleted = self.cx.delete(pod).await;
        if !matches!(deleted, Ok(false)) {
            let what = format!("Pod {} in StatefulSet {} ", pod.name(), self.set_name);
            self.tell("Delete", &what, &deleted);
        }
        deleted.map(drop)
    }

    /// Gives the claims of a Pod the owners that the retention policy asks for, and a pending Pod the claims it lacks.
    async fn mind_claims(&self, ordinal: i32, pod: &Pod) -> Result<(), Error> {
        let owner = claims::owner(self.spec, ordinal);
        for wanted in claims::claims(self.set, self.spec, ordinal) {
            let claim_name = wanted.metadata.name.clone().unwrap_or_default();
            match self.cx.get::<PersistentVolumeClaim>(claim_name)? {
                None if pod.phase() == "Pending" && !pod.is_dying() => {
                    self.create_claim(wanted, pod.name()).await?;
                }
                None => {}
                Some(claim) => {
                    if let Some(references) = claims::references(&claim, owner, self.set, pod) {
                        let revision = &claim.metadata.resource_version;
                        let meta = json!({"ownerReferences": references, "resourceVersion": revision});
                        self.cx.patch(&*claim, json!({"metadata": meta})).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn tell<T>(&self, verb: &str, what: &str, outcome: &Result<T, Error>) {
        match outcome {
            Ok(_) => {
                let end = if what.starts_with("Claim") { "success" } else { "successful" };
                let message = format!("{verb} {what}{end}");
                self.cx.event(Severity::Normal, &format!("Successful{verb}"), message);
            }
            Err(error) => {
                let message = format!("{verb} {what}failed error: {}", said(error));
                self.cx.event(Severity::Warning, &format!("Failed{verb}"), message);
            }
        }
    }

    fn status(
        &self,
        pods: &BTreeMap<i32, Arc<Pod>>,
        current: &ControllerRevision,
        update: &ControllerRevision,
    ) -> StatefulSetStatus {
        let view = StatefulSetState { spec: self.spec, pods, update: name(update), now: self.cx.now() };
        let number = |test: &dyn Fn(&Pod) -> bool| count(pods.values().filter(|pod| test(pod)).count());
        let is_ready = |pod: &Pod| pod.phase() == "Running" && pod.is_ready();
        let of = |wanted: &str| number(&|pod: &Pod| !pod.is_dying() && revision(pod) == wanted);
        let mut status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(pods.len()),
            ready_replicas: nonzero(number(&is_ready)),
            available_replicas: Some(number(&|pod: &Pod| {
                is_ready(pod) && pod.is_available(view.min_ready(), self.cx.now())
            })),
            current_replicas: nonzero(of(name(current))),
            updated_replicas: nonzero(of(name(update))),
            current_revision: Some(name(current).to_owned()),
            update_revision: Some(name(update).to_owned()),
            collision_count: Some(self.collisions),
            conditions: self.set.status.as_ref().and_then(|status| status.conditions.clone()),
        };
        let wanted = self.spec.replicas.unwrap_or(1);
        if status.updated_replicas == nonzero(wanted)
            && status.ready_replicas == nonzero(wanted)
            && status.replicas == wanted
        {
            status.current_replicas = status.updated_replicas;
            status.current_revision.clone_from(&status.update_revision);
        }
        status
    }

    /// Removes the revisions beyond the history limit.
    async fn clean_up(
        &self,
        history: &[Arc<ControllerRevision>],
        pods: &BTreeMap<i32, Arc<Pod>>,
        used: &[&str],
    ) -> Result<(), Error> {
        let mut live: Vec<&str> = used.to_vec();
        live.extend(pods.values().map(|pod| revision(pod)));
        let limit = size(self.spec.revision_history_limit.unwrap_or(HISTORY));
        for revision in superfluous(history, &live, limit) {
            self.cx.delete(&*revision).await?;
        }
        Ok(())
    }
}
