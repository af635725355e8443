//! The reconcile loop: reads the actual state, builds the desired state, applies it, and writes the status.
//!
//! **Invariant:** the password is created once. Everything else can be built again from the spec; the password cannot.

use homeostat::core::hash::fnv_64;
use homeostat::core::selector::LabelSelector;
use homeostat::prelude::*;
use serde_json::json;

use crate::children::{self, LABEL, Plan, pod_name, secret_name};
use crate::cleanup::cleanup;
use crate::database::{Database, DeletionPolicy};
use crate::observe::{Health, health, taken_port};
use crate::port;
use crate::problem::{Problem, check_name, check_parameters};
use crate::settings::Settings;

/// Returns the operator.
pub fn operator(settings: Settings) -> Operator {
    let databases = Controller::<Database>::new()
        .owns::<StatefulSet>()
        .owns::<Service>()
        .owns::<Secret>()
        .owns::<Pod>()
        .selects::<Pod, _>(pods_of)
        .needs_state::<Settings>()
        .cleanup_if(|database| database.spec.deletion_policy == DeletionPolicy::Delete, cleanup)
        .reconcile(reconcile);
    Operator::new("database.example.com").crd::<Database>().state(settings).control(databases)
}

fn pods_of(database: &Database) -> Option<LabelSelector> {
    LabelSelector::parse(&format!("{LABEL}={}", database.name_any())).ok()
}

async fn reconcile(database: Arc<Database>, cx: Context<Database>) -> Result<Action> {
    let settings = cx.state::<Settings>();
    let port = match plan_port(&database, &cx, &settings)? {
        Ok(port) => port,
        Err(problem) => {
            give_up(&database, &cx, &problem).await?;
            return Err(refuse(&cx, problem));
        }
    };
    let secret = reconcile_secret(&database, &cx, &settings).await?;
    let secret_version = version_of(&secret);
    let plan = Plan { database: &database, settings: &settings, port, secret_version };
    reconcile_service(&plan, &cx).await?;
    cx.apply(children::stateful_set(&plan)?).await?;
    let pod = cx.get::<Pod>(&*pod_name(&database))?;
    update_status(&cx, port, pod.as_deref());
    Ok(Action::await_change())
}

/// Chooses the port, if the spec is valid.
fn plan_port(
    database: &Database,
    cx: &Context<Database>,
    settings: &Settings,
) -> Result<Result<u16, Problem>> {
    let all = cx.list::<Database>()?;
    let lost = cx.get::<Pod>(&*pod_name(database))?.and_then(|pod| taken_port(&pod));
    Ok(check_name(&database.name_any())
        .and_then(|()| check_parameters(database.spec.parameters.keys()))
        .and_then(|()| port::choose(database, &all, lost, settings)))
}

/// Gives up a port that belongs to another, and deletes what would listen on it; the data stays.
async fn give_up(database: &Database, cx: &Context<Database>, problem: &Problem) -> Result<()> {
    let kept = database.status.as_ref().and_then(|status| status.port);
    if let Problem::PortTaken { port, .. } = problem
        && kept == Some(*port)
    {
        for set in cx.owned::<StatefulSet>()? {
            cx.delete(&*set).await?;
        }
        cx.status(|status| (status.port, status.ready, status.endpoint) = (None, false, None));
    }
    Ok(())
}

/// Reports what is wrong with the Database; whatever runs continues.
fn refuse(cx: &Context<Database>, problem: Problem) -> Fault {
    let message = problem.to_string();
    cx.event(Severity::Warning, problem.reason(), message.as_str());
    cx.condition(condition("Ready", false, problem.reason(), message));
    problem.fault()
}

/// Creates the Secret if it is missing, completes it if the password was removed, and otherwise leaves it alone.
async fn reconcile_secret(
    database: &Database,
    cx: &Context<Database>,
    settings: &Settings,
) -> Result<Arc<Secret>> {
    let wanted = children::secret(database, &(settings.new_password)(cx.entropy()))?;
    let Some(secret) = cx.get::<Secret>(&*secret_name(database))? else {
        cx.event(Severity::Normal, "SecretCreated", "created a password");
        return Ok(cx.create(wanted).await?);
    };
    let data = secret.data.as_ref();
    let has = |key: &str| data.is_some_and(|data| data.get(key).is_some_and(|value| !value.0.is_empty()));
    let says = |key: &str, value: &str| {
        data.is_some_and(|data| data.get(key).is_some_and(|have| have.0 == value.as_bytes()))
    };
    let spec = &database.spec;
    let mut patch = json!({});
    if !has("password") {
        patch["password"] = json!(wanted.string_data.as_ref().and_then(|data| data.get("password")));
    }
    for (key, value) in [("username", &spec.username), ("database", &spec.database_name)] {
        if !says(key, value) {
            patch[key] = json!(value);
        }
    }
    if patch.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(secret);
    }
    Ok(cx.patch(&*secret, json!({ "stringData": patch })).await?)
}

/// Returns a digest of the Secret's content: what others write into its metadata is no reason to replace the Pod.
fn version_of(secret: &Secret) -> String {
    format!("{:016x}", fnv_64(json!(secret.data).to_string().as_bytes()))
}

/// Applies the Service. First removes what others added to our ports and our selector: an apply would leave it there,
/// two ports with one name are refused, and a selector with additions selects nothing.
async fn reconcile_service(plan: &Plan<'_>, cx: &Context<Database>) -> Result<()> {
    let wanted = children::service(plan)?;
    if let Some(service) = cx.get::<Service>(&*plan.database.name_any())?
        && let Some(patch) = without_foreign(&service, &wanted)
    {
        cx.patch(&*service, patch).await?;
    }
    cx.apply(wanted).await?;
    Ok(())
}

/// Returns the patch that removes what others added, if they did.
fn without_foreign(service: &Service, wanted: &Service) -> Option<serde_json::Value> {
    let mut patch = json!({});
    if numbers(service) != numbers(wanted) {
        patch["ports"] = json!(wanted.spec.as_ref().and_then(|spec| spec.ports.as_ref()));
    }
    for key in selector(service).filter(|key| selector(wanted).all(|ours| ours != *key)) {
        patch["selector"][key] = json!(null);
    }
    let is_foreign = patch.as_object().is_some_and(|patch| !patch.is_empty());
    is_foreign.then(|| json!({ "spec": patch }))
}

fn numbers(service: &Service) -> Vec<(i32, Option<&str>)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.port, port.protocol.as_deref())).collect()
}

fn selector(service: &Service) -> impl Iterator<Item = &String> {
    service.spec.iter().flat_map(|spec| spec.selector.iter().flatten()).map(|(key, _)| key)
}

fn update_status(cx: &Context<Database>, port: u16, pod: Option<&Pod>) {
    let Health { is_ready, reason, message } = health(pod);
    let address = pod.and_then(|pod| pod.status.as_ref()?.pod_ip.clone());
    let database = cx.object();
    let was_ready = database.status.as_ref().is_some_and(|status| status.ready);
    if is_ready && !was_ready {
        cx.event(Severity::Normal, "Ready", "it answers");
    }
    if ["PostgresNotInstalled", "PortTaken"].contains(&reason) {
        cx.event(Severity::Warning, reason, message.as_str());
    }
    cx.status(|status| {
        status.ready = is_ready;
        status.port = Some(port);
        status.endpoint = address.filter(|_| is_ready).map(|address| format!("{address}:{port}"));
        status.secret = Some(secret_name(database));
    });
    cx.condition(condition("Ready", is_ready, reason, message));
}
