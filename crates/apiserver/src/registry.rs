//! Tracks the resources that are currently served: the built-in rows plus those of established definitions.
//!
//! **Invariant:** no custom row belongs to a group with built-in kinds, no matter what the stored definition contains.
//! Kubernetes also responds with 404 for such a definition in every version, because the built-in group handles all of
//! its paths.
//!
//! The table follows the stored definitions through a watch that is drained on each request, so a definition is
//! served from the first request after its creation was acknowledged. Rows of unchanged definitions are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use homeostat_api::crd;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::{SharedStore, Watch};
use tokio::sync::watch;

use crate::stored::encode;

/// The served resources, shared by all requests.
pub(crate) struct Registry {
    store: SharedStore,
    table: ArcSwap<ResourceTable>,
    follower: Mutex<DefinitionFollower>,
    changes: watch::Sender<u64>,
}

struct DefinitionFollower {
    definitions: Watch,
    built_in: Vec<Arc<Resource>>,
    rows: HashMap<String, (Revision, Vec<Arc<Resource>>)>,
}

/// The served resources at one moment.
pub(crate) struct ResourceTable {
    /// Incremented with every change; caches of derived documents compare against it.
    pub(crate) generation: u64,
    /// All rows in discovery order: built-in ones, then custom ones by group.
    pub(crate) rows: Vec<Arc<Resource>>,
    by_path: HashMap<String, Arc<Resource>>,
    /// One row for each storage, by the prefix of its keys.
    by_storage: HashMap<Prefix, Arc<Resource>>,
}

impl ResourceTable {
    /// Creates the table. The first row of a path or a storage wins, and built-in rows come first.
    fn new(generation: u64, rows: Vec<Arc<Resource>>) -> Self {
        let (mut by_path, mut by_storage) = (HashMap::new(), HashMap::new());
        for row in &rows {
            let path = table_key(&row.group, &row.version, &row.plural);
            by_path.entry(path).or_insert_with(|| Arc::clone(row));
            by_storage.entry(row.storage().prefix()).or_insert_with(|| Arc::clone(row));
        }
        Self { generation, rows, by_path, by_storage }
    }

    /// Returns the row of a resource.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&table_key(group, version, plural))
    }

    /// Returns the row of a built-in kind.
    pub(crate) fn built_in(&self, kind: &BuiltInKind) -> &Arc<Resource> {
        self.get(kind.group, kind.version, kind.plural).expect("every declared kind is served")
    }

    /// Returns the row of a kind in exactly this version.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let is_meant =
            |row: &&Arc<Resource>| &*row.group == group && &*row.version == version && &*row.kind == kind;
        self.rows.iter().find(is_meant)
    }

    /// Returns a row of the storage that holds this key.
    pub(crate) fn by_key(&self, key: &Key) -> Option<&Arc<Resource>> {
        self.by_storage.get(&ResourceIdentity::of_key(key).prefix())
    }

    /// Returns each storage once, with one of its rows.
    pub(crate) fn stored(&self) -> BTreeMap<ResourceIdentity<'_>, &Arc<Resource>> {
        let storable = self.rows.iter().filter(|row| row.allows("list") && row.allows("create"));
        let mut stored = BTreeMap::new();
        for row in storable {
            stored.entry(row.storage()).or_insert(row);
        }
        stored
    }
}

fn table_key(group: &str, version: &str, plural: &str) -> String {
    let mut text = String::with_capacity(group.len() + version.len() + plural.len() + 2);
    for part in [group, "/", version, "/", plural] {
        text.push_str(part);
    }
    text
}

impl Registry {
    /// Creates a registry for a store, with the definitions in it.
    pub(crate) fn new(store: SharedStore) -> Result<Self, homeostat_store::Error> {
        let prefix = crd::STORAGE.prefix();
        let revision = store.snapshot().revision();
        let definitions = store.watch(&prefix, revision)?;
        let built_in = homeostat_api::kinds::built_in_rows().into_iter().map(Arc::new).collect();
        let mut follower = DefinitionFollower { definitions, built_in, rows: HashMap::new() };
        let table = follower.table(&store, 1);
        let (table, follower) = (ArcSwap::from_pointee(table), Mutex::new(follower));
        Ok(Self { store, table, follower, changes: watch::Sender::new(1) })
    }

    /// Returns a registry for a copy of the store, with the rows that are already known.
    pub(crate) fn forked(&self, store: SharedStore) -> Result<Self, homeostat_store::Error> {
        let table = self.table();
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = store.watch(&crd::STORAGE.prefix(), store.snapshot().revision())?;
        let copy = DefinitionFollower {
            definitions,
            built_in: follower.built_in.clone(),
            rows: follower.rows.clone(),
        };
        let changes = watch::Sender::new(table.generation);
        Ok(Self { store, table: ArcSwap::new(table), follower: Mutex::new(copy), changes })
    }

    /// Returns the table, including every definition whose write was acknowledged.
    pub(crate) fn table(&self) -> Arc<ResourceTable> {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.has_changed(&self.store) {
            let generation = self.table.load().generation + 1;
            self.table.store(Arc::new(follower.table(&self.store, generation)));
            self.changes.send_replace(generation);
        }
        self.table.load_full()
    }

    /// Returns a receiver that signals changes to the table: the background tasks read it after every write to a
    /// definition.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl DefinitionFollower {
    fn has_changed(&mut self, store: &SharedStore) -> bool {
        if let Ok(events) = self.definitions.try_next() {
            return !events.is_empty();
        }
        // The watch fell behind the history: start over from the current state.
        let prefix = crd::STORAGE.prefix();
        if let Ok(watch) = store.watch(&prefix, store.snapshot().revision()) {
            self.definitions = watch;
        }
        true
    }

    fn table(&mut self, store: &SharedStore, generation: u64) -> ResourceTable {
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
                    let rows = crd::rows(&encode::parse_entry(entry), entry.revision, &before);
                    rows.into_iter().map(Arc::new).collect()
                }
            };
            custom.extend(of_definition.iter().cloned());
            kept.insert(name, (entry.revision, of_definition));
        }
        self.rows = kept;
        // This is checked for every row, including those of definitions that an earlier version of the server
        // established.
        custom.retain(|row: &Arc<Resource>| !rows.iter().any(|built_in| built_in.group == row.group));
        custom.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
        rows.extend(custom);
        ResourceTable::new(generation, rows)
    }
}
