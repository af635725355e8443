//! The measured world: things in memory, with immediate responses and a count of every call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use homeostat_runtime::Result;
use homeostat_runtime::world::{Answer, Difference, Failure, Mark, Page, PushedChange, UpdateRequest, World};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Things per page: what real APIs allow.
const PAGE: usize = 1000;

/// The value every object wants.
const VALUE: &str = "value";

/// Calls of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCount {
    pub(super) lists: usize,
    pub(super) gets: usize,
    pub(super) writes: usize,
}

struct FakeWorldState {
    things: BTreeMap<String, String>,
    spoilt: BTreeSet<String>,
    count: CallCount,
    began: Instant,
    last_call: Instant,
}

/// The measured world. Clones share their things.
#[derive(Clone)]
pub(super) struct FakeWorld {
    state: Arc<Mutex<FakeWorldState>>,
    asked: Arc<Notify>,
}

impl FakeWorld {
    /// Creates a world in which everything is in the desired state.
    pub(super) fn new(size: usize) -> Self {
        let name = |number| format!("namespace-{}.object-{number}", number % 10);
        let things = (0..size).map(|number| (name(number), VALUE.to_owned())).collect();
        let now = Instant::now();
        let state = FakeWorldState {
            things,
            spoilt: BTreeSet::new(),
            count: CallCount::default(),
            began: now,
            last_call: now,
        };
        Self { state: Arc::new(Mutex::new(state)), asked: Arc::new(Notify::new()) }
    }

    /// Changes this many things, spread over the world, as an outside writer would.
    pub(super) fn drift(&self, count: usize) {
        let mut state = self.lock();
        let step = state.things.len() / count;
        let names: BTreeSet<String> = state.things.keys().step_by(step).take(count).cloned().collect();
        for name in &names {
            state.things.insert(name.clone(), "spoilt".to_owned());
        }
        state.spoilt = names;
    }

    /// Requests a full pass, by push.
    pub(super) fn ask_for_pass(&self) {
        self.asked.notify_one();
    }

    /// Returns when the last pass began; its calls are counted from then on.
    pub(super) fn began(&self) -> Instant {
        self.lock().began
    }

    pub(super) fn count(&self) -> CallCount {
        self.lock().count
    }

    /// Waits until everything is back in the desired state, and returns when that happened.
    pub(super) async fn repaired(&self) -> Instant {
        loop {
            {
                let state = self.lock();
                if state.spoilt.is_empty() {
                    return state.last_call;
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn call(&self) -> MutexGuard<'_, FakeWorldState> {
        let mut state = self.lock();
        state.last_call = Instant::now();
        state
    }

    fn lock(&self) -> MutexGuard<'_, FakeWorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World for FakeWorld {
    type Kind = ConfigMap;
    type Want = String;
    type Have = String;
    const NAME: &'static str = "field";

    fn want(&self, object: &ConfigMap) -> Result<BTreeMap<String, String>> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let name = format!("{}.{}", text(&object.metadata.namespace), text(&object.metadata.name));
        let value = object.data.as_ref().and_then(|data| data.get("key")).cloned().unwrap_or_default();
        Ok([(name, value)].into())
    }

    fn diff(&self, want: &String, have: &String) -> Vec<Difference> {
        if want == have { vec![] } else { vec![Difference::new("/", want, have)] }
    }

    async fn list(&self, from: Option<&str>) -> Answer<Page<String>> {
        let mut state = self.call();
        if from.is_none() {
            state.began = Instant::now();
            state.count = CallCount { lists: 1, ..CallCount::default() };
        }
        let from = from.unwrap_or_default().to_owned();
        let mut rest = state.things.range(from..).map(|(name, value)| (name.clone(), value.clone()));
        let resources = rest.by_ref().take(PAGE).collect();
        Ok(Page { resources, next: rest.next().map(|(name, _)| name) })
    }

    async fn get(&self, name: &str) -> Answer<Option<String>> {
        let mut state = self.call();
        state.count.gets += 1;
        Ok(state.things.get(name).cloned())
    }

    async fn create(&self, _: &str, _: &String, _: &Mark) -> Answer<()> {
        Err(Failure::refused("nothing is missing in this world"))
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        let mut state = self.call();
        state.count.writes += 1;
        state.things.insert(name.to_owned(), change.want.clone());
        state.spoilt.remove(name);
        Ok(())
    }

    async fn delete(&self, _: &str, _: &String) -> Answer<()> {
        self.call().count.writes += 1;
        Err(Failure::refused("nothing is unwanted in this world"))
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        let asked = self.asked.clone();
        let pushes = stream::unfold(asked, |asked| async {
            asked.notified().await;
            Some((Ok(PushedChange::Unknown), asked))
        });
        Some(pushes.boxed())
    }
}
