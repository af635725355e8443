//! The steps of a scenario: apply an object, break something, wait until it is repaired, and record failures.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use homeostat::k8s_openapi::NamespaceResourceScope;
use homeostat::kube::Resource;
use homeostat::kube::api::{Patch, PatchParams};
use homeostat::serde::Serialize;
use homeostat::serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::environment::DemoEnvironment;
use super::timeline::{LineKind, Timeline, short_duration};

/// The pause between two checks, only to save CPU time.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// The maximum wait for one event. On two busy cores, the slowest one, a first `initdb`, takes several seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The maximum wait after a failure: steps that depend on it also fail.
const PATIENCE_LOST: Duration = Duration::from_secs(5);

/// A running demo.
pub(super) struct DemoRun<'a> {
    pub(super) environment: &'a DemoEnvironment,
    pub(super) timeline: &'a Timeline,
    failures: Vec<String>,
    /// When each object that is not ready yet was applied.
    asked: HashMap<String, Instant>,
}

impl<'a> DemoRun<'a> {
    pub(super) fn new(environment: &'a DemoEnvironment, timeline: &'a Timeline) -> Self {
        Self { environment, timeline, failures: Vec::new(), asked: HashMap::new() }
    }

    /// Returns what failed.
    pub(super) fn failures(self) -> Vec<String> {
        self.failures
    }

    /// Applies an object, given as JSON.
    pub(super) async fn apply<K>(&mut self, name: &str, words: &str, object: Value)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let who = format!("{}/{name}", K::kind(&()));
        self.timeline.line(LineKind::Did, &who, words);
        self.asked.insert(who.clone(), self.timeline.clock().instant());
        let mut object = object;
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        object["metadata"]["name"] = name.into();
        let params = PatchParams::apply("demo").force();
        let applied = self.environment.api::<K>().patch(name, &params, &Patch::Apply(object)).await;
        self.note_result(&who, applied.map(drop));
    }

    /// Prints what is broken now.
    pub(super) fn note_broken(&self, who: &str, words: &str) {
        self.timeline.line(LineKind::Broke, who, words);
    }

    /// Records a step that failed.
    pub(super) fn note_result<E: std::fmt::Display>(&mut self, who: &str, outcome: Result<(), E>) {
        if let Err(error) = outcome {
            self.note_failure(who, &error.to_string());
        }
    }

    pub(super) fn note_failure(&mut self, who: &str, words: &str) {
        self.timeline.line(LineKind::Failed, who, words);
        self.failures.push(format!("{who}: {words}"));
    }

    /// Waits until `look` finds something, and prints how long it took: since the object was applied if this is the
    /// first wait for it, otherwise since this call. Records a failure if it finds nothing in time.
    pub(super) async fn wait_until<T, F>(
        &mut self,
        who: &str,
        words: &str,
        mut look: impl FnMut() -> F,
    ) -> Option<T>
    where
        F: Future<Output = Option<T>>,
    {
        let start = self.asked.remove(who).unwrap_or_else(|| self.timeline.clock().instant());
        let patience = if self.failures.is_empty() { PATIENCE } else { PATIENCE_LOST };
        let found = tokio::time::timeout(patience, async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        if let Ok(found) = found.await {
            let took = short_duration(self.timeline.since(start));
            self.timeline.line(LineKind::Healed, who, &format!("{words}, after {took}"));
            return Some(found);
        }
        self.note_failure(who, &format!("did not happen within {}: {words}", short_duration(patience)));
        None
    }
}

/// Converts a value to JSON, to inspect it.
pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
