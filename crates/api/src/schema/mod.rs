//! Provides one structural schema for built-in and custom kinds.
//!
//! Strict decoding, pruning, defaulting, validation, strategic merge and server-side apply all use this one
//! structure. Built-in types come from the typed API crate with merge facts added; custom ones from their definition.

mod always_written;
pub mod built_in;
mod cel;
mod constraints;
mod convert;
mod custom;
pub mod default;
mod definition;
mod embedded;
mod facts;
mod formats;
mod list_type;
mod model;
mod pattern;
mod time;
mod type_lines;
mod typecheck;
mod unknown;
pub mod validate;

pub use always_written::add_always_written;
pub use built_in::{built_in, built_in_type, object_meta, raw, raw_all, type_name};
pub use cel::{
    AdmissionScope, AuthorizationAnswer, AuthorizationQuestion, AuthorizationTarget, CelAuthorizer, CelData,
    CelExpression, CelFailure, CelResultType, CelRules, CheckedKind, ExpressionWarning, ParameterSchema,
    ResourceTarget, expression_warnings, rule_errors as cel_rule_errors,
};
pub use constraints::ValueConstraints;
pub use custom::custom;
pub use default::{TooLarge, default, drop_nulls};
pub use definition::{default_definition, definition_warnings, store_version, validate_definition};
pub use embedded::{decode_embedded, repair_embedded};
pub use model::{
    IntegerWidth, ListType, MergeRules, NamedSchema, ObjectSchema, PatchStrategy, Presence, Property, Schema,
    SchemaRef, SchemaType,
};
pub use typecheck::{cannot_be_handled, decode, decode_metadata, restore};
pub use unknown::prune;
pub use validate::{validate, validate_status};

#[cfg(test)]
mod random_value_tests;
