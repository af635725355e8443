//! What an object of a kind may look like: one structural schema for built-in kinds and custom ones.
//!
//! Strict decoding, pruning, defaulting, validation, strategic merge and server-side apply all walk this one
//! structure. Built-in types come from the typed API crate with the merge facts added; custom ones from their
//! definition.

mod always_written;
mod built_in;
mod cel;
mod convert;
mod custom;
mod default;
mod definition;
mod embedded;
mod facts;
mod formats;
mod list_type;
mod node;
mod pattern;
mod roots;
mod rules;
mod time;
mod typecheck;
mod unknown;
mod validate;

pub use always_written::add_always_written;
pub use built_in::{built_in, built_in_type, object_meta, raw, raw_all, type_name};
pub use cel::{Cel, faults as cel_faults};
pub use custom::custom;
pub use default::{TooLarge, default, drop_nulls};
pub use definition::{default_definition, definition_warnings, store_version, validate_definition};
pub use embedded::{decode_embedded, repair_embedded};
pub use node::{
    Integer, Kind, ListType, Merge, Named, Object, PatchStrategy, Presence, Property, Ref, Schema,
};
pub use rules::Rules;
pub use typecheck::{cannot_be_handled, decode, decode_metadata, restore};
pub use unknown::prune;
pub use validate::{validate, validate_status};

#[cfg(test)]
mod chaos;
