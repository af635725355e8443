//! Reads from the API server for `why`, with plain GETs and JSON responses.

use http::header::ACCEPT;
use kube::Client;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::request::{RequestLabel, call_whole};

/// The requested form of a response.
#[derive(Clone, Copy)]
pub(super) enum AnswerForm {
    /// Plain JSON.
    Json,
    /// Only the metadata of the objects of a list: it is small, and holds no secrets.
    MetadataList,
    /// Only the metadata of an object.
    Metadata,
    /// The kinds of all groups in one document.
    Discovery,
}

impl AnswerForm {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MetadataList => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Self::Discovery => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        }
    }
}

/// Reads a path.
pub(super) async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    accept: AnswerForm,
) -> Result<T, Error> {
    let request = http::Request::get(path).header(ACCEPT, accept.media_type()).body(Vec::new());
    let request = request.map_err(|error| Error::Invalid(format!("{path}: {error}")))?;
    call_whole(client, RequestLabel { verb: "get", target: path }, Ok(request)).await
}

/// Reads a path; `None` if there is nothing there, or nothing that we may read.
pub(super) async fn find<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    accept: AnswerForm,
) -> Result<Option<T>, Error> {
    match get(client, path, accept).await {
        Err(error) if matches!(error.code(), Some(403..=405)) => Ok(None),
        answer => answer.map(Some),
    }
}
