//! Binding: assigns a Pod to a node; posting one binds the Pod and stores nothing.

use crate::resource::declaration::{BuiltInKind, PostAction};

/// Assigns a Pod to a node; posting one binds the Pod and stores nothing.
pub(crate) static BINDING: BuiltInKind = BuiltInKind {
    verbs: &["create"],
    post: PostAction::BindPod,
    ..BuiltInKind::namespaced("", "v1", "bindings", "Binding")
};
