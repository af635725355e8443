//! Follows the changes that the API reports on its own: a change to a resource queues the objects that desire it. The
//! stream is reopened when it ends or panics, and a full pass follows, because changes may have been missed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use homeostat_core::journal::Cause;

use super::world_parts::WorldParts;
use super::world_trait::{Answer, PushedChange, World};
use crate::panics::describe_panic;
use crate::queue::{Backoff, Urgency};
use crate::workers::controller_queue::ControllerQueue;

/// The pause between two attempts to open the stream.
const REOPEN: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));

/// Listens until dropped; returns at once if the world has no change stream.
pub(super) async fn listen<W: World>(parts: Arc<WorldParts<W>>, queue: ControllerQueue) {
    let mut failures = 0;
    loop {
        let heeded = async {
            let stream = parts.world.watch()?;
            Some(heed(&parts, &queue, stream).await)
        };
        let heeded = AssertUnwindSafe(heeded).catch_unwind().await;
        let has_told = heeded.unwrap_or_else(|panic| {
            tracing::error!(world = W::NAME, why = describe_panic(&*panic), "the stream of changes panicked");
            Some(false)
        });
        let Some(has_told) = has_told else { return };
        failures = if has_told { 1 } else { failures + 1 };
        tokio::time::sleep(REOPEN.delay(failures, &parts.shared.entropy)).await;
        parts.wake.notify_one();
    }
}

/// Follows one stream until it ends; returns whether it delivered anything.
async fn heed<W: World>(
    parts: &WorldParts<W>,
    queue: &ControllerQueue,
    mut stream: BoxStream<'static, Answer<PushedChange>>,
) -> bool {
    let mut has_told = false;
    while let Some(told) = stream.next().await {
        match told {
            Ok(PushedChange::Changed(name)) => {
                for key in parts.objects_wanting(&name) {
                    parts.memory.doubt(&key);
                    queue.add(&key, Cause::Outside { source: W::NAME.into() }, Urgency::Event);
                }
            }
            Ok(PushedChange::Unknown) => parts.wake.notify_one(),
            Err(failure) => {
                tracing::debug!(world = W::NAME, error = %failure, "the stream of changes broke off");
                break;
            }
        }
        has_told = true;
    }
    has_told
}
