//! What the outside tells by itself: a change of a thing puts the objects that want it into the queue. The stream is
//! opened again when it ends or panics, and a full pass follows, because nobody knows what it would have told.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use homeostat_core::journal::Cause;

use super::contract::{Answer, Push, World};
use super::parts::WorldParts;
use crate::controller_queue::ControllerQueue;
use crate::engine::words_of;
use crate::queue::{Backoff, Urgency};

/// Between two attempts to open the stream.
const REOPEN: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));

/// Listens until dropped; ends at once when the world tells nothing.
pub(super) async fn listen<W: World>(parts: Arc<WorldParts<W>>, queue: ControllerQueue) {
    let mut failures = 0;
    loop {
        let heeded = async {
            let stream = parts.world.watch()?;
            Some(heed(&parts, &queue, stream).await)
        };
        let heeded = AssertUnwindSafe(heeded).catch_unwind().await;
        let has_told = heeded.unwrap_or_else(|panic| {
            tracing::error!(world = W::NAME, why = words_of(&*panic), "the stream of changes panicked");
            Some(false)
        });
        let Some(has_told) = has_told else { return };
        failures = if has_told { 1 } else { failures + 1 };
        tokio::time::sleep(REOPEN.delay(failures, &parts.shared.entropy)).await;
        parts.wake.notify_one();
    }
}

/// Heeds one stream to its end; tells whether it brought anything.
async fn heed<W: World>(
    parts: &WorldParts<W>,
    queue: &ControllerQueue,
    mut stream: BoxStream<'static, Answer<Push>>,
) -> bool {
    let mut has_told = false;
    while let Some(told) = stream.next().await {
        match told {
            Ok(Push::Changed(name)) => {
                for key in parts.wishers(&name) {
                    parts.ledger.doubt(&key);
                    queue.add(&key, Cause::Outside { source: W::NAME.into() }, Urgency::Event);
                }
            }
            Ok(Push::Unknown) => parts.wake.notify_one(),
            Err(failure) => {
                tracing::debug!(world = W::NAME, error = %failure, "the stream of changes broke off");
                break;
            }
        }
        has_told = true;
    }
    has_told
}
