//! Tests HTTP/2 clients that read nothing of their responses, or one byte: they hold little memory and do not block
//! other clients.

use std::time::Duration;

use homeostat_apiserver::limits;
use http::Request;
use tokio::task::JoinHandle;

use crate::serve::{Running, start};

type Sender = h2::client::SendRequest<bytes::Bytes>;

/// Opens a connection that accepts this many bytes of each response.
async fn connect(server: &Running, window: u32) -> (Sender, JoinHandle<Result<(), h2::Error>>) {
    let stream = server.tls("h2", None).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let connected = builder.initial_window_size(window).handshake(stream).await;
    let (sender, connection) = connected.unwrap();
    (sender, tokio::spawn(connection))
}

async fn ask(
    sender: &mut Sender,
    path: &str,
    token: &str,
) -> Result<http::Response<h2::RecvStream>, h2::Error> {
    let mut ready = sender.clone().ready().await?;
    let request =
        Request::get(format!("https://localhost{path}")).header("authorization", format!("Bearer {token}"));
    let (answer, _) = ready.send_request(request.body(()).unwrap(), true)?;
    answer.await
}

/// Time stands still and jumps to the next deadline when every task waits.
#[tokio::test(start_paused = true)]
async fn an_unauthenticated_client_that_does_not_read_is_disconnected_in_time() {
    let server = start();
    let (mut sender, connection) = connect(&server, 0).await;
    let started = tokio::time::Instant::now();
    let refused = ask(&mut sender, "/who", "wrong").await.unwrap();
    assert_eq!(refused.status(), 401);
    let _ = connection.await.unwrap();
    assert!(
        started.elapsed() <= limits::UNAUTHENTICATED_TIME + Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    server.stop().await;
}

#[tokio::test]
async fn an_unauthenticated_client_holds_few_refusals_and_gets_all_that_it_reads() {
    let server = start();
    for window in [0, 1] {
        let (mut sender, connection) = connect(&server, window).await;
        let mut unread = Vec::new();
        for _ in 0..limits::UNAUTHENTICATED_REFUSALS_MAX {
            let refused = ask(&mut sender, "/who", "wrong").await.unwrap();
            assert_eq!(refused.status(), 401);
            unread.push(refused);
        }
        let error = ask(&mut sender, "/who", "wrong").await.unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
        let mut refused = 1;
        while ask(&mut sender, "/who", "wrong").await.is_err_and(|error| error.is_reset()) {
            refused += 1;
            assert!(refused <= 2 * limits::UNAUTHENTICATED_RESETS_MAX, "it may ask for ever");
        }
        assert!(refused >= limits::UNAUTHENTICATED_RESETS_MAX, "{refused}");
        drop((unread, sender));
        connection.abort();
    }
    let (mut sender, _connection) = connect(&server, 64 * 1024).await;
    for _ in 0..4 * limits::UNAUTHENTICATED_REFUSALS_MAX {
        let refused = ask(&mut sender, "/who", "wrong").await.unwrap();
        assert_eq!(refused.status(), 401);
        assert!(refused.into_body().data().await.unwrap().is_ok());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_buffered_answer_keeps_its_slot() {
    const STREAMS: usize = 20;
    let server = start();
    let token = server.credentials.admin_token.clone();
    let mut unread = Vec::new();
    // The client library refuses many small frames on one connection.
    for _ in 0..limits::USER_READS_MAX / STREAMS {
        let (mut sender, _connection) = connect(&server, 1).await;
        for _ in 0..STREAMS {
            let answer = ask(&mut sender, "/who", &token).await.unwrap();
            assert_eq!(answer.status(), 200);
            unread.push((answer, sender.clone()));
        }
    }
    let (mut sender, _connection) = connect(&server, 1).await;
    assert_eq!(ask(&mut sender, "/who", &token).await.unwrap().status(), 429);
    let mut other = connect(&server, 64 * 1024).await.0;
    drop(unread);
    let freed = async { while ask(&mut other, "/who", &token).await.unwrap().status() != 200 {} };
    tokio::time::timeout(Duration::from_secs(10), freed)
        .await
        .expect("a disconnected client frees its slots");
    server.stop().await;
}

/// Strangers who read nothing must not make the server look dead to those who check on it, even if they leave the answers
/// to probes unread, too.
#[tokio::test]
async fn probes_are_answered_while_strangers_read_nothing() {
    const CONNECTIONS: usize = 4;
    const ANONYMOUS: &str = "";
    let server = start();
    let mut unread = Vec::new();
    let most = limits::UNAUTHENTICATED_REFUSALS_MAX;
    for (path, streams) in [("/who", limits::USER_READS_MAX / CONNECTIONS), ("/healthz", most)] {
        for _ in 0..CONNECTIONS {
            let (mut sender, _connection) = connect(&server, 0).await;
            for _ in 0..streams {
                let answer = ask(&mut sender, path, ANONYMOUS).await.unwrap();
                assert_eq!(answer.status(), 200, "{path}");
                unread.push((answer, sender.clone()));
            }
        }
    }
    let (mut sender, _connection) = connect(&server, 64 * 1024).await;
    assert_eq!(ask(&mut sender, "/who", ANONYMOUS).await.unwrap().status(), 429);
    for path in ["/healthz", "/livez", "/readyz?verbose"] {
        assert_eq!(ask(&mut sender, path, ANONYMOUS).await.unwrap().status(), 200, "{path}");
    }
    drop(unread);
    server.stop().await;
}

/// Time stands still and jumps to the next deadline when every task waits.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_ends_its_connection() {
    let server = start();
    let token = server.credentials.admin_token.clone();
    let (mut sender, connection) = connect(&server, 1).await;
    let started = tokio::time::Instant::now();
    let answer = ask(&mut sender, "/list", &token).await.unwrap();
    assert_eq!(answer.status(), 200);
    let _ = connection.await.unwrap();
    assert!(started.elapsed() <= limits::STALL_TIME + Duration::from_secs(1), "{:?}", started.elapsed());
    drop(answer);
    server.stop().await;
}

/// The answer of a Pod does not end by itself, and its slot is one of few.
#[tokio::test(start_paused = true)]
async fn an_answer_of_a_pod_that_is_not_read_ends_its_connection() {
    let server = start();
    let token = server.credentials.admin_token.clone();
    let (mut sender, connection) = connect(&server, 1).await;
    let started = tokio::time::Instant::now();
    let answer = ask(&mut sender, "/api/v1/namespaces/a/pods/x/proxy/endless", &token).await.unwrap();
    assert_eq!(answer.status(), 200);
    let _ = tokio::time::timeout(10 * limits::STALL_TIME, connection).await.expect("it is cut off");
    assert!(started.elapsed() <= limits::STALL_TIME + Duration::from_secs(1), "{:?}", started.elapsed());
    drop(answer);
    server.stop().await;
}

/// A read has no body. What a client sends nevertheless is not kept while its request waits.
#[tokio::test]
async fn bodies_of_reads_are_discarded() {
    // Only a failing test waits that long.
    const PATIENCE: Duration = Duration::from_secs(30);
    let server = start();
    let token = server.credentials.admin_token.clone();
    let (sender, _connection) = connect(&server, 64 * 1024).await;
    let mut held = Vec::new();
    for at in 0..limits::CONNECTION_WINDOW_BYTES / limits::STREAM_WINDOW_BYTES + 4 {
        let mut ready = sender.clone().ready().await.unwrap();
        let request =
            Request::get("https://localhost/hold").header("authorization", format!("Bearer {token}"));
        let (answer, mut body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        let mut left = limits::STREAM_WINDOW_BYTES as usize;
        while left > 0 {
            body.reserve_capacity(left);
            let given =
                tokio::time::timeout(PATIENCE, std::future::poll_fn(|context| body.poll_capacity(context)));
            let given = given.await.unwrap_or_else(|_| panic!("read {at} cannot be sent")).unwrap().unwrap();
            body.send_data(vec![b'x'; given.min(left)].into(), false).unwrap();
            left = left.saturating_sub(given);
        }
        held.push((answer, body));
    }
    drop(held);
    server.stop().await;
}
