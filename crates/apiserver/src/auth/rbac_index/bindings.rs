//! Indexes role bindings by user and by group.
//!
//! **Invariant:** the index has one entry for each binding and subject, no matter how often the binding names the
//! subject.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use super::super::Identity;
use super::SERVICE_ACCOUNT_PREFIX;

/// The maximum number of a namespace's RoleBindings with the same subject: many times what anyone has. A decision visits
/// all bindings of its user and the user's groups, which takes about 0.1 µs each.
const BINDINGS_OF_SUBJECT_MAX: usize = 500;
/// The maximum number of subjects in all RoleBindings of a namespace: enough for every user of a large company. A review
/// may ask about a user with all these groups.
const SUBJECTS_MAX: usize = 50_000;

/// The bindings of one namespace, or the cluster-wide ones.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    named: BTreeMap<Box<str>, Arc<Binding>>,
    of_users: BindingIndex,
    of_groups: BindingIndex,
}

/// Bindings by subject; each subject's bindings are sorted by name.
type BindingIndex = HashMap<Box<str>, Vec<Arc<Binding>>>;

/// A binding of subjects to a role.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) role: RoleRef,
    subjects: Vec<Subject>,
}

/// The role that a binding grants.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::auth) struct RoleRef {
    pub(in crate::auth) api_group: Box<str>,
    pub(in crate::auth) kind: Box<str>,
    pub(in crate::auth) name: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::auth) struct StoredBinding {
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

impl Bindings {
    /// Adds, replaces or removes a binding.
    pub(super) fn replace(&mut self, name: &str, new: Option<Binding>) {
        if let Some(old) = self.named.remove(name) {
            for subject in old.indexed() {
                let (index, subject) = self.index(&subject);
                remove_from_index(index, subject, name);
            }
        }
        let Some(new) = new.map(Arc::new) else { return };
        for subject in new.indexed() {
            let (index, subject) = self.index(&subject);
            let list = index.entry(subject.into()).or_default();
            let at = list.partition_point(|one| one.name < new.name);
            list.insert(at, Arc::clone(&new));
        }
        self.named.insert(name.into(), new);
    }

    fn index<'a>(&mut self, subject: &'a IndexedSubject) -> (&mut BindingIndex, &'a str) {
        match subject {
            IndexedSubject::User(name) => (&mut self.of_users, name),
            IndexedSubject::Group(name) => (&mut self.of_groups, name),
        }
    }

    /// Checks that a binding may be written without exceeding the limits of its namespace; returns why it may not.
    pub(super) fn check_room_for(&self, new: &Binding) -> Result<(), String> {
        if new.indexed().iter().any(|subject| !self.has_room_for_subject(subject, &new.name)) {
            return Err(format!(
                "a user, group or service account may be a subject of at most {BINDINGS_OF_SUBJECT_MAX} RoleBindings \
                 in a namespace; bind it to one role with all its rules instead"
            ));
        }
        let old = self.named.get(&new.name).map(|old| old.subjects.len()).unwrap_or_default();
        let all = self.named.values().map(|one| one.subjects.len()).sum::<usize>();
        if new.subjects.len() > old && all - old + new.subjects.len() > SUBJECTS_MAX {
            return Err(format!(
                "the RoleBindings of a namespace may have at most {SUBJECTS_MAX} subjects together; bind a group instead"
            ));
        }
        Ok(())
    }

    /// Returns whether the subject has few enough bindings to get this one, or has it already.
    fn has_room_for_subject(&self, subject: &IndexedSubject, binding: &str) -> bool {
        let of_subject = match subject {
            IndexedSubject::User(name) => self.of_users.get(name),
            IndexedSubject::Group(name) => self.of_groups.get(name),
        };
        let of_subject = of_subject.map(Vec::as_slice).unwrap_or_default();
        of_subject.len() < BINDINGS_OF_SUBJECT_MAX
            || of_subject.binary_search_by(|one| (*one.name).cmp(binding)).is_ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns the bindings that name the user or one of the user's groups.
    pub(super) fn for_user<'a>(&'a self, who: &'a Identity) -> impl Iterator<Item = &'a Binding> {
        let by_group = who.groups.iter().filter_map(|group| self.of_groups.get(&**group));
        self.of_users.get(&*who.name).into_iter().chain(by_group).flatten().map(|binding| &**binding)
    }
}

fn remove_from_index(index: &mut BindingIndex, subject: &str, binding: &str) {
    if let Some(list) = index.get_mut(subject) {
        list.retain(|one| &*one.name != binding);
        if list.is_empty() {
            index.remove(subject);
        }
    }
}

/// A subject, as it is looked up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum IndexedSubject {
    User(Box<str>),
    Group(Box<str>),
}

impl Subject {
    fn indexed(&self, binding_namespace: &str) -> Option<IndexedSubject> {
        match &*self.kind {
            "User" => Some(IndexedSubject::User(self.name.clone())),
            "Group" => Some(IndexedSubject::Group(self.name.clone())),
            "ServiceAccount" => {
                let namespace = self.account_namespace(binding_namespace);
                let user = || format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", self.name);
                (!namespace.is_empty()).then(|| IndexedSubject::User(user().into()))
            }
            _ => None,
        }
    }

    fn account_namespace<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    fn applies_to(&self, user: &str, groups: &HashSet<&str>, binding_namespace: &str) -> bool {
        match self.indexed(binding_namespace) {
            Some(IndexedSubject::User(name)) => *name == *user,
            Some(IndexedSubject::Group(name)) => groups.contains(&*name),
            None => false,
        }
    }

    fn shown(&self, binding_namespace: &str) -> String {
        if &*self.kind == "ServiceAccount" {
            let account = format!("{}/{}", self.name, self.account_namespace(binding_namespace));
            format!("{} {account:?}", self.kind)
        } else {
            format!("{} {:?}", self.kind, self.name)
        }
    }
}

impl Binding {
    pub(super) fn new(namespace: &str, name: &str, stored: StoredBinding) -> Self {
        let subjects = stored.subjects.unwrap_or_default();
        Self { namespace: namespace.into(), name: name.into(), role: stored.role_ref, subjects }
    }

    /// Returns its subjects, without duplicates.
    fn indexed(&self) -> BTreeSet<IndexedSubject> {
        self.subjects.iter().filter_map(|subject| subject.indexed(&self.namespace)).collect()
    }

    /// Returns a description such as `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
    pub(super) fn shown(&self, who: &Identity) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let groups = who.groups.iter().map(String::as_str).collect();
        let subject =
            self.subjects.iter().find(|subject| subject.applies_to(&who.name, &groups, &self.namespace));
        let subject = subject.map(|subject| subject.shown(&self.namespace)).unwrap_or_default();
        format!("{kind} {name:?} of {} {:?} to {subject}", self.role.kind, self.role.name)
    }
}
