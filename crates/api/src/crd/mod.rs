//! CustomResourceDefinitions add rows to the registry ([`rows`]), must have names that are free ([`TakenNames`]) and
//! report conditions in their status ([`accept_names`]).

mod conditions;
mod names;
mod row;

pub use conditions::{accept_names, condition_is, mark_emptied, mark_emptying};
pub use names::TakenNames;
pub use row::{bare_row, rows};

use crate::kinds::apiextensions::custom_resource_definition::CUSTOM_RESOURCE_DEFINITION;
use crate::storage_identity::ResourceIdentity;

/// Where definitions are stored.
pub const STORAGE: ResourceIdentity<'static> = CUSTOM_RESOURCE_DEFINITION.storage();
