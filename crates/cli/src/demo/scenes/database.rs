//! A PostgreSQL, where it is installed; where it is not, the status says what to install and the demo goes on.

use std::path::PathBuf;

use homeostat::kube::api::DeleteParams;
use homeostat::prelude::*;
use homeostat_example_database::Database;
use serde_json::{Value, json};

use super::workloads::{is_ready, kill, pid_of};
use crate::demo::board::Mark;
use crate::demo::play::{Play, json};
use crate::demo::psql::{self, Login};

const NAME: &str = "orders";
const WHO: &str = "Database/orders";
const POD: &str = "orders-0";

/// A database that answers.
pub(super) struct Open {
    psql: Option<PathBuf>,
    login: Login,
}

pub(super) async fn ask(play: &mut Play<'_>) {
    let spec = json!({"databaseName": NAME, "username": NAME, "maxConnections": 20});
    play.apply::<Database>(NAME, "a PostgreSQL with a database orders", json!({ "spec": spec })).await;
}

/// Ready, or known to lack PostgreSQL.
pub(super) async fn come_true(play: &mut Play<'_>) -> Option<Open> {
    let databases = play.stage.api::<Database>();
    let is_open = play
        .until(WHO, "its status is settled", || async {
            let status = databases.get(NAME).await.ok()?.status?;
            let reason = &status.base.conditions.iter().find(|condition| condition.type_ == "Ready")?.reason;
            if status.ready { Some(true) } else { (reason == "PostgresNotInstalled").then_some(false) }
        })
        .await?;
    if !is_open {
        play.board.line(Mark::Seen, WHO, "PostgreSQL is not installed; without it this part is not shown");
        return None;
    }
    let open = open(play).await?;
    let sql = "CREATE TABLE fruit (name text); INSERT INTO fruit VALUES ('apple'), ('pear'); SELECT count(*) FROM fruit";
    query(play, &open, sql, "a table was made in it").await;
    Some(open)
}

pub(super) async fn break_and_heal(play: &mut Play<'_>, open: Option<&Open>) {
    play.broke("StatefulSet/orders", "the StatefulSet is deleted");
    let before = uid(play).await;
    let deleted = play.stage.api::<StatefulSet>().delete(NAME, &DeleteParams::background()).await;
    play.did(WHO, deleted.map(drop));
    let sets = play.stage.api::<StatefulSet>();
    play.until("StatefulSet/orders", "it is there again", || async {
        let set = sets.get_opt(NAME).await.ok()??;
        (set.metadata.uid != before && set.metadata.deletion_timestamp.is_none()).then_some(())
    })
    .await;
    let Some(open) = open else { return };
    let Some(old) = ready_pod(play, None).await else { return };
    play.broke("Pod/orders-0", "PostgreSQL is killed with -9");
    let killed = kill(pid_of(&old));
    play.did(WHO, killed);
    ready_pod(play, pid_of(&old)).await;
    query(play, open, "SELECT count(*) FROM fruit", "it has recovered, and what was in it is there").await;
}

async fn uid(play: &Play<'_>) -> Option<String> {
    play.stage.api::<StatefulSet>().get_opt(NAME).await.ok()??.metadata.uid
}

/// The Pod, when it is ready with another process than the old one.
async fn ready_pod(play: &mut Play<'_>, old: Option<i32>) -> Option<Value> {
    let pods = play.stage.api::<Pod>();
    play.until("Pod/orders-0", "PostgreSQL runs", || async {
        let pod = json(&pods.get_opt(POD).await.ok()??);
        (is_ready(&pod) && pid_of(&pod) != old).then_some(pod)
    })
    .await
}

async fn open(play: &mut Play<'_>) -> Option<Open> {
    let secret = play.stage.api::<Secret>().get("orders-credentials").await.ok()?;
    let password = String::from_utf8(secret.data?.remove("password")?.0).ok()?;
    Some(Open { psql: psql::find(), login: Login { name: NAME.to_owned(), password } })
}

/// Asks until it answers: a database that was just killed may take a moment longer than its probe.
async fn query(play: &mut Play<'_>, open: &Open, sql: &str, words: &str) {
    let Some(program) = &open.psql else {
        play.board.line(Mark::Seen, WHO, "there is no psql to ask it with");
        return;
    };
    play.board.line(Mark::Did, WHO, &format!("psql: {sql}"));
    let databases = play.stage.api::<Database>();
    play.until(WHO, words, || async {
        // Another Pod has another address.
        let endpoint = databases.get(NAME).await.ok()?.status?.endpoint?;
        let answer = psql::ask(program, &endpoint, &open.login, sql).await.ok()?;
        (answer == "2").then_some(())
    })
    .await;
}
