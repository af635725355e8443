//! Provides a fake external API that records every call and has a switch for everything that can go wrong. It keeps its
//! history, so that reads can lag; and it can stop the process at the n-th call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use homeostat::testing::InjectedFault;
use homeostat_core::journal::Entry;
use homeostat_runtime::world::{
    Answer, Difference, Failure, LeakDeletionLimits, Limits, Mark, Outside, Ownership, Page, PushedChange,
    UpdateRequest, World, compare,
};
use homeostat_runtime::{Result, terminal};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::test_cluster::{Running, TestCluster, Widget, entries};

/// Comparing a resource of this size panics, and so does a widget that desires it.
pub(crate) const CURSED: i64 = 666;

/// A resource in the API. It can carry a mark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Thing {
    pub(crate) size: i64,
    pub(crate) mark: Option<String>,
}

/// The state of a resource that a widget desires.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    size: i64,
}

/// How calls behave.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Switches {
    /// Every call fails.
    pub(crate) is_down: bool,
    /// Calls for resources whose names start with this fail.
    pub(crate) broken: Option<&'static str>,
    /// Lists fail, other calls do not.
    pub(crate) is_unlistable: bool,
    /// Every response asks the client to pause for this long.
    pub(crate) busy: Option<Duration>,
    /// Lists panic.
    pub(crate) is_cursed: bool,
    /// The pages of a list form a cycle.
    pub(crate) is_circular: bool,
    /// Lists, but not other reads, show the state from this long ago.
    pub(crate) list_lag: Duration,
    /// Every create and update is refused.
    pub(crate) is_strict: bool,
    /// Updates are accepted but change nothing.
    pub(crate) ignores_updates: bool,
    /// Updates take effect, but the mark is dropped.
    pub(crate) forgets_marks: bool,
    /// Lists show only this many resources, as if there were no more.
    pub(crate) truncate: Option<usize>,
    /// Reads show the state from this long ago.
    pub(crate) lag: Duration,
    /// Creating a name that exists creates a second resource with that name.
    pub(crate) allows_twins: bool,
    /// The number of resources per page.
    pub(crate) page: Option<usize>,
    /// How long every call takes.
    pub(crate) latency: Duration,
}

struct State {
    things: BTreeMap<String, Thing>,
    /// Past states, and when each began.
    history: Vec<(Instant, BTreeMap<String, Thing>)>,
    switches: Switches,
    calls: Vec<String>,
    twins: Vec<String>,
    in_flight: usize,
    in_flight_max: usize,
}

/// The API. Clones share its state.
#[derive(Clone)]
pub(crate) struct FakeApi {
    state: Arc<Mutex<State>>,
    pushes: Option<Arc<Mutex<broadcast::Sender<PushedChange>>>>,
    pub(crate) fate: Fate,
}

