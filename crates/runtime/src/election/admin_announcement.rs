//! Announces the address of this operator's admin server, so that `why` finds it: in an annotation on the Leases it
//! holds or, without an election, on a Lease created for that purpose.
//!
//! A missing permission is not a failure: `why` then works without this operator's journal, and says so.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fault::Fault;
use crate::kind::object_name;
use crate::request::{RequestLabel, send_request};
use crate::shared::OperatorShared;

/// Announces the admin server of an operator without an election until `stop`, then withdraws the announcement.
pub(crate) async fn announce(shared: Arc<OperatorShared>, stop: CancellationToken) {
    let Some(address) = &shared.admin_address else { return };
    let name = format!("{}-admin", object_name(shared.name.as_str()));
    let path = Path::new(Lease::url_path(&(), Some(shared.client.default_namespace())));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "annotations": address.annotations()},
    });
    let params = PatchParams::apply(shared.name.as_str()).force();
    let label = RequestLabel { verb: "announce in the lease", target: &name };
    let request = path.patch(&name, &params, &Patch::Apply(&lease));
    let sent = stop.run_until_cancelled(send_request::<Value>(&shared.client, label, request)).await;
    match sent {
        Some(Ok(_)) => {}
        None => return,
        Some(Err(error)) => {
            tracing::debug!(error = %Fault::from(error), "the admin server is not announced; `why` does not find it");
            return;
        }
    }
    stop.cancelled().await;
    let label = RequestLabel { verb: "remove the lease", target: &name };
    let removed =
        send_request::<Value>(&shared.client, label, path.delete(&name, &DeleteParams::default())).await;
    if let Err(error) = removed {
        tracing::debug!(error = %Fault::from(error), "the announcement of the admin server could not be withdrawn");
    }
}
