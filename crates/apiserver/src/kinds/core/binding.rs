//! Binding: where a Pod is to run; posting one binds the Pod and stores nothing.

use crate::kinds::declaration::{Kind, Post};

/// Where a Pod is to run; posting one binds the Pod and stores nothing.
pub(crate) static BINDING: Kind =
    Kind { verbs: &["create"], post: Post::BindPod, ..Kind::namespaced("", "v1", "bindings", "Binding") };