impl FakeApi {
    pub(crate) fn new() -> Self {
        let state = State {
            things: BTreeMap::new(),
            history: vec![(Instant::now(), BTreeMap::new())],
            switches: Switches::default(),
            calls: vec![],
            twins: vec![],
            in_flight: 0,
            in_flight_max: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), pushes: None, fate: Fate::default() }
    }

    /// Returns an API that reports its changes.
    pub(crate) fn telling() -> Self {
        Self { pushes: Some(Arc::new(Mutex::new(broadcast::channel(64).0))), ..Self::new() }
    }

    /// Ends the change stream.
    pub(crate) fn hang_up(&self) {
        *self.pushes.as_ref().expect("it tells").lock().unwrap() = broadcast::channel(64).0;
    }

    pub(crate) fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.lock().switches);
    }

    /// Creates a resource as another user would.
    pub(crate) fn put(&self, name: &str, size: i64, mark: Option<&str>) {
        let thing = Thing { size, mark: mark.map(str::to_owned) };
        self.change(|things| {
            things.insert(name.to_owned(), thing);
        });
        self.tell(name);
    }

    /// Deletes a resource as another user would.
    pub(crate) fn take(&self, name: &str) {
        self.change(|things| {
            things.remove(name).expect("it was there");
        });
        self.tell(name);
    }

    /// Changes a resource as another user would.
    pub(crate) fn alter(&self, name: &str, alter: impl FnOnce(&mut Thing)) {
        self.alter_quietly(name, alter);
        self.tell(name);
    }

    /// Does the same without reporting the change.
    pub(crate) fn alter_quietly(&self, name: &str, alter: impl FnOnce(&mut Thing)) {
        self.change(|things| alter(things.get_mut(name).expect("it is there")));
    }

    pub(crate) fn tell(&self, name: &str) {
        self.push(PushedChange::Changed(name.to_owned()));
    }

    pub(crate) fn push(&self, push: PushedChange) {
        if let Some(pushes) = &self.pushes {
            let _ = pushes.lock().unwrap().send(push);
        }
    }

    /// Returns the resources: `name=size`.
    pub(crate) fn things(&self) -> Vec<String> {
        self.lock().things.iter().map(|(name, thing)| format!("{name}={}", thing.size)).collect()
    }

    pub(crate) fn thing(&self, name: &str) -> Thing {
        self.lock().things.get(name).expect("it is there").clone()
    }

    /// Returns the calls made since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Returns the calls that change something.
    pub(crate) fn writes(&self) -> Vec<String> {
        let is_read = |call: &String| call.starts_with("get") || call.starts_with("list");
        self.calls().into_iter().filter(|call| !is_read(call)).collect()
    }

    /// Returns the names that were created twice.
    pub(crate) fn twins(&self) -> Vec<String> {
        self.lock().twins.clone()
    }

    pub(crate) fn in_flight_max(&self) -> usize {
        self.lock().in_flight_max
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Thing>)) {
        let mut state = self.lock();
        change(&mut state.things);
        let now = state.things.clone();
        state.history.push((Instant::now(), now));
    }

    /// Returns the state that readers see.
    fn shown(&self, lag: Duration) -> BTreeMap<String, Thing> {
        let state = self.lock();
        let since = Instant::now().checked_sub(lag);
        let past = state.history.iter().rev().find(|(at, _)| since.is_none_or(|since| *at <= since));
        past.map(|(_, things)| things.clone()).unwrap_or_default()
    }

    async fn call(&self, words: String) -> Answer<()> {
        let (latency, is_down, busy) = {
            let mut state = self.lock();
            let thing = words.split_once(' ').map_or("", |(_, thing)| thing);
            let is_broken = state.switches.broken.is_some_and(|broken| thing.starts_with(broken));
            let is_hidden = state.switches.is_unlistable && words.starts_with("list");
            state.calls.push(words);
            state.in_flight += 1;
            state.in_flight_max = state.in_flight_max.max(state.in_flight);
            let switches = &state.switches;
            (switches.latency, switches.is_down || is_broken || is_hidden, switches.busy)
        };
        self.fate.before().await;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        self.lock().in_flight -= 1;
        match busy {
            _ if is_down => Err("the yard is closed".into()),
            Some(pause) => Err(Failure::Busy(pause)),
            None => Ok(()),
        }
    }

    fn refuse_if_strict(&self) -> Answer<()> {
        if self.lock().switches.is_strict { Err(Failure::refused("not that size")) } else { Ok(()) }
    }
}

impl World for FakeApi {
    type Kind = Widget;
    type Want = Wish;
    type Have = Thing;
    const NAME: &'static str = "yard";

    /// Returns one resource, named like the widget or as in `config`; `config` may list several, separated by commas.
    fn want(&self, widget: &Widget) -> Result<BTreeMap<String, Wish>> {
        assert!(widget.spec.size != CURSED, "nobody can wish for this");
        if widget.spec.size < 0 {
            return Err(terminal("size is negative"));
        }
        let name = widget.metadata.name.clone().unwrap_or_default();
        let names = widget.spec.config.clone().unwrap_or(name);
        let names = names.split(',').filter(|name| !name.is_empty());
        Ok(names.map(|name| (name.to_owned(), Wish { size: widget.spec.size })).collect())
    }

