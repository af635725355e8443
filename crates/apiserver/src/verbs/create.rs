//! Create: a body becomes an object that did not exist before.

use super::options::WriteOptions;
use super::{Answer, Call, decode_body, pipeline};
use crate::status::Status;

/// Creates the object of the body.
pub(super) async fn create(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::of(call, "CreateOptions")?;
    let draft = decode_body::object(call, body, options.strictness)?;
    pipeline::create(call, &options, draft).await
}
