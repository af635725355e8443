//! What a check counted: a subject, how much there is of it, and how much there may be.
//!
//! Checks that count (`sizes`, `type_names`, `module_cycles`) return measures. The ratchet grants exceptions to them, and
//! [`super::ratchet::Ratchet::check`] turns the rest into problems.

/// Something that was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    /// What the ratchet calls it: `path` for a file, `path::name` for a function, `package type Name` for a type name.
    pub(crate) subject: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) amount: usize,
    pub(crate) amount_max: usize,
    /// What is counted, in the plural.
    pub(crate) unit: &'static str,
    /// What to do when it is too much.
    pub(crate) fix: String,
}
