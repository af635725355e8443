//! CustomResourceDefinitions: the rows they add ([`rows`]), the names they may have ([`names`]) and their life cycle
//! ([`lifecycle`]).

mod lifecycle;
mod names;
mod row;

pub(crate) use lifecycle::{
    CLEANUP_FINALIZER, establish, mark_deleted, mark_emptied, mark_emptying, reconsider_names, set_condition,
};
pub(crate) use row::rows;

use crate::storage::Storage;

/// The group of definitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
/// The resource of definitions.
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// Where definitions are kept.
pub(crate) const STORAGE: Storage<'static> = Storage::BuiltIn(GROUP, PLURAL);
