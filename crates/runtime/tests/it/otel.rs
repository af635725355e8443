//! Tests that spans reach a collector over OTLP/HTTP, and a reconcile is linked to its causes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use homeostat::testing::PausedTime;
use homeostat_runtime::otel::Exporter;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tracing_subscriber::layer::SubscriberExt;

use crate::test_cluster::{TestCluster, config};

/// The requests that the collector received, each with its path and body.
type Received = Arc<Mutex<Vec<(String, Bytes)>>>;

/// Starts a collector that accepts everything. Returns its address.
async fn collect(received: Received) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let received = received.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let received = received.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    received.lock().unwrap().push((path, body));
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    });
    address
}

/// Returns the length-delimited fields of a protobuf message, with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = message.split_first().unwrap();
            *message = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        let length = match tag & 7 {
            0 => {
                number(&mut message);
                continue;
            }
            1 => 8,
            5 => 4,
            _ => usize::try_from(number(&mut message)).unwrap(),
        };
        let (value, rest) = message.split_at(length);
        found.push((tag >> 3, value));
        message = rest;
    }
    found
}

fn all<'a>(messages: &[&'a [u8]], field: u64) -> Vec<&'a [u8]> {
    let fields = messages.iter().flat_map(|message| fields(message));
    fields.filter(|(number, _)| *number == field).map(|(_, value)| value).collect()
}

/// Returns the id, name and linked ids of every span sent. The field numbers are those of OTLP's `trace.proto`.
fn spans(received: &Received) -> Vec<(Vec<u8>, String, BTreeSet<Vec<u8>>)> {
    let received = received.lock().unwrap();
    let bodies: Vec<&[u8]> = received.iter().map(|(_, body)| &body[..]).collect();
    let spans = all(&all(&all(&bodies, 1), 2), 2);
    let span = |span: &[u8]| {
        let id = all(&[span], 2)[0].to_vec();
        let name = String::from_utf8(all(&[span], 5)[0].to_vec()).unwrap();
        (id, name, all(&all(&[span], 13), 2).into_iter().map(<[u8]>::to_vec).collect())
    };
    spans.into_iter().map(span).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_linked_to_what_caused_it() {
    let mut lab = TestCluster::new().await;
    let received = Received::default();
    let address = collect(received.clone()).await;
    let exporter = Exporter::new("widgets.test.dev", &address).unwrap();
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(exporter.layer()));
    let running =
        lab.run_logging(|controller| controller.owns::<k8s_openapi::api::core::v1::ConfigMap>()).await;
    let owner = lab.widget("owner").await;
    lab.create(&config("child", &[&owner])).await;
    running.stop.cancel();
    lab.rest().await;
    drop(guard);
    let hold = PausedTime::new();
    exporter.shutdown().await;
    drop(hold);
    assert!(received.lock().unwrap().iter().all(|(path, _)| path == "/v1/traces"));
    let bodies: Vec<u8> = received.lock().unwrap().iter().flat_map(|(_, body)| body.to_vec()).collect();
    for words in ["widgets.test.dev", "test.dev/widgets/default/owner", "service.name"] {
        assert!(memchr::memmem::find(&bodies, words.as_bytes()).is_some(), "{words} was not sent");
    }
    let spans = spans(&received);
    let named = |name: &str| spans.iter().filter(|(_, other, _)| other == name).cloned().collect::<Vec<_>>();
    let observed: BTreeSet<Vec<u8>> = named("observe").into_iter().map(|(id, ..)| id).collect();
    let reconciled = named("reconcile");
    assert_eq!(reconciled.len(), 2, "one for the widget, one for its child");
    for (_, _, links) in reconciled {
        assert!(!links.is_empty() && links.is_subset(&observed), "a reconcile without a cause");
    }
}
