//! Shows a PostgreSQL database, if PostgreSQL is installed. If not, the status says what to install, and the demo
//! continues.

use std::path::PathBuf;

use homeostat::kube::api::DeleteParams;
use homeostat::prelude::*;
use homeostat_example_database::Database;
use serde_json::{Value, json};

use super::workloads::{is_ready, kill, pid_of};
use crate::demo::demo_run::{DemoRun, json};
use crate::demo::psql::{self, DatabaseLogin};
use crate::demo::timeline::LineKind;

const NAME: &str = "orders";
const WHO: &str = "Database/orders";
const POD: &str = "orders-0";

/// A database that responds.
pub(super) struct ReadyDatabase {
    psql: Option<PathBuf>,
    login: DatabaseLogin,
}

pub(super) async fn request_objects(run: &mut DemoRun<'_>) {
    let spec = json!({"databaseName": NAME, "username": NAME, "maxConnections": 20});
    run.apply::<Database>(NAME, "a PostgreSQL with a database orders", json!({ "spec": spec })).await;
}

/// Waits until the database is ready, or reports that PostgreSQL is not installed.
pub(super) async fn wait_until_ready(run: &mut DemoRun<'_>) -> Option<ReadyDatabase> {
    let databases = run.environment.api::<Database>();
    let is_open = run
        .wait_until(WHO, "its status is settled", || async {
            let status = databases.get(NAME).await.ok()?.status?;
            let reason = &status.base.conditions.iter().find(|condition| condition.type_ == "Ready")?.reason;
            if status.ready { Some(true) } else { (reason == "PostgresNotInstalled").then_some(false) }
        })
        .await?;
    if !is_open {
        run.timeline.line(LineKind::Seen, WHO, "PostgreSQL is not installed, so this part is skipped");
        return None;
    }
    let open = open_database(run).await?;
    let sql = "CREATE TABLE fruit (name text); INSERT INTO fruit VALUES ('apple'), ('pear'); SELECT count(*) FROM fruit";
    query(run, &open, sql, "it has a table now").await;
    Some(open)
}

pub(super) async fn break_and_wait(run: &mut DemoRun<'_>, open: Option<&ReadyDatabase>) {
    run.note_broken("StatefulSet/orders", "the StatefulSet is deleted");
    let before = stateful_set_uid(run).await;
    let deleted = run.environment.api::<StatefulSet>().delete(NAME, &DeleteParams::background()).await;
    run.note_result(WHO, deleted.map(drop));
    let sets = run.environment.api::<StatefulSet>();
    run.wait_until("StatefulSet/orders", "it exists again", || async {
        let set = sets.get_opt(NAME).await.ok()??;
        (set.metadata.uid != before && set.metadata.deletion_timestamp.is_none()).then_some(())
    })
    .await;
    let Some(open) = open else { return };
    let Some(old) = ready_pod(run, None).await else { return };
    run.note_broken("Pod/orders-0", "PostgreSQL is killed with -9");
    let killed = kill(pid_of(&old));
    run.note_result(WHO, killed);
    ready_pod(run, pid_of(&old)).await;
    query(run, open, "SELECT count(*) FROM fruit", "it has recovered, with all its data").await;
}

async fn stateful_set_uid(run: &DemoRun<'_>) -> Option<String> {
    run.environment.api::<StatefulSet>().get_opt(NAME).await.ok()??.metadata.uid
}

/// Returns the Pod once it is ready with a different process from the old one.
async fn ready_pod(run: &mut DemoRun<'_>, old: Option<i32>) -> Option<Value> {
    let pods = run.environment.api::<Pod>();
    run.wait_until("Pod/orders-0", "PostgreSQL is running", || async {
        let pod = json(&pods.get_opt(POD).await.ok()??);
        (is_ready(&pod) && pid_of(&pod) != old).then_some(pod)
    })
    .await
}

async fn open_database(run: &mut DemoRun<'_>) -> Option<ReadyDatabase> {
    let secret = run.environment.api::<Secret>().get("orders-credentials").await.ok()?;
    let password = String::from_utf8(secret.data?.remove("password")?.0).ok()?;
    Some(ReadyDatabase {
        psql: psql::find_program(),
        login: DatabaseLogin { name: NAME.to_owned(), password },
    })
}

/// Queries until the database responds: one that was just killed may take a moment longer than its probe.
async fn query(run: &mut DemoRun<'_>, open: &ReadyDatabase, sql: &str, words: &str) {
    let Some(program) = &open.psql else {
        run.timeline.line(LineKind::Seen, WHO, "psql is not installed, so it is not queried");
        return;
    };
    run.timeline.line(LineKind::Did, WHO, &format!("psql: {sql}"));
    let databases = run.environment.api::<Database>();
    run.wait_until(WHO, words, || async {
        // A new Pod has a new address.
        let endpoint = databases.get(NAME).await.ok()?.status?.endpoint?;
        let answer = psql::query(program, &endpoint, &open.login, sql).await.ok()?;
        (answer == "2").then_some(())
    })
    .await;
}
