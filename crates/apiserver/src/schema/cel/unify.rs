//! What the checker knows of type variables, and whether one type can stand for another.
//!
//! Trying writes into the bindings; a failed try takes its writes back, so nothing is copied. The rules are cel-go's:
//! `dyn` stands for everything, null for objects, times and library types, and of two types that agree the more
//! general one is kept.

use std::sync::Arc;

use super::types::Type;

/// The variables bound so far.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// What each write replaced, newest last.
    undo: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Variable(self.bound.len() - 1)
    }

    /// Whether every left type can stand where its right one is wanted. Binds variables when so.
    pub(super) fn try_assign_all<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a Type, &'a Type)>,
    ) -> bool {
        let mark = self.undo.len();
        let fits = pairs.into_iter().all(|(left, right)| self.assign(left, right));
        if !fits {
            for (at, before) in self.undo.drain(mark..).rev() {
                self.bound[at] = before;
            }
        }
        fits
    }

    pub(super) fn try_assign(&mut self, left: &Type, right: &Type) -> bool {
        self.try_assign_all([(left, right)])
    }

    fn assign(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Variable(at) = right {
            match self.stand_for(*at, left) {
                Standing::Fits => return true,
                Standing::Conflict => return false,
                Standing::Within => {}
            }
        }
        if let Type::Variable(at) = left {
            return matches!(self.stand_for(*at, right), Standing::Fits);
        }
        match (left, right) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) | (Type::Meta(_), Type::Meta(_)) => {
                true
            }
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
                self.assign(left, right)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.assign(key, other_key) && self.assign(value, other_value)
            }
            _ => same(left, right),
        }
    }

    fn stand_for(&mut self, variable: usize, other: &Type) -> Standing {
        if matches!(other, Type::Variable(at) if *at == variable) {
            return Standing::Fits;
        }
        if let Some(bound) = self.bound[variable].clone() {
            if !self.assign(other, &bound) {
                return Standing::Conflict;
            }
            let general = if is_less_specific(other, &bound) { other.clone() } else { bound };
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return Standing::Fits;
        }
        if self.occurs(variable, other) {
            return Standing::Within;
        }
        self.bind(variable, other.clone());
        Standing::Fits
    }

    fn bind(&mut self, variable: usize, to: Type) {
        let before = self.bound[variable].replace(to);
        self.undo.push((variable, before));
    }

    fn occurs(&self, variable: usize, within: &Type) -> bool {
        match within {
            Type::Variable(at) if *at == variable => true,
            Type::Variable(at) => self.bound[*at].as_ref().is_some_and(|bound| self.occurs(variable, bound)),
            Type::List(of) | Type::Optional(of) | Type::Meta(of) => self.occurs(variable, of),
            Type::Map(key, value) => self.occurs(variable, key) || self.occurs(variable, value),
            _ => false,
        }
    }

    /// The type with what is known of its variables put in.
    pub(super) fn resolve(&self, kind: &Type) -> Type {
        let inner = |of: &Arc<Type>| Arc::new(self.resolve(of));
        match kind {
            Type::Variable(at) => {
                self.bound[*at].as_ref().map_or_else(|| kind.clone(), |bound| self.resolve(bound))
            }
            Type::List(of) => Type::List(inner(of)),
            Type::Optional(of) => Type::Optional(inner(of)),
            Type::Meta(of) => Type::Meta(inner(of)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// The same, with `dyn` for what is still open.
    pub(super) fn resolve_fully(&self, kind: &Type) -> Type {
        close(self.resolve(kind))
    }
}

fn close(kind: Type) -> Type {
    let inner = |of: &Arc<Type>| Arc::new(close(Type::clone(of)));
    match kind {
        Type::Variable(_) => Type::Dyn,
        Type::List(of) => Type::List(inner(&of)),
        Type::Optional(of) => Type::Optional(inner(&of)),
        Type::Meta(of) => Type::Meta(inner(&of)),
        Type::Map(key, value) => Type::Map(inner(&key), inner(&value)),
        other => other,
    }
}

enum Standing {
    Fits,
    Conflict,
    /// The variable is part of the other type.
    Within,
}

/// The more general of two types that agree.
pub(super) fn most_general(left: Type, right: Type) -> Type {
    if is_less_specific(&left, &right) { left } else { right }
}

fn is_less_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Variable(_), _) | (Type::Meta(_), Type::Meta(_)) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
            is_less_specific(left, right)
        }
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_less_specific(key, other_key) && is_less_specific(value, other_value)
        }
        _ => same(left, right),
    }
}

/// Whether two types are the same one.
pub(super) fn same(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Object(left), Type::Object(right)) => Arc::ptr_eq(left, right),
        (Type::Library(left), Type::Library(right)) => left == right,
        (Type::Variable(left), Type::Variable(right)) => left == right,
        (Type::List(left), Type::List(right))
        | (Type::Optional(left), Type::Optional(right))
        | (Type::Meta(left), Type::Meta(right)) => same(left, right),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            same(key, other_key) && same(value, other_value)
        }
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

fn is_nullable(kind: &Type) -> bool {
    matches!(
        kind,
        Type::Null
            | Type::Object(_)
            | Type::Library(_)
            | Type::Optional(_)
            | Type::Timestamp
            | Type::Duration
    )
}
