//! The state of the cloud: the shapes, their recent past (so that reads can lag), what is broken, and who listens.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::api::{CloudShape, Event, Faults, Shapes};

/// How many shapes are on a page.
const PAGE: usize = 100;

/// How many changes a slow listener may lag behind before it is cut off.
const UNHEARD_MAX: usize = 1024;

/// How far back reads can lag.
const PAST_MAX: Duration = Duration::from_secs(120);

/// The cloud.
pub(super) struct CloudState {
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
}

type Population = BTreeMap<String, CloudShape>;

struct State {
    shapes: Population,
    /// Earlier states of the shapes, and when each ended.
    past: Vec<(Instant, Population)>,
    faults: Faults,
}

impl CloudState {
    pub(super) fn new() -> Self {
        let state = State { shapes: BTreeMap::new(), past: Vec::new(), faults: Faults::default() };
        Self { state: Mutex::new(state), events: broadcast::channel(UNHEARD_MAX).0 }
    }

    pub(super) fn faults(&self) -> Faults {
        self.lock().faults.clone()
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub(super) fn list(&self, from: Option<&str>) -> Shapes {
        let state = self.lock();
        if state.faults.empty_lists {
            return Shapes { shapes: vec![], next: None };
        }
        let shown = state.shown().values();
        let mut rest = shown.skip_while(|shape| from.is_some_and(|from| shape.name.as_str() < from)).cloned();
        let shapes = rest.by_ref().take(PAGE).collect();
        Shapes { shapes, next: rest.next().map(|shape| shape.name) }
    }

    pub(super) fn get(&self, name: &str) -> Option<CloudShape> {
        self.lock().shown().get(name).cloned()
    }

    /// Creates a shape; returns false if the name is taken.
    pub(super) fn create(&self, shape: CloudShape, by: String) -> bool {
        let mut state = self.lock();
        if state.shapes.contains_key(&shape.name) {
            return false;
        }
        state.change(|shapes| shapes.insert(shape.name.clone(), shape.clone()));
        drop(state);
        self.tell("create", shape.name.clone(), Some(shape), by);
        true
    }

    /// Changes a shape; returns false if there is none with this name.
    pub(super) fn update(&self, shape: CloudShape, by: String) -> bool {
        let mut state = self.lock();
        if !state.shapes.contains_key(&shape.name) {
            return false;
        }
        if state.faults.ignores_updates {
            return true;
        }
        state.change(|shapes| shapes.insert(shape.name.clone(), shape.clone()));
        drop(state);
        self.tell("update", shape.name.clone(), Some(shape), by);
        true
    }

    /// Removes a shape; returns false if there is none with this name.
    pub(super) fn delete(&self, name: &str, by: String) -> bool {
        let mut state = self.lock();
        if !state.shapes.contains_key(name) {
            return false;
        }
        state.change(|shapes| shapes.remove(name));
        drop(state);
        self.tell("delete", name.to_owned(), None, by);
        true
    }

    fn tell(&self, verb: &str, name: String, shape: Option<CloudShape>, by: String) {
        // There may be no listeners.
        let _ = self.events.send(Event { verb: verb.to_owned(), name, shape, by });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn change<T>(&mut self, change: impl FnOnce(&mut Population) -> T) {
        let now = Instant::now();
        self.past.retain(|(until, _)| now.duration_since(*until) < PAST_MAX);
        self.past.push((now, self.shapes.clone()));
        change(&mut self.shapes);
    }

    /// Returns the shapes as readers see them.
    fn shown(&self) -> &Population {
        let lag = Duration::from_millis(self.faults.lag_ms);
        let Some(then) = Instant::now().checked_sub(lag).filter(|_| !lag.is_zero()) else {
            return &self.shapes;
        };
        let past = self.past.iter().find(|(until, _)| *until > then);
        past.map_or(&self.shapes, |(_, shapes)| shapes)
    }
}
