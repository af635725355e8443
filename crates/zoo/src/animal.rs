//! What an animal is: a reconciler with a bug, and the same one cured, in one scenario.

use homeostat::sim::Simulation;

/// A reconciler with a bug that real operators had, and its cured twin. The simulator is told neither what the bug is nor
/// where it is.
#[derive(Clone, Copy, Debug)]
pub struct Animal {
    /// Says what the bug is.
    pub name: &'static str,
    /// Makes the simulation in which the bug is to be found.
    pub broken: fn() -> Simulation,
    /// Makes the same simulation of the cured reconciler, in which nothing may be found.
    pub cured: fn() -> Simulation,
}
