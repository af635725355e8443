//! What is committed as data, compared with where it comes from.

mod built_in_schemas;
