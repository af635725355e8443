//! Implements the `plan` command of operators and of `homeostat`: reads the files, computes the plan, prints it, and
//! chooses the exit code.

use std::io::{IsTerminal as _, Read as _, Write as _};

use futures::future::BoxFuture;
use homeostat_core::terminal_text::escape_controls;
use homeostat_runtime::plan_command::PlanOptions;
use homeostat_runtime::{Error, Operator};
use kube::Client;

use super::change::Change;
use super::error::PlanError;
use super::render::{RenderStyle, render};
use super::report::Plan;
use super::{PlanSettings, plan};

/// The outcome of a printed plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutcome {
    /// Nothing would change.
    Nothing,
    /// Something would change.
    Changes,
}

impl PlanOutcome {
    /// Returns the exit code of the command: 0 if nothing would change, 2 if something would. Errors have code 1.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Changes => 2,
        }
    }
}

/// Prints what a change would do to a cluster's built-in workloads.
///
/// # Errors
/// Returns why there is no plan, or that it would delete too much.
pub fn plan_workloads(
    client: Client,
    options: PlanOptions,
) -> BoxFuture<'static, Result<PlanOutcome, PlanError>> {
    Box::pin(print_plan(client, homeostat_workloads::controllers::operator_without_nodes(), options))
}

/// Prints what a change would do to an operator's cluster, and exits the process with code 2 if something would change.
pub fn plan_operator(
    operator: Operator,
    client: Client,
    options: PlanOptions,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let outcome = print_plan(client, operator, options).await;
        match outcome.map_err(|error| Error::Invalid(escape_controls(&error.to_string())))? {
            PlanOutcome::Nothing => Ok(()),
            PlanOutcome::Changes => exit(PlanOutcome::Changes),
        }
    })
}

#[expect(clippy::exit, reason = "a main that returns a Result can only end with 0 or 1")]
fn exit(outcome: PlanOutcome) -> ! {
    std::process::exit(i32::from(outcome.exit_code()))
}

async fn print_plan(
    client: Client,
    operator: Operator,
    options: PlanOptions,
) -> Result<PlanOutcome, PlanError> {
    let mut objects = Vec::new();
    for file in &options.files {
        objects.extend(Change::parse(file, &read_file(file)?)?);
    }
    let change = if options.is_delete { Change::delete(objects) } else { Change::apply(objects) };
    let settings = PlanSettings { namespace: options.namespace.clone(), ..PlanSettings::default() };
    let plan = plan(client, operator, change, settings).await?;
    print(&plan, options.json)?;
    check_deletes(&plan, options.deletes_max)?;
    Ok(if plan.is_empty() { PlanOutcome::Nothing } else { PlanOutcome::Changes })
}

fn read_file(path: &str) -> Result<String, PlanError> {
    let read = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|source| PlanError::File { path: path.to_owned(), source })
}

fn print(plan: &Plan, is_json: bool) -> Result<(), PlanError> {
    let text = if is_json {
        serde_json::to_string_pretty(plan).map_err(|error| PlanError::Change(error.to_string()))? + "\n"
    } else {
        render(plan, chosen_style())
    };
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|source| PlanError::File { path: "stdout".to_owned(), source })
}

/// Returns the style: coloured on a terminal, unless the user opts out (<https://no-color.org>).
fn chosen_style() -> RenderStyle {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !is_unwanted { RenderStyle::Coloured } else { RenderStyle::Plain }
}

fn check_deletes(plan: &Plan, allowed: Option<usize>) -> Result<(), PlanError> {
    let count = plan.deletes();
    match allowed {
        Some(allowed) if count > allowed => {
            let deletes = if count == 1 { "1 object".to_owned() } else { format!("{count} objects") };
            Err(PlanError::TooManyDeletes { deletes, allowed })
        }
        _ => Ok(()),
    }
}
