//! Compares committed data with its source.

mod built_in_schemas;