    fn diff(&self, want: &Wish, have: &Thing) -> Vec<Difference> {
        assert!(have.size != CURSED, "nobody can look at this");
        compare(want, have)
    }

    fn mark(&self, have: &Thing) -> Option<Mark> {
        have.mark.as_deref().map(Mark::read)
    }

    async fn list(&self, from: Option<&str>) -> Answer<Page<Thing>> {
        self.call(format!("list {}", from.unwrap_or_default()).trim_end().to_owned()).await?;
        let (truncate, page, lag) = {
            let state = self.lock();
            let switches = &state.switches;
            (switches.truncate, switches.page.unwrap_or(usize::MAX), switches.lag.max(switches.list_lag))
        };
        assert!(!self.lock().switches.is_cursed, "nobody can list this");
        if self.lock().switches.is_circular {
            let next = if from == Some("a") { "b" } else { "a" };
            return Ok(Page { resources: vec![], next: Some(next.to_owned()) });
        }
        let all = self.shown(lag).into_iter().take(truncate.unwrap_or(usize::MAX));
        let mut rest = all.skip_while(|(name, _)| from.is_some_and(|from| name.as_str() < from)).peekable();
        let resources = rest.by_ref().take(page).collect();
        let next = rest.peek().map(|(name, _)| name.clone());
        self.fate.after().await;
        Ok(Page { resources, next })
    }

    async fn get(&self, name: &str) -> Answer<Option<Thing>> {
        self.call(format!("get {name}")).await?;
        let lag = self.lock().switches.lag;
        let found = self.shown(lag).remove(name);
        self.fate.after().await;
        Ok(found)
    }

    async fn create(&self, name: &str, want: &Wish, mark: &Mark) -> Answer<()> {
        self.call(format!("create {name}")).await?;
        self.refuse_if_strict()?;
        if self.lock().things.contains_key(name) {
            if !self.lock().switches.allows_twins {
                return Err(Failure::Exists);
            }
            self.lock().twins.push(name.to_owned());
        }
        self.put(name, want.size, Some(&mark.to_string()));
        self.fate.after().await;
        Ok(())
    }

    async fn update(&self, name: &str, change: UpdateRequest<'_, Self>) -> Answer<()> {
        self.call(format!("update {name}")).await?;
        self.refuse_if_strict()?;
        let mark = change.mark.to_string();
        let (ignores, forgets) = {
            let state = self.lock();
            (state.switches.ignores_updates, state.switches.forgets_marks)
        };
        if ignores {
            self.tell(name);
        } else {
            self.put(name, change.want.size, Some(mark.as_str()).filter(|_| !forgets));
        }
        self.fate.after().await;
        Ok(())
    }

    async fn delete(&self, name: &str, _: &Thing) -> Answer<()> {
        self.call(format!("delete {name}")).await?;
        if self.lock().things.contains_key(name) {
            self.take(name);
        }
        self.fate.after().await;
        Ok(())
    }

    fn watch(&self) -> Option<BoxStream<'static, Answer<PushedChange>>> {
        let receiver = self.pushes.as_ref()?.lock().unwrap().subscribe();
        let stream = futures::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await.ok().map(Ok), receiver))
        });
        Some(
            stream
                .take_while(|told| std::future::ready(told.is_some()))
                .filter_map(std::future::ready)
                .boxed(),
        )
    }
}

/// Decides when the process dies: at the n-th step, before or after it takes effect. Clones share the count.
#[derive(Clone, Default)]
pub(crate) struct Fate(Arc<Mutex<Doom>>);

#[derive(Default)]
struct Doom {
    steps: usize,
    at: Option<(usize, Moment)>,
    has_struck: bool,
}

/// The moment within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

impl Fate {
    /// Stops the process at this step.
    pub(crate) fn seal(&self, step: usize, moment: Moment) {
        *self.0.lock().unwrap() = Doom { steps: 0, at: Some((step, moment)), has_struck: false };
    }

    pub(crate) fn lift(&self) {
        *self.0.lock().unwrap() = Doom::default();
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.0.lock().unwrap().has_struck
    }

