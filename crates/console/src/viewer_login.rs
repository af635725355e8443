//! The viewer of the page, as the API server identifies them, and the limit on concurrent viewers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::api::{Refusal, ViewerApi};

/// Concurrent streams: each costs a watch per kind, about 60, and a parse of every change. One viewer, and all viewers
/// who are not administrators, get only a part of them.
pub(crate) const STREAMS_MAX: usize = 24;
const VIEWER_STREAMS_MAX: usize = 12;
const VIEWERS_STREAMS_MAX: usize = 18;

/// The group whose members may do everything.
const ADMINISTRATORS: &str = "system:masters";

/// A viewer of the page.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) user: String,
    pub(crate) is_administrator: bool,
    /// Where to look for kinds that the viewer may not list everywhere.
    pub(crate) namespaces: Vec<String>,
    /// Whether the viewer may see what operators do: the permission to read the server's metrics.
    pub(crate) may_see_operators: bool,
}

impl Viewer {
    /// Asks the server who holds the token. Returns a refusal if the token is not valid.
    pub(crate) async fn load(api: &ViewerApi, asked_namespace: Option<&str>) -> Result<Self, Refusal> {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = api.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", &question).await?;
        let user = answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned();
        let groups = answer["status"]["userInfo"]["groups"].as_array();
        let is_administrator =
            groups.is_some_and(|groups| groups.iter().any(|group| group == ADMINISTRATORS));
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
        Ok(Self { user, is_administrator, namespaces, may_see_operators })
    }
}

impl Viewer {
    /// Asks what the viewer may do, as far as the server can list it, and returns the rules regardless of their order.
    /// A difference means that a role was granted or revoked.
    pub(crate) async fn load_rules(&self, api: &ViewerApi) -> Result<BTreeSet<String>, Refusal> {
        let mut rules = BTreeSet::new();
        for namespace in &self.namespaces {
            let question = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
            });
            let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
            let answer = api.review(path, &question).await?;
            for list in ["resourceRules", "nonResourceRules"] {
                let found = answer["status"][list].as_array().into_iter().flatten();
                rules.extend(found.map(|rule| format!("{namespace} {rule}")));
            }
        }
        Ok(rules)
    }
}

/// Counts open streams.
#[derive(Clone, Default)]
pub(crate) struct StreamSlots(Arc<Mutex<Vec<SlotHolder>>>);

#[derive(Clone, PartialEq, Eq)]
struct SlotHolder {
    user: String,
    is_administrator: bool,
}

/// One open stream; dropping it makes room for another.
pub(crate) struct StreamSlot {
    slots: StreamSlots,
    holder: SlotHolder,
}

impl StreamSlots {
    /// Takes a slot for a viewer; returns `None` if none is left for them.
    pub(crate) fn take(&self, viewer: &Viewer) -> Option<StreamSlot> {
        let holder = SlotHolder { user: viewer.user.clone(), is_administrator: viewer.is_administrator };
        let mut open = self.open();
        let own = open.iter().filter(|one| **one == holder).count();
        let viewers = open.iter().filter(|one| !one.is_administrator).count();
        let has_room = open.len() < STREAMS_MAX
            && (viewer.is_administrator || (own < VIEWER_STREAMS_MAX && viewers < VIEWERS_STREAMS_MAX));
        if !has_room {
            return None;
        }
        open.push(holder.clone());
        Some(StreamSlot { slots: self.clone(), holder })
    }

    fn open(&self) -> MutexGuard<'_, Vec<SlotHolder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.slots.open();
        if let Some(place) = open.iter().position(|one| *one == self.holder) {
            open.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(user: &str, is_administrator: bool) -> Viewer {
        Viewer { user: user.to_owned(), is_administrator, namespaces: Vec::new(), may_see_operators: false }
    }

    #[test]
    fn slots_are_counted_and_released() {
        let (slots, root) = (StreamSlots::default(), viewer("root", true));
        let mut held: Vec<StreamSlot> = std::iter::from_fn(|| slots.take(&root)).collect();
        assert_eq!(held.len(), STREAMS_MAX);
        held.pop();
        assert!(slots.take(&root).is_some());
    }

    #[test]
    fn viewers_leave_room_for_each_other_and_for_an_administrator() {
        let slots = StreamSlots::default();
        let [jane, joe] = ["jane", "joe"].map(|user| {
            let viewer = viewer(user, false);
            std::iter::from_fn(|| slots.take(&viewer)).collect::<Vec<_>>()
        });
        assert_eq!((jane.len(), joe.len()), (VIEWER_STREAMS_MAX, VIEWERS_STREAMS_MAX - VIEWER_STREAMS_MAX));
        assert!(slots.take(&viewer("root", true)).is_some());
    }
}
