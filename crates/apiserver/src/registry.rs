//! Which resources are served right now: the built-in rows plus those of established definitions.
//!
//! **Invariant:** no custom row is of a group that has built-in kinds, whatever the stored definition says of itself. In
//! Kubernetes, too, such a definition is answered with 404 in every version: the built-in group answers for all of its paths.
//!
//! The table follows the stored definitions through a watch that is drained when a request looks, so a definition
//! is served by the very next request after its creation was answered. Rows of unchanged definitions are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::{SharedStore, Watch};
use tokio::sync::watch;

use crate::crd;
use crate::kinds::declaration::Kind;
use crate::object::encode;
use crate::resource::Resource;
use crate::storage::Storage;

/// The served resources; shared by all requests.
pub(crate) struct Registry {
    store: SharedStore,
    table: ArcSwap<Table>,
    follower: Mutex<Follower>,
    changes: watch::Sender<u64>,
}

struct Follower {
    definitions: Watch,
    built_in: Vec<Arc<Resource>>,
    rows: HashMap<String, (Revision, Vec<Arc<Resource>>)>,
}

/// The served resources at one moment.
pub(crate) struct Table {
    /// Grows with every change; caches of derived documents compare it.
    pub(crate) generation: u64,
    /// All rows in discovery order: built-in, then custom by group.
    pub(crate) rows: Vec<Arc<Resource>>,
    by_path: HashMap<String, Arc<Resource>>,
    /// One row of each storage, by what its keys begin with.
    by_storage: HashMap<Prefix, Arc<Resource>>,
}

impl Table {
    /// The first row of a path or a storage counts: built-in ones come first.
    fn new(generation: u64, rows: Vec<Arc<Resource>>) -> Self {
        let (mut by_path, mut by_storage) = (HashMap::new(), HashMap::new());
        for row in &rows {
            let path = path(&row.group, &row.version, &row.plural);
            by_path.entry(path).or_insert_with(|| Arc::clone(row));
            by_storage.entry(row.storage().prefix()).or_insert_with(|| Arc::clone(row));
        }
        Self { generation, rows, by_path, by_storage }
    }

    /// The row of a resource.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&path(group, version, plural))
    }

    /// The row of a built-in kind.
    pub(crate) fn of_declared(&self, kind: &Kind) -> &Arc<Resource> {
        self.get(kind.group, kind.version, kind.plural).expect("every declared kind is served")
    }

    /// The row of a kind, in this very version.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let is_meant =
            |row: &&Arc<Resource>| &*row.group == group && &*row.version == version && &*row.kind == kind;
        self.rows.iter().find(is_meant)
    }

    /// A row that stores its objects where this key is.
    pub(crate) fn of_key(&self, key: &Key) -> Option<&Arc<Resource>> {
        self.by_storage.get(&Storage::of_key(key).prefix())
    }

    /// Each storage once, with a row of it.
    pub(crate) fn stored(&self) -> BTreeMap<Storage<'_>, &Arc<Resource>> {
        let storable = self.rows.iter().filter(|row| row.allows("list") && row.allows("create"));
        let mut stored = BTreeMap::new();
        for row in storable {
            stored.entry(row.storage()).or_insert(row);
        }
        stored
    }

    /// The built-in rows of a group.
    pub(crate) fn built_in_of(&self, group: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.rows.iter().filter(move |row| !row.is_custom() && &*row.group == group)
    }
}

fn path(group: &str, version: &str, plural: &str) -> String {
    let mut text = String::with_capacity(group.len() + version.len() + plural.len() + 2);
    for part in [group, "/", version, "/", plural] {
        text.push_str(part);
    }
    text
}

impl Registry {
    /// The registry over a store, with the definitions it holds.
    pub(crate) fn new(store: SharedStore) -> Result<Self, homeostat_store::Error> {
        let prefix = crd::STORAGE.prefix();
        let revision = store.snapshot().revision();
        let definitions = store.watch(&prefix, revision)?;
        let built_in = Resource::built_in().into_iter().map(Arc::new).collect();
        let mut follower = Follower { definitions, built_in, rows: HashMap::new() };
        let table = follower.table(&store, 1);
        let (table, follower) = (ArcSwap::from_pointee(table), Mutex::new(follower));
        Ok(Self { store, table, follower, changes: watch::Sender::new(1) })
    }

    /// The table as of every definition whose write was answered.
    pub(crate) fn table(&self) -> Arc<Table> {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.has_changed(&self.store) {
            let generation = self.table.load().generation + 1;
            self.table.store(Arc::new(follower.table(&self.store, generation)));
            self.changes.send_replace(generation);
        }
        self.table.load_full()
    }

    /// Tells when the table has changed: the keeper looks at it after every write of a definition.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Follower {
    fn has_changed(&mut self, store: &SharedStore) -> bool {
        if let Ok(events) = self.definitions.try_next() {
            return !events.is_empty();
        }
        // Left behind by history: start over from the present.
        let prefix = crd::STORAGE.prefix();
        if let Ok(watch) = store.watch(&prefix, store.snapshot().revision()) {
            self.definitions = watch;
        }
        true
    }

    fn table(&mut self, store: &SharedStore, generation: u64) -> Table {
        let snapshot = store.snapshot();
        let prefix = crd::STORAGE.prefix();
        let mut rows = self.built_in.clone();
        let mut kept = HashMap::new();
        let mut custom = Vec::new();
        for entry in snapshot.range(&prefix, "") {
            let name = entry.key.name().to_owned();
            let of_definition = match self.rows.remove(&name) {
                Some((revision, rows)) if revision == entry.revision => rows,
                before => {
                    let before = before.map(|(_, rows)| rows).unwrap_or_default();
                    let rows = crd::rows(&encode::decode(entry), entry.revision, &before);
                    rows.into_iter().map(Arc::new).collect()
                }
            };
            custom.extend(of_definition.iter().cloned());
            kept.insert(name, (entry.revision, of_definition));
        }
        self.rows = kept;
        // Asked of every row, also of those whose definition was established by an earlier version.
        custom.retain(|row: &Arc<Resource>| !rows.iter().any(|built_in| built_in.group == row.group));
        custom.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
        rows.extend(custom);
        Table::new(generation, rows)
    }
}
