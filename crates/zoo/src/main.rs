//! `homeostat-zoo`: hunts every animal and its cured twin, and prints the results.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use homeostat_zoo::hunt::{Settings, hunt};
use homeostat_zoo::table::{HEAD, Row};
use homeostat_zoo::{ANIMALS, Animal};
use serde_json::{Value, json};

/// A schedule allocates and drops an operator and a server's responses: with the system's allocator, it takes a fifth
/// longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hunts reconcilers with known bugs, and their cured twins, with the simulator.
///
/// Fails if one is not found, or if a cured one raises an alarm.
#[derive(Parser)]
struct Arguments {
    /// Prints JSON: {"animals": [{"name", "found", "schedules", "seconds", "steps", "cured_alarms"}]}
    #[arg(long)]
    json: bool,
    /// Repeats the hunt with this many seeds and prints the worst case of each animal
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Begins with this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Hunts only animals with this in their name
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Tries this many schedules with each cured one (default: the simulator's own budget)
    #[arg(long, value_name = "N")]
    schedules: Option<u64>,
    /// Also prints the whole story of each finding
    #[arg(long)]
    tell: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let animals: Vec<&Animal> =
        ANIMALS.iter().filter(|animal| animal.name.contains(&arguments.only)).collect();
    if animals.is_empty() {
        eprintln!("no animal has \"{}\" in its name", arguments.only);
        return ExitCode::from(2);
    }
    if !arguments.json {
        print(HEAD);
    }
    let mut rows = Vec::new();
    for animal in animals {
        let row = hunt_with_all_seeds(animal, &arguments);
        tell(&row, &arguments);
        rows.push(row);
    }
    if arguments.json {
        let entries: Vec<Value> = rows.iter().map(Row::entry).collect();
        print(&json!({"animals": entries}).to_string());
    } else {
        print(&summary(&rows));
    }
    if rows.iter().all(Row::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn hunt_with_all_seeds(animal: &Animal, arguments: &Arguments) -> Row {
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.seeds.max(1));
    let settings = seeds.map(|seed| {
        let settings = Settings::with_seed(seed);
        arguments.schedules.map_or(settings, |schedules| settings.cured_schedules(schedules))
    });
    Row::new(settings.map(|settings| hunt(animal, settings)).collect())
}

/// Prints the line of an animal as soon as it is known. Stories go to the stream that does not carry JSON.
fn tell(row: &Row, arguments: &Arguments) {
    if !arguments.json {
        print(&row.line());
    }
    if arguments.tell {
        row.findings().for_each(|story| eprintln!("{story}"));
    }
    row.false_alarms().for_each(|story| eprintln!("a false alarm:\n{story}"));
}

fn summary(rows: &[Row]) -> String {
    let good = rows.iter().filter(|row| row.is_good()).count();
    let mut seconds: Vec<f64> = rows.iter().map(Row::seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    format!("{good} of {} found without a false alarm; median {median:.2} s to find", rows.len())
}

/// Prints a line. If the pipe is closed, the remaining output is not needed.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
