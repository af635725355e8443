//! In-memory indexes with values: a function from an object to keys and values, asked by key. The keys are indexed by
//! the cache; the values are computed from the cached objects when somebody asks, so they are never out of date and
//! cost no memory.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::turn::Turn;
use crate::error::Error;
use crate::kind::{Kind, resource_of};

/// From an object to what it is found by and what is found.
type Values<T, Q, R> = Arc<dyn Fn(&T) -> Vec<(Q, R)> + Send + Sync>;

/// The value functions of the declared indexes, by the types of object, key and value.
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

impl<K: Kind> Turn<K> {
    /// Returns the values under this key in the index declared by [`Handlers::index`](super::Handlers::index), in order
    /// of the namespaces and names of the objects they come from.
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
