//! A world in a plan reads the real API, keeps its writes to itself, and from then on shows them as if the API had
//! accepted them.
//!
//! **Invariant:** no write reaches the API. Only the desired state of a written resource is known, so the resource
//! counts as equal to exactly that; anything that the API itself would add or change is not predicted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_core::{FieldDiff, Key};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::difference::{Difference, compare, field_diff};
use super::failure::Failure;
use super::owner_mark::Mark;
use super::world_trait::{Answer, Page, UpdateRequest, World};
use crate::fault::Result;
use crate::planned_calls::{PlannedCall, PlannedCalls, PlannedVerb};

/// An external resource: either as it is in the API, or as the plan wrote it.
pub(super) enum PlannedHave<H> {
    /// The API returned it.
    Real(H),
    /// The plan wrote it.
    Written {
        /// The desired state that was written.
        want: Value,
        /// The mark that was put on it.
        mark: Mark,
    },
}

impl<H: Serialize> Serialize for PlannedHave<H> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Real(have) => have.serialize(serializer),
            Self::Written { want, .. } => want.serialize(serializer),
        }
    }
}

/// The effect of the plan on a resource.
#[derive(Clone)]
enum PlannedState {
    Written { want: Value, mark: Mark },
    Deleted,
}

/// A world whose writes are recorded and simulated.
pub(super) struct PlannedWorld<W> {
    real: Arc<W>,
    calls: PlannedCalls,
    overlay: Mutex<BTreeMap<String, PlannedState>>,
}

impl<W: World> PlannedWorld<W> {
    pub(super) fn new(real: W, calls: PlannedCalls) -> Self {
        Self { real: Arc::new(real), calls, overlay: Mutex::default() }
    }

    fn overlay(&self) -> MutexGuard<'_, BTreeMap<String, PlannedState>> {
        self.overlay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, name: &str) -> Option<PlannedState> {
        self.overlay().get(name).cloned()
    }

    async fn real_get(&self, name: &str) -> Answer<Option<W::Have>> {
        let (real, name) = (Arc::clone(&self.real), name.to_owned());
        self.calls.read(async move { real.get(&name).await }).await
    }

    fn record(&self, verb: PlannedVerb, name: &str, mark: Option<&Mark>, diff: FieldDiff) {
        let owner = mark.filter(|mark| !mark.name.is_empty()).map(|mark| {
            let Mark { namespace, name, .. } = mark;
            if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
        });
        self.calls.record(PlannedCall {
            world: W::NAME.to_owned(),
            verb,
            name: name.to_owned(),
            owner,
            diff,
        });
    }
}

fn written<H>(state: PlannedState) -> Option<PlannedHave<H>> {
    match state {
        PlannedState::Written { want, mark } => Some(PlannedHave::Written { want, mark }),
        PlannedState::Deleted => None,
    }
}

fn target<W: World>(name: &str) -> Key {
    Key::new("outside", W::NAME, "", &name.replace('/', ":"))
}

impl<W: World> World for PlannedWorld<W> {
    type Kind = W::Kind;
    type Want = W::Want;
    type Have = PlannedHave<W::Have>;
    const NAME: &'static str = W::NAME;

    fn want(&self, object: &W::Kind) -> Result<BTreeMap<String, W::Want>> {
        self.real.want(object)
    }

    fn diff(&self, want: &W::Want, have: &Self::Have) -> Vec<Difference> {
        match have {
            PlannedHave::Real(have) => self.real.diff(want, have),
            PlannedHave::Written { want: written, .. } => compare(want, written),
        }
    }

    fn mark(&self, have: &Self::Have) -> Option<Mark> {
        match have {
            PlannedHave::Real(have) => self.real.mark(have),
            PlannedHave::Written { mark, .. } => Some(mark.clone()),
        }
    }

    async fn list(&self, from: Option<&str>) -> Answer<Page<Self::Have>> {
        let (real, token) = (Arc::clone(&self.real), from.map(ToOwned::to_owned));
        let page = self.calls.read(async move { real.list(token.as_deref()).await }).await?;
        let overlay = self.overlay().clone();
        let is_untouched = |(name, _): &(String, W::Have)| !overlay.contains_key(name);
        let real = page.resources.into_iter().filter(is_untouched);
        let mut resources: Vec<_> = real.map(|(name, have)| (name, PlannedHave::Real(have))).collect();
        if page.next.is_none() {
            let ours = overlay.into_iter().filter_map(|(name, state)| Some((name, written(state)?)));
            resources.extend(ours);
        }
        Ok(Page { resources, next: page.next })
    }

    async fn get(&self, name: &str) -> Answer<Option<Self::Have>> {
        match self.state(name) {
            Some(state) => Ok(written(state)),
            None => Ok(self.real_get(name).await?.map(PlannedHave::Real)),
        }
    }

    async fn create(&self, name: &str, want: &W::Want, mark: &Mark) -> Answer<()> {
        if self.get(name).await?.is_some() {
            return Err(Failure::Exists);
        }
        let want = serde_json::to_value(want)?;
        let diff = FieldDiff::complete(&target::<W>(name), &json!({}), &want);
        self.record(PlannedVerb::Create, name, Some(mark), diff);
        self.overlay().insert(name.to_owned(), PlannedState::Written { want, mark: mark.clone() });
        Ok(())
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        let diff = field_diff(&target::<W>(name), &self.diff(change.want, change.have));
        self.record(PlannedVerb::Update, name, Some(change.mark), diff);
        let (want, mark) = (serde_json::to_value(change.want)?, change.mark.clone());
        self.overlay().insert(name.to_owned(), PlannedState::Written { want, mark });
        Ok(())
    }

    async fn delete(&self, name: &str, have: &Self::Have) -> Answer<()> {
        self.record(PlannedVerb::Delete, name, self.mark(have).as_ref(), FieldDiff::default());
        self.overlay().insert(name.to_owned(), PlannedState::Deleted);
        Ok(())
    }
}
