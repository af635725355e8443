//! Hunts an animal: the broken one with the default budget, then its cured twin.

use homeostat::sim::{Budget, Failure};

use crate::animal::Animal;

/// Effectively no limit on real time, for when a number of schedules was requested.
const NO_LIMIT_SECONDS: u64 = 3600;

/// The settings of a hunt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The random seed.
    pub seed: u64,
    /// The budget for the broken one.
    pub broken: Budget,
    /// The budget for the cured one.
    pub cured: Budget,
}

impl Settings {
    /// Returns settings with the simulator's default budget for both.
    pub fn with_seed(seed: u64) -> Self {
        Self { seed, broken: Budget::default(), cured: Budget::default() }
    }

    /// Tries this many schedules with the cured one, no matter how long they take.
    #[must_use]
    pub fn cured_schedules(self, schedules: u64) -> Self {
        Self { cured: Budget { schedules, seconds: NO_LIMIT_SECONDS }, ..self }
    }
}

/// The result of one hunt.
#[derive(Clone, Debug)]
pub struct HuntResult {
    /// The animal.
    pub name: &'static str,
    /// The random seed.
    pub seed: u64,
    /// The simulator's report on the broken one.
    pub failure: Option<Failure>,
    /// The number of schedules until the bug was found or the hunt was abandoned.
    pub schedules: u64,
    /// The real seconds until then, including shrinking the failure.
    pub seconds: f64,
    /// The simulator's report on the cured one: a false alarm.
    pub alarm: Option<Failure>,
    /// The number of schedules that the cured one survived.
    pub cured_schedules: u64,
    /// The real seconds spent on the cured one.
    pub cured_seconds: f64,
}

impl HuntResult {
    /// Returns the number of steps in the shrunk trace.
    pub fn steps(&self) -> usize {
        self.failure.as_ref().map_or(0, Failure::steps)
    }

    /// Returns whether the bug was found and the cured one passed.
    pub fn is_good(&self) -> bool {
        self.failure.is_some() && self.alarm.is_none()
    }
}

/// Hunts an animal, then its cured twin.
pub fn hunt(animal: &Animal, settings: Settings) -> HuntResult {
    let name = animal.name;
    let broken = (animal.broken)().named(name).seed(settings.seed).budget(settings.broken).explore();
    let cured = (animal.cured)()
        .named(format!("{name} (cured)"))
        .seed(settings.seed)
        .budget(settings.cured)
        .explore();
    HuntResult {
        name,
        seed: settings.seed,
        failure: broken.failure,
        schedules: broken.schedules,
        seconds: broken.seconds,
        alarm: cured.failure,
        cured_schedules: cured.schedules,
        cured_seconds: cured.seconds,
    }
}
