//! Binds type variables, and decides whether one type can be used for another.
//!
//! Unification writes into the bindings; a failed attempt undoes its writes, so nothing is copied. The rules are
//! cel-go's: `dyn` matches everything, null matches objects, times and library types, and the more general of two
//! compatible types is kept.

use std::sync::Arc;

use super::types::CelType;

/// The type variables bound so far.
#[derive(Debug, Default)]
pub(super) struct TypeBindings {
    bound: Vec<Option<CelType>>,
    /// The value that each write replaced, newest last.
    undo: Vec<(usize, Option<CelType>)>,
}

impl TypeBindings {
    pub(super) fn fresh(&mut self) -> CelType {
        self.bound.push(None);
        CelType::Variable(self.bound.len() - 1)
    }

    /// Returns whether every left type can be used where its right type is wanted. Binds variables if so.
    pub(super) fn try_assign_all<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a CelType, &'a CelType)>,
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

    pub(super) fn try_assign(&mut self, left: &CelType, right: &CelType) -> bool {
        self.try_assign_all([(left, right)])
    }

    fn assign(&mut self, left: &CelType, right: &CelType) -> bool {
        if let CelType::Variable(at) = right {
            match self.stand_for(*at, left) {
                BindingOutcome::Fits => return true,
                BindingOutcome::Conflict => return false,
                BindingOutcome::Within => {}
            }
        }
        if let CelType::Variable(at) = left {
            return matches!(self.stand_for(*at, right), BindingOutcome::Fits);
        }
        match (left, right) {
            (CelType::Dyn | CelType::Error, _)
            | (_, CelType::Dyn | CelType::Error)
            | (CelType::Meta(_), CelType::Meta(_)) => true,
            (CelType::Null, other) | (other, CelType::Null) => is_nullable(other),
            (CelType::List(left), CelType::List(right))
            | (CelType::Optional(left), CelType::Optional(right)) => self.assign(left, right),
            (CelType::Map(key, value), CelType::Map(other_key, other_value)) => {
                self.assign(key, other_key) && self.assign(value, other_value)
            }
            _ => same(left, right),
        }
    }

    fn stand_for(&mut self, variable: usize, other: &CelType) -> BindingOutcome {
        if matches!(other, CelType::Variable(at) if *at == variable) {
            return BindingOutcome::Fits;
        }
        if let Some(bound) = self.bound[variable].clone() {
            if !self.assign(other, &bound) {
                return BindingOutcome::Conflict;
            }
            let general = if is_less_specific(other, &bound) { other.clone() } else { bound };
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return BindingOutcome::Fits;
        }
        if self.occurs(variable, other) {
            return BindingOutcome::Within;
        }
        self.bind(variable, other.clone());
        BindingOutcome::Fits
    }

    fn bind(&mut self, variable: usize, to: CelType) {
        let before = self.bound[variable].replace(to);
        self.undo.push((variable, before));
    }

    fn occurs(&self, variable: usize, within: &CelType) -> bool {
        match within {
            CelType::Variable(at) if *at == variable => true,
            CelType::Variable(at) => {
                self.bound[*at].as_ref().is_some_and(|bound| self.occurs(variable, bound))
            }
            CelType::List(of) | CelType::Optional(of) | CelType::Meta(of) => self.occurs(variable, of),
            CelType::Map(key, value) => self.occurs(variable, key) || self.occurs(variable, value),
            _ => false,
        }
    }

    /// Returns the type with the known variables substituted.
    pub(super) fn resolve(&self, kind: &CelType) -> CelType {
        let inner = |of: &Arc<CelType>| Arc::new(self.resolve(of));
        match kind {
            CelType::Variable(at) => {
                self.bound[*at].as_ref().map_or_else(|| kind.clone(), |bound| self.resolve(bound))
            }
            CelType::List(of) => CelType::List(inner(of)),
            CelType::Optional(of) => CelType::Optional(inner(of)),
            CelType::Meta(of) => CelType::Meta(inner(of)),
            CelType::Map(key, value) => CelType::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// Returns the type with all variables substituted, `dyn` for unbound ones.
    pub(super) fn resolve_fully(&self, kind: &CelType) -> CelType {
        close(self.resolve(kind))
    }
}

fn close(kind: CelType) -> CelType {
    let inner = |of: &Arc<CelType>| Arc::new(close(CelType::clone(of)));
    match kind {
        CelType::Variable(_) => CelType::Dyn,
        CelType::List(of) => CelType::List(inner(&of)),
        CelType::Optional(of) => CelType::Optional(inner(&of)),
        CelType::Meta(of) => CelType::Meta(inner(&of)),
        CelType::Map(key, value) => CelType::Map(inner(&key), inner(&value)),
        other => other,
    }
}

enum BindingOutcome {
    Fits,
    Conflict,
    /// The variable is part of the other type.
    Within,
}

/// Returns the more general of two compatible types.
pub(super) fn most_general(left: CelType, right: CelType) -> CelType {
    if is_less_specific(&left, &right) { left } else { right }
}

fn is_less_specific(left: &CelType, right: &CelType) -> bool {
    match (left, right) {
        (CelType::Dyn | CelType::Variable(_), _) | (CelType::Meta(_), CelType::Meta(_)) => true,
        (_, CelType::Dyn | CelType::Variable(_)) => false,
        (CelType::List(left), CelType::List(right)) | (CelType::Optional(left), CelType::Optional(right)) => {
            is_less_specific(left, right)
        }
        (CelType::Map(key, value), CelType::Map(other_key, other_value)) => {
            is_less_specific(key, other_key) && is_less_specific(value, other_value)
        }
        _ => same(left, right),
    }
}

/// Returns whether two types are the same.
pub(super) fn same(left: &CelType, right: &CelType) -> bool {
    match (left, right) {
        (CelType::Object(left), CelType::Object(right)) => Arc::ptr_eq(left, right),
        (CelType::Library(left), CelType::Library(right)) => left == right,
        (CelType::Variable(left), CelType::Variable(right)) => left == right,
        (CelType::List(left), CelType::List(right))
        | (CelType::Optional(left), CelType::Optional(right))
        | (CelType::Meta(left), CelType::Meta(right)) => same(left, right),
        (CelType::Map(key, value), CelType::Map(other_key, other_value)) => {
            same(key, other_key) && same(value, other_value)
        }
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

fn is_nullable(kind: &CelType) -> bool {
    matches!(
        kind,
        CelType::Null
            | CelType::Object(_)
            | CelType::Library(_)
            | CelType::Optional(_)
            | CelType::Timestamp
            | CelType::Duration
    )
}
