//! Reads the body of a request from any source, as a whole and limited in size.

use bytes::{Buf as _, Bytes};
use homeostat_api::status::Status;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::limits::{BODY_LATE_TIME, BODY_TIME, RETRY_AFTER_S};

/// The maximum size of a request body, as in Kubernetes. An object may be half as large.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The reason a body did not arrive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It took too long.
    #[error("the request body did not arrive within {} s", BODY_TIME.as_secs())]
    TooSlow,
    /// It was late, and another request needed its slot or its memory.
    #[error("the request body did not arrive within {} s, and other requests needed its slot or its memory", BODY_LATE_TIME.as_secs())]
    Evicted,
    /// The bodies of this user, or of all users, already use as much memory as is allowed.
    #[error("too many bytes of request bodies are held, please try again later")]
    NoRoom,
    /// The connection broke, or the data is not HTTP.
    #[error("the request body did not arrive: {0}")]
    Broken(#[source] hyper::Error),
}

/// Any failure to read a body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request from any source; there is one type, so that the API is compiled once.
pub(crate) struct AnyBody(UnsyncBoxBody<Bytes, BodyFailure>);

/// The reason the body of a request from any source did not arrive.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct BodyFailure(BoxError);

impl AnyBody {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let whole = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        Self(
            body.map_frame(move |frame| frame.map_data(whole))
                .map_err(|error| BodyFailure(error.into()))
                .boxed_unsync(),
        )
    }
}

/// Reads a whole body.
pub(crate) async fn collect(AnyBody(body): AnyBody) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Status::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}")))
        }
        Err(error) => Err(match error.downcast_ref().and_then(|BodyFailure(error)| error.downcast_ref()) {
            Some(BodyError::Evicted | BodyError::NoRoom) => {
                Status::too_many_requests(error.to_string(), RETRY_AFTER_S)
            }
            Some(BodyError::TooSlow) => Status::timeout(error.to_string()),
            _ => Status::bad_request(format!("the body could not be read: {error}")),
        }),
    }
}
