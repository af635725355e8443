//! Maintains in-memory indexes with values: a function maps each object to keys and values, and lookups are by key. The
//! cache indexes the keys; the values are computed from the cached objects at each lookup, so they are never outdated
//! and need no memory.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::handler_context::HandlerContext;
use crate::error::Error;
use crate::kind::{Kind, resource_of};

/// Maps an object to its index keys and values.
type Values<T, Q, R> = Arc<dyn Fn(&T) -> Vec<(Q, R)> + Send + Sync>;

/// The value functions of the declared indexes, by their object, key and value types.
#[derive(Clone, Default)]
pub(super) struct Lookups(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Lookups {
    pub(super) fn insert<T: Kind, Q: 'static, R: 'static>(&mut self, values: Values<T, Q, R>) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<(T, Q, R)>(), Arc::new(values));
    }

    fn get<T: Kind, Q: 'static, R: 'static>(&self) -> Option<&Values<T, Q, R>> {
        self.0.get(&TypeId::of::<(T, Q, R)>())?.downcast_ref()
    }
}

impl<K: Kind> HandlerContext<K> {
    /// Returns the values for this key in the index declared by [`Handlers::index`](super::Handlers::index), ordered by
    /// the namespaces and names of their objects.
    pub fn lookup<T: Kind, Q, R>(&self, key: &Q) -> Result<Vec<R>, Error>
    where
        Q: Hash + Eq + Send + Sync + 'static,
        R: 'static,
    {
        let values = self.lookups().get::<T, Q, R>().ok_or_else(|| Error::NotDeclared {
            resource: format!(
                "{} from {} to {}",
                resource_of::<T>(),
                std::any::type_name::<Q>(),
                std::any::type_name::<R>()
            ),
        })?;
        let objects = self.indexed::<T, Q>(key)?;
        let found = objects.iter().flat_map(|object| values(object));
        Ok(found.filter(|(other, _)| other == key).map(|(_, value)| value).collect())
    }
}
