//! An animal is a reconciler with a bug and its cured twin, in the same scenario.

use homeostat::sim::Simulation;

/// A reconciler with a bug found in real operators, and its cured twin. The simulator knows neither what the bug is nor
/// where it is.
#[derive(Clone, Copy, Debug)]
pub struct Animal {
    /// Describes the bug.
    pub name: &'static str,
    /// Returns the simulation in which the bug should be found.
    pub broken: fn() -> Simulation,
    /// Returns the same simulation of the cured reconciler, in which nothing must be found.
    pub cured: fn() -> Simulation,
}
