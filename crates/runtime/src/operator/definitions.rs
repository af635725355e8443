//! Installs an operator's definitions: they are applied at startup, retried while the server is unreachable, and
//! applied again when one is deleted, which becomes apparent through a failing watch.
//!
//! In a cluster the operator is usually not allowed to write definitions, and they already exist, so it is not an error
//! if this is forbidden. No definition is ever removed.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::journal::WatchState;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::Value;
use tokio::sync::watch;

use crate::cache::Freshness;
use crate::error::Error;
use crate::kind::definition::Definition;
use crate::queue::Backoff;
use crate::request::{RequestLabel, call_unread};
use crate::rights::required_rules::Rule;
use crate::shared::OperatorShared;

/// The pauses while the server is unreachable: short at first, and never so long that a watch would have to wait for
/// the definition.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(10));

/// A kube-apiserver serves a new kind a few tenths of a second after it has accepted the definition, and until then
/// says that it does not exist (404) or will exist soon (429). After this many checks the watches take over, and report
/// what is missing.
const LOOKS_MAX: u32 = 50;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// One definition and its progress.
pub(crate) struct InstalledDefinition {
    definition: Arc<Definition>,
    is_applied: bool,
    /// Whether the server's refusal has already been reported.
    is_told: bool,
}

/// Applies each definition once and waits until its kind is served, so that it is usually in place when watches start.
pub(crate) async fn install(
    shared: &OperatorShared,
    definitions: Vec<Arc<Definition>>,
) -> Vec<InstalledDefinition> {
    let mut kept = Vec::new();
    for definition in definitions {
        let verdict = apply(shared, &definition).await;
        if matches!(verdict, ApplyResult::Applied) {
            await_served(shared, &definition).await;
        }
        let is_applied = matches!(verdict, ApplyResult::Applied | ApplyResult::Forbidden);
        kept.push(InstalledDefinition { definition, is_applied, is_told: log_result(false, &verdict) });
    }
    kept
}

/// Keeps a definition in place for as long as it is polled.
pub(crate) async fn keep_installed(shared: Arc<OperatorShared>, kept: InstalledDefinition) {
    let InstalledDefinition { definition, mut is_applied, mut is_told } = kept;
    let mut freshness = followers(&shared, &definition);
    let mut failures = 0;
    loop {
        if is_applied {
            failures = 0;
            cut_off(&mut freshness).await;
        }
        let verdict = apply(&shared, &definition).await;
        is_told = log_result(is_told, &verdict);
        is_applied = match verdict {
            ApplyResult::Applied => true,
            ApplyResult::Forbidden => return,
            ApplyResult::Failed(_) => {
                failures += 1;
                tokio::time::sleep(BACKOFF.delay(failures, &shared.entropy)).await;
                false
            }
        };
    }
}

