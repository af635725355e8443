//! The Rust of the page on handlers. Compiled, not run.

#![expect(dead_code, reason = "what the guide shows is compiled and not called")]

use std::collections::BTreeMap;

use homeostat::prelude::*;

/// Anything that serializes.
type R = ();

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Database", namespaced, status = "DatabaseStatus")]
struct DatabaseSpec {
    replicas: i32,
    users: Vec<String>,
}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
struct DatabaseStatus {
    outside: String,
    #[serde(flatten)]
    base: StandardStatus,
}

/// Where users are created.
struct Pool;

impl Pool {
    #[expect(clippy::unused_async, reason = "a real one waits for a database")]
    async fn create_user(&self, name: &str) -> Result<()> {
        if name.is_empty() { Err(terminal("a user needs a name")) } else { Ok(()) }
    }
}

/// The followed value.
struct Api;

impl Api {
    #[expect(clippy::unused_async, reason = "a real one waits for an answer")]
    async fn wait_for_change(&self, known: Option<String>) -> String {
        known.unwrap_or_default()
    }
}

async fn create(db: Arc<Database>, cx: HandlerContext<Database>) -> Result<R> {
    for user in db.spec.users.clone() {
        cx.sub(user.clone(), move |cx| async move { cx.state::<Pool>().create_user(&user).await });
    }
    Ok(())
}

async fn reconfigure(diff: Diff<Database>, cx: HandlerContext<Database>) -> Result<R> {
    let _ = (diff.old, diff.new, cx);
    Ok(())
}

async fn scale(replicas: FieldUpdate<i32>, db: Arc<Database>, cx: HandlerContext<Database>) -> Result<R> {
    let _ = (replicas.old, replicas.new, db, cx);
    Ok(())
}

async fn health(db: Arc<Database>, cx: HandlerContext<Database>) -> Result<()> {
    let _ = (db, cx);
    Ok(())
}

async fn count(event: RawEvent<Database>, cx: HandlerContext<Database>) -> Result<()> {
    let _ = (event, cx);
    Ok(())
}

async fn connect(db: Arc<Database>, cx: HandlerContext<Database>) -> Result<R> {
    health(db, cx).await
}

async fn drop_database(db: Arc<Database>, cx: HandlerContext<Database>) -> Result<R> {
    health(db, cx).await
}

#[rustfmt::skip]
fn operator() -> Operator {
    let handlers = Handlers::<Database>::new()
        .on_create("create", create).retries(10).timeout(Duration::from_secs(900))
        .on_update("reconfigure", reconfigure)
        .on_field("scale", |db| db.spec.replicas, scale)
        .on_delete("drop", drop_database).label("tier", "gold")
        .on_resume("connect", connect)
        .every("health", Duration::from_secs(60), health).idle(Duration::from_secs(300))
        .daemon("follow", follow).grace(Duration::from_secs(10))
        .on_event("count", count);
    Operator::new("db.demo.dev").control(handlers)
}

async fn follow(_: Arc<Database>, cx: HandlerContext<Database>) -> Result<()> {
    let mut known = None;
    while let Some(state) = cx.unless_stopped(cx.state::<Api>().wait_for_change(known)).await {
        cx.status(|status| status.outside.clone_from(&state));
        cx.save_status().await?;
        known = Some(state);
    }
    Ok(())
}

/// The progress of a task.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    Done,
}

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Task", namespaced)]
struct TaskSpec {
    batch: String,
    state: State,
}

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Batch", namespaced, status = "BatchStatus")]
struct BatchSpec {}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
struct BatchStatus {
    #[serde(default)]
    children: BTreeMap<String, State>,
    #[serde(flatten)]
    base: StandardStatus,
}

async fn tell(state: FieldUpdate<State>, child: Arc<Task>, cx: HandlerContext<Task>) -> Result<()> {
    cx.report::<Batch>(child.spec.batch.as_str(), child.name_any(), state.new).await?;
    Ok(())
}

async fn leave(child: Arc<Task>, cx: HandlerContext<Task>) -> Result<()> {
    cx.withdraw_report::<Batch>(child.spec.batch.as_str(), child.name_any()).await?;
    Ok(())
}

#[rustfmt::skip]
async fn tally(children: FieldUpdate<BTreeMap<String, State>>, batch: Arc<Batch>, cx: HandlerContext<Batch>) -> Result<()> {
    let _ = (children.new, batch, cx);
    Ok(())
}

#[rustfmt::skip]
fn reporting() -> Operator {
    let tasks = Handlers::<Task>::new().on_field("tell", |task| task.spec.state, tell).on_delete("leave", leave);
    let batches = Handlers::<Batch>::new().on_field("tally", |batch| batch.status.clone().unwrap_or_default().children, tally);
    Operator::new("batch.demo.dev")
        .crd::<Task>()
        .crd::<Batch>()
        .control(Controller::new().reports_to::<Batch>().handlers(tasks))
        .control(batches)
}
