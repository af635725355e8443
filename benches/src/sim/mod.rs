//! Measures the simulator: schedules per second of processor time on the cured reconcilers of the zoo, and how that
//! changes with the number of the user's steps. It uses processor time, because the machine's other work does not
//! affect it; the result is the rate of one otherwise idle core.

mod pages;

use clap::Args;
use homeostat_sim::{Budget, Simulation};
use homeostat_zoo::ANIMALS;

use crate::figure::{Figure, FigureTarget, print};

/// The median rate that a core must reach with the reconcilers of the zoo.
const RATE_MIN: f64 = 1_000.0;

const RATE: &str = "schedules/s and core";

/// The numbers of steps that the user takes.
const STEPS: [usize; 5] = [1, 2, 4, 8, 16];

/// How much to measure, and how to print the result.
#[derive(Args)]
pub(crate) struct SimOptions {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Schedules of each reconciler
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    schedules: u64,
    /// Only reconcilers of the zoo with this in their name
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

pub(crate) async fn run(options: SimOptions) -> Result<(), Box<dyn std::error::Error>> {
    let as_json = options.json;
    // Every schedule has its own runtime, and runtimes cannot be nested.
    let figures = tokio::task::spawn_blocking(move || measure(&options)).await??;
    print(&figures, as_json)?;
    Ok(())
}

fn measure(options: &SimOptions) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    let mut rates = Vec::new();
    for animal in ANIMALS.iter().filter(|animal| animal.name.contains(&options.only)) {
        let measured = schedules_per_second((animal.cured)().named(animal.name), options.schedules)?;
        rates.push(measured);
        figures.push(Figure::new(animal.name, measured, RATE));
    }
    rates.sort_by(f64::total_cmp);
    if let Some(median) = rates.get(rates.len() / 2) {
        let median = Figure::new("median of the zoo", *median, RATE);
        figures.push(median.target(FigureTarget::AtLeast(RATE_MIN)));
    }
    for steps in STEPS {
        let measured = schedules_per_second(pages::simulation(steps), options.schedules)?;
        figures.push(Figure::new(format!("one page, {steps} step(s)"), measured, RATE));
    }
    Ok(figures)
}

/// Returns the number of schedules per second of processor time, including all overhead.
fn schedules_per_second(simulation: Simulation, schedules: u64) -> Result<f64, String> {
    let before = processor_seconds()?;
    let outcome = simulation.budget(Budget { schedules, seconds: 3600 }).explore();
    let seconds = processor_seconds()? - before;
    if let Some(failure) = outcome.failure {
        return Err(failure.report);
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let rate = outcome.schedules as f64 / seconds;
    Ok(rate)
}

/// Returns the processor time of this process so far in seconds, with a resolution of a hundredth.
pub(crate) fn processor_seconds() -> Result<f64, String> {
    crate::server::process::processor_seconds_of("self").map_err(|error| error.to_string())
}