/// Returns the caches of the kind it defines.
fn followers(shared: &OperatorShared, definition: &Value) -> Vec<watch::Receiver<Freshness>> {
    let resource = format!("{}/{}", text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let caches = shared.caches.all().into_iter();
    caches
        .filter(|(_, cache)| cache.info().resource == resource)
        .map(|(_, cache)| cache.watch_freshness())
        .collect()
}

/// Waits until a watch of the kind fails (again): we retry as often as the watch does.
async fn cut_off(freshness: &mut [watch::Receiver<Freshness>]) {
    let each = freshness.iter_mut().map(|receiver| {
        Box::pin(async move {
            loop {
                if receiver.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if matches!(receiver.borrow_and_update().state, WatchState::Failing { .. }) {
                    return;
                }
            }
        })
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        std::future::pending::<()>().await;
    }
    futures::future::select_all(each).await;
}

enum ApplyResult {
    Applied,
    Forbidden,
    Failed(Error),
}

/// Logs a refusal once, and also when it ends; returns whether there is a refusal. The watches report that the server
/// is unreachable.
fn log_result(is_told: bool, verdict: &ApplyResult) -> bool {
    match verdict {
        ApplyResult::Failed(error) if is_told || error.is_cut_off() => {
            tracing::debug!(?error, "definition not applied");
            return is_told;
        }
        ApplyResult::Failed(error) => {
            tracing::warn!(%error, "definition not applied; retrying until it is");
            return true;
        }
        ApplyResult::Applied if is_told => tracing::info!("definition applied after all"),
        ApplyResult::Applied | ApplyResult::Forbidden => {}
    }
    false
}

async fn apply(shared: &OperatorShared, definition: &Definition) -> ApplyResult {
    let name = text(definition, "/metadata/name");
    let path = Path::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let params = PatchParams::apply(shared.name.as_str()).force();
    // The definition is encoded once per process, not at every start.
    let request = path.patch(name, &params, &Patch::Apply(Value::Null));
    let request = request.map(|request| request.map(|_| definition.encoded().to_vec()));
    let label = RequestLabel { verb: "apply the definition", target: name };
    match call_unread(&shared.client, label, request).await {
        Ok(()) => ApplyResult::Applied,
        Err(error @ Error::Api { .. }) if error.code() == Some(403) => {
            // This is usual for operators in a cluster: the person who installs them applies the definitions.
            tracing::debug!(%error, "definition not applied; expecting it in the cluster");
            ApplyResult::Forbidden
        }
        Err(error) => ApplyResult::Failed(error),
    }
}

/// Waits until objects of the kind can be listed. Any other refusal is reported by the watches.
async fn await_served(shared: &OperatorShared, definition: &Value) {
    let version = text(definition, "/spec/versions/0/name");
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let path = Path::new(format!("/apis/{group}/{version}/{plural}"));
    for _ in 0..LOOKS_MAX {
        let label = RequestLabel { verb: "list", target: plural };
        let listed = call_unread(&shared.client, label, path.list(&ListParams::default().limit(1))).await;
        if !listed.is_err_and(|error| matches!(error.code(), Some(404 | 429))) {
            return;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Returns the reconciled kinds whose status has no `conditions`: the server drops the conditions that a reconciler, or
/// the runtime for failing objects, writes to it. A kind without any status chooses not to report anything.
pub(crate) fn without_conditions<'a>(
    definitions: &'a [Arc<Definition>],
    rules: &'a [Rule],
) -> impl Iterator<Item = &'a str> {
    definitions.iter().filter(|definition| is_reconciled(definition, rules)).filter_map(|definition| {
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let drops = |version: &Value| {
            version.pointer("/schema/openAPIV3Schema/properties/status").is_some_and(|status| {
                status["x-kubernetes-preserve-unknown-fields"] != true
                    && status.pointer("/properties/conditions").is_none()
            })
        };
        versions.iter().any(drops).then(|| text(definition, "/spec/names/kind"))
    })
}

fn is_reconciled(definition: &Value, rules: &[Rule]) -> bool {
    rules.iter().any(|rule| {
        rule.is_main && rule.resource == text(definition, "/spec/names/plural") && is_of(definition, rule)
    })
}

fn is_of(definition: &Value, rule: &Rule) -> bool {
    rule.group == text(definition, "/spec/group")
}

/// Returns whether this rule concerns the status of a kind whose definition, which we install, has none.
pub(crate) fn lacks_status(definitions: &[Arc<Definition>], rule: &Rule) -> bool {
    let Some(plural) = rule.resource.strip_suffix("/status") else { return false };
    let has_none = |version: &Value| version.pointer("/subresources/status").is_none();
    definitions.iter().any(|definition| {
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        text(definition, "/spec/names/plural") == plural
            && is_of(definition, rule)
            && versions.is_some_and(|versions| versions.iter().all(has_none))
    })
}

fn text<'a>(definition: &'a Value, pointer: &str) -> &'a str {
    definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
