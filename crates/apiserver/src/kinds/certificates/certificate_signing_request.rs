//! CertificateSigningRequest: a request for a certificate, and the decision on it.

use serde_json::Value;

use crate::kinds::declaration::{CHANGE, Kind, Part, STATUS, Write};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, Strategy};
use crate::kinds::{prepare, validate};
use crate::table::cells;

/// Signers of Kubernetes' own controllers, of which there are none here. Others are somebody's operator.
const KUBERNETES_SIGNERS: &str = "kubernetes.io/";

/// A request for a certificate, and the decision on it.
pub(crate) static CERTIFICATE_SIGNING_REQUEST: Kind = Kind {
    short_names: &["csr"],
    subresources: &[Part::own("approval", CHANGE).judged_by(validate::decision::approval), STATUS],
    old_versions: &["v1beta1"],
    strategy: Strategy {
        reset_on_main: &["spec", "status"],
        ..PLAIN.named(NameRule::Any).with_status(&["spec", "status.conditions"])
    },
    prepare_create: Some(|resource, fields, with| {
        prepare::core::check_request_subject(resource, fields)?;
        prepare::core::request_created(fields, with.identity);
        Ok(())
    }),
    validate_create: Some(validate::certificates::request),
    validate_status: Some(validate::decision::status),
    warn_unenforced: Some(warn_unenforced),
    columns: &[
        Column::NAME,
        Column::text("Age"),
        Column::text("SignerName"),
        Column::text("Requestor"),
        Column::text("RequestedDuration"),
        Column::text("Condition"),
    ],
    cells: Some(cells::certificates::signing_request),
    selectable: Selectable::fields(&[("spec.signerName", Absent::Empty)]).without_namespace(),
    ..Kind::cluster_scoped(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
    )
};

/// Warns about the approval of a request that nobody here signs.
fn warn_unenforced(_: &Kind, write: &Write<'_>) -> Vec<String> {
    let is_approved = |request: &Value| {
        let conditions = request["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "Approved"))
    };
    let signer_of = |request: &Value| request["spec"]["signerName"].as_str().map(ToOwned::to_owned);
    let is_news =
        write.subresource == "approval" && is_approved(write.new) && !write.old.is_some_and(is_approved);
    let signer = signer_of(write.new).or_else(|| write.old.and_then(signer_of)).unwrap_or_default();
    let warning = || {
        format!(
            "the approval is stored, but this server signs nothing for {signer}: status.certificate stays empty"
        )
    };
    (is_news && signer.starts_with(KUBERNETES_SIGNERS)).then(warning).into_iter().collect()
}
