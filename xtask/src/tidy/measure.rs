//! The result of a check that counts: a subject, its amount, and the limit.
//!
//! Checks that count (`sizes`, `type_names`, `module_cycles`) return measures. The ratchet grants exceptions to them,
//! and [`super::ratchet::Ratchet::check`] turns the rest into problems.

/// Something that was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Its name in the ratchet: `path` for a file, `path::name` for a function, `package type Name` for a type name.
    pub(crate) subject: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) amount: usize,
    pub(crate) amount_max: usize,
    /// What is counted, in the plural.
    pub(crate) unit: &'static str,
    /// What to do if it is too much.
    pub(crate) fix: String,
}
