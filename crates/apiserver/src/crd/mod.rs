//! CustomResourceDefinitions: the rows they add ([`rows`]), the names they may have ([`names`]) and their life cycle
//! ([`lifecycle`]).

mod lifecycle;
mod names;
mod row;

pub(crate) use lifecycle::{establish, mark_emptied, mark_emptying, reconsider_names};
pub(crate) use row::rows;

use crate::kinds::apiextensions::custom_resource_definition::CUSTOM_RESOURCE_DEFINITION;
use crate::storage::Storage;

/// Where definitions are kept.
pub(crate) const STORAGE: Storage<'static> = CUSTOM_RESOURCE_DEFINITION.storage();