    fn begins(&self) -> bool {
        let mut doom = self.0.lock().unwrap();
        doom.steps += 1;
        let strikes = doom.has_struck || doom.at == Some((doom.steps, Moment::Before));
        doom.has_struck = strikes;
        strikes
    }

    fn ends(&self) -> bool {
        let mut doom = self.0.lock().unwrap();
        let strikes = doom.has_struck || doom.at == Some((doom.steps, Moment::After));
        doom.has_struck = strikes;
        strikes
    }

    async fn before(&self) {
        if self.begins() {
            std::future::pending::<()>().await;
        }
    }

    async fn after(&self) {
        if self.ends() {
            std::future::pending::<()>().await;
        }
    }

    /// Also counts writes to the cluster as steps.
    pub(crate) fn govern(&self, lab: &TestCluster) {
        let fate = self.clone();
        lab.faults.set(move |request| {
            let path = request.uri().path();
            let is_write = request.method() != http::Method::GET;
            let is_ours = path.contains("/widgets") || path.contains("/outsiderecords");
            if !is_write || !is_ours {
                return None;
            }
            if fate.begins() {
                Some(InjectedFault::Hang)
            } else if fate.ends() {
                Some(InjectedFault::Lost)
            } else {
                None
            }
        });
    }
}

/// Limits that no test reaches by accident.
pub(crate) fn generous() -> Limits {
    Limits { per_second: 10_000.0, burst: 10_000, ..Limits::default() }
}

/// Leak deletion that is quick to test: two passes and a minute.
pub(crate) fn quick() -> LeakDeletionLimits {
    LeakDeletionLimits { min_age: Duration::from_secs(60), ..LeakDeletionLimits::default() }
}

/// The three ways to know which resources are ours.
pub(crate) fn ownerships() -> [Ownership; 3] {
    [Ownership::Tags, Ownership::Prefix("k8s-".to_owned()), Ownership::Records]
}

/// Returns the name of a resource in the API.
pub(crate) fn named(ownership: &Ownership, name: &str) -> String {
    match ownership {
        Ownership::Prefix(prefix) => format!("{prefix}{name}"),
        _ => name.to_owned(),
    }
}

/// Runs an operator on the API.
pub(crate) async fn run(
    lab: &mut TestCluster,
    yard: &FakeApi,
    build: impl FnOnce(Outside<FakeApi>) -> Outside<FakeApi>,
) -> Running {
    let outside = build(Outside::new(yard.clone()).limits(generous()).sweep(quick()));
    let lacked_records = lab.lacks_records().await;
    let running = lab.run(|operator| operator.control(outside.control()));
    lab.rest().await;
    if lacked_records && !lab.lacks_records().await {
        lab.await_served("/apis/homeostat.dev/v1/outsiderecords").await;
    }
    running
}

/// Returns status, reason and message of the condition `Synced` of a widget.
pub(crate) async fn synced(lab: &TestCluster, name: &str) -> (String, String, String) {
    let widget = lab.api::<Widget>().get(name).await.unwrap();
    let all = widget.status.map(|status| status.base.conditions).unwrap_or_default();
    let found = all.into_iter().find(|condition| condition.type_ == "Synced");
    found.map(|one| (one.status, one.reason, one.message)).unwrap_or_default()
}

/// Returns the messages of the events with this reason.
pub(crate) async fn events(lab: &TestCluster, reason: &str) -> Vec<String> {
    let all = lab.api::<Event>().list(&ListParams::default()).await.unwrap();
    let events = all.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    events.filter_map(|event| event.message).collect()
}

/// Returns the fields of each drift of the widget `w`.
pub(crate) fn drifts(running: &Running) -> Vec<Vec<String>> {
    entries(running, "w", |entry| match entry {
        Entry::Drifted { diff, .. } => Some(diff),
        _ => None,
    })
}

/// Returns the results of the passes.
pub(crate) fn surveys(running: &Running) -> Vec<Entry> {
    let records = running.journal.records().into_iter().map(|record| record.entry);
    records.filter(|entry| matches!(entry, Entry::Surveyed { .. })).collect()
}
