//! What a viewer may get, according to the API server and cached for a short time: the journal and the history name
//! objects, but have no access rules of their own.
//!
//! **Invariant:** an object that the server was not asked about, or did not answer for, counts as one the viewer may
//! not get.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Record};
use serde_json::json;
use tokio::time::Instant;

use crate::api::ViewerApi;

/// How long an answer is cached: revoked rights are noticed after this time.
pub(crate) const ANSWER_AGE_MAX: Duration = Duration::from_secs(30);

/// The maximum number of questions within that time; records about further objects are left out.
const QUESTIONS_MAX: usize = 200;

/// A viewer's rights.
pub(crate) struct ObjectAccessCheck {
    api: ViewerApi,
    answers: BTreeMap<Key, bool>,
    asked_since: Instant,
}

impl ObjectAccessCheck {
    pub(crate) fn new(api: ViewerApi, now: Instant) -> Self {
        Self { api, answers: BTreeMap::new(), asked_since: now }
    }

    /// Returns the records that name only objects the viewer may get. From the start of a run, causes that name other
    /// objects are removed, and the start is still shown.
    pub(crate) async fn readable_records(&mut self, records: Vec<Record>, now: Instant) -> Vec<Record> {
        let mut readable = Vec::new();
        for mut record in records {
            if let Entry::Started { causes, .. } = &mut record.entry {
                let mut shown = Vec::new();
                for cause in causes.drain(..) {
                    let is_shown = match cause.mentioned() {
                        Some(key) => self.may_get(key, now).await,
                        None => true,
                    };
                    shown.extend(is_shown.then_some(cause));
                }
                *causes = shown;
            }
            let named = record.entry.object().cloned().into_iter().chain(record.entry.mentioned());
            let mut is_shown = true;
            for key in named {
                is_shown = is_shown && self.may_get(&key, now).await;
            }
            readable.extend(is_shown.then_some(record));
        }
        readable
    }

    /// Returns whether the viewer may get an object.
    pub(crate) async fn may_get(&mut self, key: &Key, now: Instant) -> bool {
        // An external resource belongs to the object it is reported with.
        if key.group() == "outside" {
            return true;
        }
        if now.duration_since(self.asked_since) >= ANSWER_AGE_MAX {
            self.answers.clear();
            self.asked_since = now;
        }
        // Most viewers may get all objects of a kind in a namespace: one question answers for all of them.
        let all = Key::new(key.group(), key.resource(), key.namespace(), "");
        let is_namespace = key.group().is_empty() && key.resource() == "namespaces";
        (!is_namespace && self.ask(&all).await) || self.ask(key).await
    }

    async fn ask(&mut self, key: &Key) -> bool {
        if let Some(answer) = self.answers.get(key) {
            return *answer;
        }
        if self.answers.len() >= QUESTIONS_MAX {
            return false;
        }
        let is_namespace = key.group().is_empty() && key.resource() == "namespaces";
        let namespace = if is_namespace { key.name() } else { key.namespace() };
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": "get", "group": key.group(), "resource": key.resource(), "namespace": namespace, "name": key.name(),
            }},
        });
        let answer =
            self.api.review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &question).await;
        let may_get = answer.is_ok_and(|answer| answer["status"]["allowed"] == true);
        self.answers.insert(key.clone(), may_get);
        may_get
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures::future::BoxFuture;
    use homeostat_core::FieldDiff;
    use homeostat_core::journal::{Cause, Change, Verb, WriteOutcome};
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::console_source::{ApiAnswer, ApiRequest, ConsoleSource};

    /// A server that lets its viewer get everything in the namespace `a`, and nothing in `broken`, for which it returns
    /// an error.
    struct OneNamespace(AtomicUsize);

    impl ConsoleSource for OneNamespace {
        fn call(&self, request: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let question: Value =
                serde_json::from_slice(&request.review.expect("only reviews are sent")).unwrap();
            let namespace = question["spec"]["resourceAttributes"]["namespace"].clone();
            if namespace == "broken" {
                return Box::pin(async { ApiAnswer::failure(500, "out of order") });
            }
            let answer = Bytes::from(json!({"status": {"allowed": namespace == "a"}}).to_string());
            let body = futures::stream::once(async move { Ok(answer) });
            Box::pin(async { ApiAnswer { code: 201, body: Box::pin(body) } })
        }

        fn records_about(&self, _object: &Key) -> Vec<Record> {
            Vec::new()
        }
    }

    fn key(namespace: &str) -> Key {
        Key::new("", "configmaps", namespace, "x")
    }

    fn record(entry: Entry) -> Record {
        Record { at: Timestamp::UNIX_EPOCH, source: "thing".into(), entry }
    }

    fn wrote(object: &str, target: &str) -> Record {
        let (verb, outcome, diff) = (Verb::Apply, WriteOutcome::Skipped, FieldDiff::default());
        record(Entry::Wrote { object: key(object), verb, target: key(target), outcome, diff })
    }

    #[tokio::test]
    async fn records_that_name_what_the_viewer_may_not_get_are_left_out() {
        let source = Arc::new(OneNamespace(AtomicUsize::new(0)));
        let mut rights =
            ObjectAccessCheck::new(ViewerApi::new(source.clone(), String::new()), Instant::now());
        let records = [("a", "a"), ("a", "b"), ("b", "a"), ("a", "broken"), ("broken", "a")];
        let records = records.map(|(object, target)| wrote(object, target)).to_vec();
        assert_eq!(rights.readable_records(records, Instant::now()).await, [wrote("a", "a")]);
        assert_eq!(source.0.load(Ordering::Relaxed), 5, "one for a, two for each of the others");
    }

    #[tokio::test]
    async fn a_run_is_shown_without_the_causes_that_name_hidden_objects() {
        let mut rights = ObjectAccessCheck::new(
            ViewerApi::new(Arc::new(OneNamespace(AtomicUsize::new(0))), String::new()),
            Instant::now(),
        );
        let started = |causes: Vec<Cause>| {
            record(Entry::Started { object: key("a"), causes, failures: 0, waited: Duration::ZERO })
        };
        let related = |namespace| Cause::Related { other: key(namespace), change: Change::Modified };
        let records = vec![started(vec![Cause::Edited, related("b"), related("a")])];
        let shown = rights.readable_records(records, Instant::now()).await;
        assert_eq!(shown, [started(vec![Cause::Edited, related("a")])]);
    }

    #[tokio::test]
    async fn questions_are_bounded_and_the_rest_is_hidden() {
        let source = Arc::new(OneNamespace(AtomicUsize::new(0)));
        let mut rights =
            ObjectAccessCheck::new(ViewerApi::new(source.clone(), String::new()), Instant::now());
        let now = Instant::now();
        for number in 0..1000 {
            assert!(!rights.may_get(&key(&format!("n{number}")), now).await);
        }
        assert!(!rights.may_get(&key("a"), now).await, "the limit of questions is reached");
        assert_eq!(source.0.load(Ordering::Relaxed), QUESTIONS_MAX);
        assert!(rights.may_get(&key("a"), now + ANSWER_AGE_MAX).await, "old answers are dropped");
    }
}
