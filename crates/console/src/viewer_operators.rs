//! The operators of other processes, as one viewer sees them: asked at most once in a few seconds, however many pages
//! that viewer has open.
//!
//! **Invariant:** answers are shared only between streams with the same token, so that no viewer gets another one's
//! answers. What is kept is bounded by the number of open streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_core::activity::{ActivityReport, OperatorAnswers};
use homeostat_core::write_history::OperatorJournal;
use homeostat_core::{Clock, Key};
use tokio::time::Instant;

use crate::console_source::{ConsoleSource, OtherOperators};

/// How long an answer is used again, and so how often an operator is asked by one viewer. Each question costs the
/// API server a review of the token and a few of rights.
pub(crate) const ANSWER_AGE_MAX: Duration = Duration::from_secs(4);

/// How long the answers for a viewer without an open stream are kept: a page that is loaded again finds them.
const UNUSED_MAX: Duration = Duration::from_secs(30);

/// The maximum number of viewers whose answers are kept: more than there can be streams.
const VIEWERS_MAX: usize = 32;

type Kept<T> = (Instant, Arc<OperatorAnswers<T>>);

/// The operators of other processes, as one viewer sees them.
pub(crate) struct ViewerOperators {
    operators: Arc<dyn OtherOperators>,
    namespaces: Vec<String>,
    clock: Clock,
    activities: tokio::sync::Mutex<Option<Kept<ActivityReport>>>,
    journals: tokio::sync::Mutex<BTreeMap<Key, Kept<OperatorJournal>>>,
}

impl ViewerOperators {
    /// Returns what the operators are doing, which is at most [`ANSWER_AGE_MAX`] old. Dropping it ends the question.
    pub(crate) fn activities(self: Arc<Self>) -> BoxFuture<'static, Arc<OperatorAnswers<ActivityReport>>> {
        Box::pin(async move {
            // A second stream of the viewer waits here for the answer to the first one's question.
            let mut kept = self.activities.lock().await;
            if let Some((since, answers)) = &*kept
                && self.clock.instant() < *since + ANSWER_AGE_MAX
            {
                return Arc::clone(answers);
            }
            let loaded = Arc::clone(&self.operators).load_activities(self.namespaces.clone()).await;
            let answers = Arc::new(loaded);
            *kept = Some((self.clock.instant(), Arc::clone(&answers)));
            answers
        })
    }

    /// Returns what they did about an object, which is at most [`ANSWER_AGE_MAX`] old. A viewer's questions about several
    /// objects are asked one after the other.
    pub(crate) fn journals(
        self: Arc<Self>,
        object: Key,
        records_max: usize,
    ) -> BoxFuture<'static, Arc<OperatorAnswers<OperatorJournal>>> {
        Box::pin(async move {
            let mut kept = self.journals.lock().await;
            let now = self.clock.instant();
            kept.retain(|_, (since, _)| now < *since + ANSWER_AGE_MAX);
            if let Some((_, answers)) = kept.get(&object) {
                return Arc::clone(answers);
            }
            let mut namespaces = self.namespaces.clone();
            namespaces.extend(Some(object.namespace().to_owned()).filter(|name| !name.is_empty()));
            let operators = Arc::clone(&self.operators);
            let answers = Arc::new(operators.load_journals(namespaces, object.clone(), records_max).await);
            kept.insert(object, (self.clock.instant(), Arc::clone(&answers)));
            answers
        })
    }
}

/// The answers that are kept for viewers.
#[derive(Default)]
pub(crate) struct OperatorAnswerCache(Mutex<Vec<CachedViewer>>);

struct CachedViewer {
    token: String,
    namespaces: Vec<String>,
    operators: Arc<ViewerOperators>,
    used: Instant,
}

impl OperatorAnswerCache {
    /// Returns the operators of other processes for a viewer whose token the API server accepts.
    pub(crate) fn of_viewer(
        &self,
        source: &dyn ConsoleSource,
        token: &str,
        namespaces: &[String],
        clock: Clock,
    ) -> Option<Arc<ViewerOperators>> {
        let now = clock.instant();
        let mut viewers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        viewers.retain(|one| Arc::strong_count(&one.operators) > 1 || now < one.used + UNUSED_MAX);
        let known = viewers.iter_mut().find(|one| one.token == token && one.namespaces == namespaces);
        if let Some(known) = known {
            known.used = now;
            return Some(Arc::clone(&known.operators));
        }
        let operators = Arc::new(ViewerOperators {
            operators: source.other_operators(token)?,
            namespaces: namespaces.to_vec(),
            clock,
            activities: tokio::sync::Mutex::default(),
            journals: tokio::sync::Mutex::default(),
        });
        if viewers.len() >= VIEWERS_MAX {
            viewers.remove(0);
        }
        let (token, namespaces) = (token.to_owned(), namespaces.to_vec());
        viewers.push(CachedViewer { token, namespaces, operators: Arc::clone(&operators), used: now });
        Some(operators)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use homeostat_core::journal::Record;

    use super::*;
    use crate::console_source::{ApiAnswer, ApiRequest};

    /// Counts the questions to operators.
    #[derive(Default)]
    struct CountedOperators(Arc<AtomicUsize>);

    impl ConsoleSource for CountedOperators {
        fn call(&self, _request: ApiRequest) -> BoxFuture<'static, ApiAnswer> {
            Box::pin(async { ApiAnswer::failure(404, "nothing is here") })
        }

        fn records_about(&self, _object: &Key) -> Vec<Record> {
            Vec::new()
        }

        fn other_operators(&self, _token: &str) -> Option<Arc<dyn OtherOperators>> {
            Some(Arc::new(Self(Arc::clone(&self.0))))
        }
    }

    impl OtherOperators for CountedOperators {
        fn load_activities(
            self: Arc<Self>,
            _namespaces: Vec<String>,
        ) -> BoxFuture<'static, OperatorAnswers<ActivityReport>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { OperatorAnswers::default() })
        }

        fn load_journals(
            self: Arc<Self>,
            _namespaces: Vec<String>,
            _object: Key,
            _records_max: usize,
        ) -> BoxFuture<'static, OperatorAnswers<OperatorJournal>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { OperatorAnswers::default() })
        }
    }

    #[tokio::test]
    async fn many_pages_of_one_viewer_ask_once() {
        let (source, cache) = (CountedOperators::default(), OperatorAnswerCache::default());
        let of = |token: &str| cache.of_viewer(&source, token, &[], Clock::system()).expect("there are some");
        let count = || source.0.load(Ordering::Relaxed);
        for _ in 0..10 {
            of("jane").activities().await;
        }
        assert_eq!(count(), 1);
        of("joe").activities().await;
        assert_eq!(count(), 2, "nobody gets the answers of another");
        for name in ["x", "y", "x", "y"] {
            of("jane").journals(Key::new("", "configmaps", "a", name), 10).await;
        }
        assert_eq!(count(), 4);
    }

    #[tokio::test]
    async fn the_number_of_viewers_is_bounded() {
        let (source, cache) = (CountedOperators::default(), OperatorAnswerCache::default());
        for number in 0..10 * VIEWERS_MAX {
            cache.of_viewer(&source, &number.to_string(), &[], Clock::system());
        }
        assert_eq!(cache.0.lock().unwrap().len(), VIEWERS_MAX);
    }
}
