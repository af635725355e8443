//! An operator of which several replicas run: one leads, or with `SHARDS=8` each has its share. Every replica appends
//! what it does to the file `JOURNAL`, one line of JSON per record, so that anybody can check that no object is ever
//! reconciled by two at once.
use std::io::Write;
use std::sync::Mutex;

use homeostat::prelude::*;

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Chore", namespaced)]
struct ChoreSpec {
    /// How long it takes.
    milliseconds: u64,
}

async fn reconcile(chore: Arc<Chore>, _: Context<Chore>) -> Result<Action> {
    tokio::time::sleep(Duration::from_millis(chore.spec.milliseconds)).await;
    Ok(Action::requeue(Duration::from_millis(200)))
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let chores = Controller::<Chore>::new().reconcile(reconcile);
    let operator = Operator::new("replicas.demo.dev").crd::<Chore>().control(chores);
    let operator = operator.lease_term(Duration::from_secs(number("TERM_SECONDS").unwrap_or(15).into()));
    if let Some(file) = std::env::var_os("JOURNAL") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        let file = Mutex::new(file.expect("the journal can be written"));
        operator.journal().fold(move |record| {
            let line = serde_json::to_string(record).expect("a record is plain data");
            writeln!(file.lock().expect("no writer panics"), "{line}").expect("the journal can be written");
        });
    }
    homeostat::run(match number("SHARDS") {
        Some(shards) => operator.sharded(shards),
        None => operator.leader_election(),
    })
    .await
}
