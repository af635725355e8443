//! CertificateSigningRequest: a request for a certificate, and the decision on it.

use crate::kinds::declaration::{CHANGE, Kind, Part, STATUS};
use crate::kinds::names::NameRule;
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, Strategy};
use crate::kinds::{prepare, validate};
use crate::table::cells;

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
