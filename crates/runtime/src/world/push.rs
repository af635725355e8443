//! What the outside tells by itself: a change of a thing puts the objects that want it into the queue. The stream is
//! opened again when it ends, and a full pass follows, because nobody knows what it would have told.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use homeostat_core::journal::Cause;

use super::contract::{Answer, Push, World};
use super::desk::Desk;
use crate::inbox::Inbox;
use crate::queue::{Backoff, Urgency};

/// Between two attempts to open the stream.
const REOPEN: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));

/// Listens until dropped; ends at once when the world tells nothing.
pub(super) async fn listen<W: World>(desk: Arc<Desk<W>>, inbox: Inbox) {
    let mut failures = 0;
    while let Some(stream) = desk.world.watch() {
        failures = if heed(&desk, &inbox, stream).await { 1 } else { failures + 1 };
        tokio::time::sleep(REOPEN.delay(failures, &desk.ground.entropy)).await;
        desk.wake.notify_one();
    }
}

/// Heeds one stream to its end; tells whether it brought anything.
async fn heed<W: World>(desk: &Desk<W>, inbox: &Inbox, mut stream: BoxStream<'static, Answer<Push>>) -> bool {
    let mut has_told = false;
    while let Some(told) = stream.next().await {
        match told {
            Ok(Push::Changed(name)) => {
                for key in desk.wishers(&name) {
                    desk.ledger.doubt(&key);
                    inbox.add(&key, Cause::Outside { source: W::NAME.into() }, Urgency::Event);
                }
            }
            Ok(Push::Unknown) => desk.wake.notify_one(),
            Err(failure) => {
                tracing::debug!(world = W::NAME, error = %failure, "the stream of changes broke off");
                break;
            }
        }
        has_told = true;
    }
    has_told
}
