//! Admission: parties other than the kind itself that may change or refuse a write.
//!
//! There are none yet: both stages let everything pass. They mark the place where admission belongs, so that it is
//! called here and nowhere else. `old` is the stored object, `None` for a new one.

use homeostat_api::status::Status;
use serde_json::Value;

use crate::verbs::Call;

/// Lets admission change or refuse the object. A new object has no uid yet, and no name if one is to be generated.
#[expect(clippy::unnecessary_wraps, reason = "admission may refuse")]
pub(super) fn mutate(_: &Call, _: &mut Value, _old: Option<&Value>) -> Result<(), Status> {
    Ok(())
}

/// Lets admission refuse the object as it will be stored.
#[expect(clippy::unnecessary_wraps, reason = "admission may refuse")]
pub(super) fn validate(_: &Call, _: &Value, _old: Option<&Value>) -> Result<(), Status> {
    Ok(())
}
