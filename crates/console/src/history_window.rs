//! How far back the server's history reaches: asked of the API itself, which names the oldest revision when it refuses
//! a watch from an older one.

use std::time::Duration;

use futures::StreamExt as _;

use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::field::revision;
use crate::kinds::WatchedKind;

/// How long the server may take to refuse. A watch that it accepts may stay silent, which is also an answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The share of the window that is left out at its old end: history moves on while it is read.
const MARGIN: u64 = 20;

/// Returns the oldest revision from which history can be read; `None` if the server does not say.
pub(crate) async fn load_window_start(api: &ViewerApi, kinds: &[WatchedKind]) -> Option<u64> {
    for kind in kinds {
        let Ok(page) = api.load(&format!("{}?limit=1", kind.path(None))).await else { continue };
        let newest = revision(&page["metadata"]);
        let mut watch =
            api.watch(format!("{}?watch=true&resourceVersion=1&timeoutSeconds=1", kind.path(None)));
        let first = tokio::time::timeout(ANSWER_MAX, watch.next()).await;
        return match first {
            Ok(Some(WatchItem::Ended(refusal))) if refusal.code == 410 => {
                let oldest = oldest_named(&refusal)?;
                Some(oldest + newest.saturating_sub(oldest) / MARGIN)
            }
            _ => Some(1),
        };
    }
    None
}

/// Returns the number in `too old resource version: 1 (4711)`.
fn oldest_named(refusal: &Refusal) -> Option<u64> {
    let (_, rest) = refusal.message.rsplit_once('(')?;
    rest.trim_end_matches(')').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_revision_is_in_the_refusal() {
        let refusal = |message: &str| Refusal { code: 410, message: message.to_owned() };
        assert_eq!(oldest_named(&refusal("too old resource version: 1 (4711)")), Some(4711));
        assert_eq!(oldest_named(&refusal("too old resource version")), None);
    }
}
