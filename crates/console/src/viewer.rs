//! The viewer of the page, as the API server identifies them, and the limit of concurrent viewers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::api::{Refusal, ViewerApi};

/// Concurrent streams of all viewers: each costs a watch per kind, some 60, and a parse of every change.
pub(crate) const STREAMS_MAX: usize = 24;

/// A viewer of the page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) user: String,
    /// Where to look for kinds that the viewer may not list everywhere.
    pub(crate) namespaces: Vec<String>,
    /// Whether the viewer may see what operators do: the permission to read the server's metrics.
    pub(crate) may_see_operators: bool,
}

impl Viewer {
    /// Asks the server who holds the token. Refused if it is nobody's.
    pub(crate) async fn load(api: &ViewerApi, asked_namespace: Option<&str>) -> Result<Self, Refusal> {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = api.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", &question).await?;
        let user = answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned();
        let metrics = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        });
        let access = api.review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &metrics).await;
        let may_see_operators = access.is_ok_and(|answer| answer["status"]["allowed"] == true);
        let own = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split(':').next());
        let mut namespaces: Vec<String> =
            [asked_namespace, own, Some("default")].into_iter().flatten().map(ToOwned::to_owned).collect();
        namespaces.dedup();
        Ok(Self { user, namespaces, may_see_operators })
    }
}

/// Counts open streams.
#[derive(Clone, Default)]
pub(crate) struct StreamSlots(Arc<AtomicUsize>);

/// One open stream; dropping it makes room for another.
pub(crate) struct StreamSlot(Arc<AtomicUsize>);

impl StreamSlots {
    /// Takes a slot; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<StreamSlot> {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| {
            (open < STREAMS_MAX).then_some(open + 1)
        });
        taken.is_ok().then(|| StreamSlot(Arc::clone(&self.0)))
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_and_given_back() {
        let slots = StreamSlots::default();
        let mut held: Vec<StreamSlot> = (0..STREAMS_MAX).map_while(|_| slots.take()).collect();
        assert_eq!(held.len(), STREAMS_MAX);
        assert!(slots.take().is_none());
        held.pop();
        assert!(slots.take().is_some());
    }
}
