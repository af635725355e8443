//! Tests handlers of the operator itself rather than of an object: startup, shutdown, probes on `/healthz`.

use std::sync::atomic::{AtomicU32, Ordering};

use homeostat_runtime::{CancellationToken, Error, Handlers, Operator, terminal};

use super::{Gadget, gadget, lab, run, says};

#[tokio::test(start_paused = true)]
async fn startup_comes_first_and_shutdown_last() {
    let mut lab = lab().await;
    gadget(&lab, "g", 1).await;
    let log = lab.log.clone();
    let (up, down) = (log.clone(), log.clone());
    let handlers = Handlers::<Gadget>::new().on_create("create", says(&log, "create")).daemon("daemon", {
        let log = log.clone();
        move |_, cx| {
            let log = log.clone();
            async move {
                cx.stop().cancelled().await;
                log.say("daemon ends");
                Ok(())
            }
        }
    });
    let running = lab.run(move |operator| {
        operator
            .state(AtomicU32::new(0))
            .on_startup("connect", move |activity| {
                let attempt = activity.state::<AtomicU32>().fetch_add(1, Ordering::Relaxed);
                up.say(format!("startup {attempt}"));
                async move { if attempt == 0 { Err("not yet")? } else { Ok(()) } }
            })
            .on_shutdown("close", move |_| {
                down.say("shutdown");
                async { Ok(()) }
            })
            .control(handlers)
    });
    lab.rest().await;
    assert_eq!(log.take(), ["startup 0"], "nothing is handled before");
    lab.pass(2).await;
    assert_eq!(log.take(), ["startup 1", "create"]);
    running.stop.cancel();
    lab.pass(1).await;
    assert_eq!(log.take(), ["daemon ends", "shutdown"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_startup_ends_the_operator() {
    let lab = lab().await;
    let operator = Operator::new("o").on_startup("connect", |_| async { Err(terminal("no such database")) });
    let ended = operator.run_on(lab.client.clone(), CancellationToken::new()).await;
    assert!(
        matches!(&ended, Err(Error::Startup { id, error }) if id == "connect" && error == "no such database")
    );
    let waiting = Operator::new("o").on_startup("connect", |_| async { Err("not yet")? });
    let stop = CancellationToken::new();
    stop.cancel();
    waiting.run_on(lab.client.clone(), stop).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn probes_show_on_healthz() {
    let mut lab = lab().await;
    let running = lab.run(move |operator| {
        operator
            .state(AtomicU32::new(0))
            .probe("pool", |activity| async move {
                match activity.state::<AtomicU32>().fetch_add(1, Ordering::Relaxed) {
                    2.. => Err("no connections")?,
                    asked => Ok(asked),
                }
            })
            .probe("plain", |_| async { Ok(()) })
    });
    lab.rest().await;
    for number in 0..2 {
        let well = running.page("/healthz").await;
        assert!(well.starts_with("HTTP/1.1 200"), "{well}");
        assert!(well.ends_with(&format!("[+] pool {number}\n[+] plain ok\n")), "{well}");
    }
    let ill = running.page("/healthz").await;
    assert!(ill.starts_with("HTTP/1.1 503") && ill.contains("[-] pool no connections\n"), "{ill}");
    running.stop.cancel();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "two handlers of Gadget have the id create")]
async fn ids_are_unique() {
    let mut lab = lab().await;
    let log = lab.log.clone();
    let handlers =
        Handlers::<Gadget>::new().on_create("create", says(&log, "")).on_delete("create", says(&log, ""));
    run(&mut lab, handlers).await;
}
