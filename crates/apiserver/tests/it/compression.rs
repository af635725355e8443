//! Tests that long responses are compressed for clients that accept gzip, and that watches and short responses are not.

use std::sync::Arc;

use futures::StreamExt as _;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::serve::ResponseCompression;
use homeostat_store::Memory;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use homeostat_apiserver::body::Body;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The header and the trailer of the format.
const HEADER_BYTES: usize = 10;
const TRAILER_BYTES: usize = 8;

/// Starts a server with this many ConfigMaps of ten kilobytes.
async fn start(mode: ResponseCompression, count: usize) -> ApiServer {
    let builder = ApiServer::builder(Arc::new(Memory::new())).response_compression(mode);
    let (server, _background) = builder.build().await.unwrap();
    for at in 0..count {
        let object = json!({"metadata": {"name": format!("c{at:03}")}, "data": {"text": format!("{at}").repeat(10_000)}});
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let request = request.body(Full::new(bytes::Bytes::from(object.to_string()))).unwrap();
        assert_eq!(server.clone().oneshot(request).await.unwrap().status(), 201);
    }
    server
}

async fn get(server: &ApiServer, path: &str, accept: &str) -> Response<Body> {
    let request = Request::get(path).header("accept", accept).header("accept-encoding", "deflate, gzip");
    server.clone().oneshot(request.body(Full::new(bytes::Bytes::new())).unwrap()).await.unwrap()
}

async fn plain(server: &ApiServer, path: &str, accept: &str) -> Vec<u8> {
    let request = Request::get(path).header("accept", accept).body(Full::new(bytes::Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert!(!response.headers().contains_key("content-encoding"));
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// Returns the text of a compressed response, and its length on the wire.
async fn decompressed(response: Response<Body>) -> (Vec<u8>, usize) {
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert!(response.headers().get_all("vary").iter().any(|value| value == "Accept-Encoding"));
    let sent = response.into_body().collect().await.unwrap().to_bytes();
    let body = &sent[HEADER_BYTES..sent.len() - TRAILER_BYTES];
    (miniz_oxide::inflate::decompress_to_vec(body).unwrap(), sent.len())
}

#[tokio::test]
async fn long_answers_are_compressed_in_every_form() {
    let server = start(ResponseCompression::Always, 40).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (path, accept) in [
        (CONFIG_MAPS, "application/json"),
        (CONFIG_MAPS, "application/vnd.kubernetes.protobuf"),
        (CONFIG_MAPS, "application/yaml"),
        (&*format!("{CONFIG_MAPS}?limit=30"), "application/json"),
        (&*format!("{CONFIG_MAPS}?includeObject=Object"), table),
        ("/openapi/v2", "application/json"),
    ] {
        let (text, sent) = decompressed(get(&server, path, accept).await).await;
        // Tables show ages, and page tokens differ; lengths do not.
        let expected = plain(&server, path, accept).await;
        assert_eq!(text.len(), expected.len(), "{path} as {accept}");
        assert!(sent < text.len() / 4, "{path} as {accept}: {sent} of {} bytes", text.len());
    }
    let (text, _) = decompressed(get(&server, CONFIG_MAPS, "application/json").await).await;
    let list: Value = serde_json::from_slice(&text).unwrap();
    assert!(list["items"].as_array().unwrap().len() >= 40);
}

#[tokio::test]
async fn short_answers_and_watches_are_sent_as_they_are() {
    let server = start(ResponseCompression::Always, 5).await;
    for path in [CONFIG_MAPS, &*format!("{CONFIG_MAPS}/c001"), "/version", &*format!("{CONFIG_MAPS}/none")] {
        let response = get(&server, path, "application/json").await;
        assert!(!response.headers().contains_key("content-encoding"), "{path}");
        let sent = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&sent).unwrap();
    }
    let watch = get(&server, &format!("{CONFIG_MAPS}?watch=1&resourceVersion=0"), "application/json").await;
    assert!(!watch.headers().contains_key("content-encoding"));
    let first = watch.into_body().into_data_stream().next().await.unwrap().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
}

/// Callers within the process have no address.
#[tokio::test]
async fn local_callers_get_plain_answers_unless_the_server_is_told() {
    for mode in [ResponseCompression::Never, ResponseCompression::Remote] {
        let server = start(mode, 40).await;
        let response = get(&server, CONFIG_MAPS, "application/json").await;
        assert!(!response.headers().contains_key("content-encoding"), "{mode:?}");
    }
}
