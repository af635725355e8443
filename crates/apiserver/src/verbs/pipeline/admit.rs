//! Admission: what has a say in a write beside the kind itself.
//!
//! There is none yet: both stages let everything pass. They stand where admission belongs, so that whatever comes to have
//! a say is asked here and nowhere else. `old` is the stored object, `None` for a new one.

use serde_json::Value;

use crate::status::Status;
use crate::verbs::Call;

/// Lets admission change the object, or refuse it. A new object has no uid yet, and no name if one is to be generated.
#[expect(clippy::unnecessary_wraps, reason = "admission may refuse")]
pub(super) fn mutate(_: &Call, _: &mut Value, _old: Option<&Value>) -> Result<(), Status> {
    Ok(())
}

/// Lets admission refuse the object as it will be stored.
#[expect(clippy::unnecessary_wraps, reason = "admission may refuse")]
pub(super) fn validate(_: &Call, _: &Value, _old: Option<&Value>) -> Result<(), Status> {
    Ok(())
}
