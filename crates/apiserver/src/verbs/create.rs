//! Implements create: writes the object in the body, which must not exist yet.

use homeostat_api::status::Status;

use super::options::WriteOptions;
use super::{Answer, AuthorizedRequest, decode_body, pipeline};

/// Creates the object in the body.
pub(super) async fn create(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(call, "CreateOptions")?;
    let draft = decode_body::decode_object(call, body, options.strictness)?;
    pipeline::create(call, &options, draft).await
}
