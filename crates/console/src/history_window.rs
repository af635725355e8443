//! How far back the server's history reaches. The API itself says so: when it rejects a watch from a revision that is
//! too old, it names the oldest one it has.

use std::time::Duration;

use futures::StreamExt as _;

use crate::api::{Refusal, ViewerApi, WatchItem};
use crate::bounded_json::ROW_LIMITS;
use crate::field::revision;
use crate::kinds::WatchedKind;

/// How long to wait for the refusal. If none arrives, the server has accepted the watch, which also answers the
/// question.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// This fraction (one in `MARGIN`) of the window is skipped at its old end, because history expires while it is being
/// read.
const MARGIN: u64 = 20;

/// Returns the oldest revision from which history can be read; `None` if the server does not say.
pub(crate) async fn load_window_start(api: &ViewerApi, kinds: &[WatchedKind]) -> Option<u64> {
    for kind in kinds {
        let list = format!("{}?limit=1", kind.path(None));
        let Ok(head) = api.load_list(&list, ROW_LIMITS, |_| ()).await else { continue };
        let newest = revision(&head);
        let path = format!("{}?watch=true&resourceVersion=1&timeoutSeconds=1", kind.path(None));
        let mut watch = api.watch(path, ROW_LIMITS);
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
