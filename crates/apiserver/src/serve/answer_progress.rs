//! Monitors whether the client of a connection reads its responses.
//!
//! **Invariant:** an answer of which less than [`limits::STALL_BYTES`] was read in [`limits::STALL_TIME`] ends its
//! connection and frees its memory; so does a list whose outdated objects exceed the available memory. Time that the
//! server itself takes does not count, nor that of a Pod whose answer is passed on. Watches and logs are exempt, because
//! they have nothing to send most of the time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer_memory::{AnswerMemoryReservation, UserAnswerMemory};
use crate::body::{Body, RetainedObjects};
use crate::limits;

/// The responses on one connection that have not been sent completely.
#[derive(Debug, Default)]
pub(crate) struct AnswerProgress {
    answers: Mutex<UnsentAnswers>,
    /// Signals that a check is due earlier than planned.
    is_due_sooner: Notify,
}

#[derive(Debug, Default)]
struct UnsentAnswers {
    next: u64,
    all: BTreeMap<u64, UnsentAnswer>,
}

#[derive(Debug)]
struct UnsentAnswer {
    /// When the client last read enough of it.
    moved_at: Instant,
    /// How many bytes were read since then.
    bytes: usize,
    /// Whether it waits for the server to produce its next piece.
    is_being_made: bool,
    list: Option<ListResponseInProgress>,
}

/// A response that retains objects.
pub(super) struct ListResponseInProgress {
    kept: Arc<dyn RetainedObjects>,
    memory: UserAnswerMemory,
    age: Duration,
    check_at: Instant,
    /// The memory for outdated objects.
    reservation: Option<AnswerMemoryReservation>,
}

/// A response in progress, until dropped.
#[derive(Debug)]
pub(crate) struct AnswerInProgress {
    progress: Arc<AnswerProgress>,
    number: u64,
}

impl ListResponseInProgress {
    /// Returns the list that an answer is, if it is one.
    pub(super) fn of_body(body: &Body, memory: &UserAnswerMemory) -> Option<Self> {
        let Body::List(_, kept) = body else { return None };
        Some(Self::new(Arc::clone(kept), memory.clone()))
    }

    /// Creates a list that begins now.
    pub(super) fn new(kept: Arc<dyn RetainedObjects>, memory: UserAnswerMemory) -> Self {
        let age = limits::LIST_CHECK_TIME;
        Self { kept, memory, age, check_at: Instant::now() + age, reservation: None }
    }
}

impl fmt::Debug for ListResponseInProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("List").field("check_at", &self.check_at).finish_non_exhaustive()
    }
}

impl UnsentAnswer {
    /// Returns when the list must be checked.
    fn due_at(&self) -> Instant {
        let stalls_at = self.moved_at + limits::STALL_TIME;
        self.list.as_ref().map_or(stalls_at, |list| stalls_at.min(list.check_at))
    }

    fn moved(&mut self) {
        (self.moved_at, self.bytes) = (Instant::now(), 0);
    }
}

impl AnswerProgress {
    /// Adds another response to send.
    pub(super) fn begin(self: &Arc<Self>, list: Option<ListResponseInProgress>) -> AnswerInProgress {
        let is_list = list.is_some();
        let mut answers = self.answers();
        let number = answers.next;
        answers.next += 1;
        let answer = UnsentAnswer { moved_at: Instant::now(), bytes: 0, is_being_made: false, list };
        answers.all.insert(number, answer);
        drop(answers);
        if is_list {
            self.is_due_sooner.notify_one();
        }
        AnswerInProgress { progress: Arc::clone(self), number }
    }

    /// Waits until the client has not read a response for too long, or a response needs more memory than is available.
    pub(super) async fn stalled(&self) {
        loop {
            let now = Instant::now();
            if self.is_any_stalled(now) || !self.check_lists(now) {
                return;
            }
            let due_at = self.answers().all.values().map(UnsentAnswer::due_at).min();
            let due_at = due_at.unwrap_or(now + limits::STALL_TIME);
            tokio::select! {
                () = tokio::time::sleep_until(due_at) => {}
                () = self.is_due_sooner.notified() => {}
            }
        }
    }

    fn is_any_stalled(&self, now: Instant) -> bool {
        let mut answers = self.answers();
        for answer in answers.all.values_mut().filter(|answer| answer.is_being_made) {
            answer.moved();
        }
        answers.all.values().any(|answer| answer.moved_at + limits::STALL_TIME <= now)
    }

    /// Charges lists for the objects that only they still hold. Returns false if there is no memory for them.
    fn check_lists(&self, now: Instant) -> bool {
        let mut answers = self.answers();
        let mut due = Vec::new();
        for (number, answer) in &mut answers.all {
            let Some(list) = answer.list.as_mut().filter(|list| list.check_at <= now) else { continue };
            list.check_at = now + list.age;
            list.age *= 2;
            due.push((*number, Arc::clone(&list.kept)));
        }
        drop(answers);
        due.into_iter().all(|(number, kept)| {
            // This happens outside the lock, because it takes some time.
            let bytes = kept.outdated_bytes();
            let mut answers = self.answers();
            let Some(list) = answers.all.get_mut(&number).and_then(|answer| answer.list.as_mut()) else {
                return true;
            };
            list.reservation = None;
            if bytes > 0 {
                list.reservation = list.memory.reserve(bytes);
            }
            bytes == 0 || list.reservation.is_some()
        })
    }

    fn answers(&self) -> MutexGuard<'_, UnsentAnswers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerInProgress {
    /// Records that the client has read this many bytes.
    pub(super) fn taken(&self, bytes: usize) {
        if let Some(answer) = self.progress.answers().all.get_mut(&self.number) {
            answer.bytes += bytes;
            if answer.bytes >= limits::STALL_BYTES {
                answer.moved();
            }
        }
    }

    /// Records whether the next piece is being produced.
    pub(super) fn set_being_made(&self, is_being_made: bool) {
        if let Some(answer) = self.progress.answers().all.get_mut(&self.number) {
            if answer.is_being_made {
                answer.moved();
            }
            answer.is_being_made = is_being_made;
        }
    }
}

impl Drop for AnswerInProgress {
    fn drop(&mut self) {
        self.progress.answers().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::super::answer_memory::AnswerMemory;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_stalls_and_a_read_one_does_not() {
        let progress = Arc::new(AnswerProgress::default());
        let mut stalled = Box::pin(progress.stalled());
        assert!(stalled.as_mut().now_or_never().is_none());
        tokio::time::advance(10 * limits::STALL_TIME).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "there is nothing to take");
        let (moving, left) = (progress.begin(None), progress.begin(None));
        let almost = limits::STALL_TIME / 10 * 9;
        tokio::time::advance(almost).await;
        moving.taken(limits::STALL_BYTES);
        assert!(stalled.as_mut().now_or_never().is_none());
        drop(left);
        tokio::time::advance(almost).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "the other one is done");
        tokio::time::timeout(limits::STALL_TIME, stalled).await.expect("it was left alone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_is_not_progress_and_server_time_does_not_count() {
        let progress = Arc::new(AnswerProgress::default());
        let answer = progress.begin(None);
        answer.set_being_made(true);
        let mut stalled = Box::pin(progress.stalled());
        for _ in 0..10 {
            tokio::time::advance(limits::STALL_TIME / 2).await;
            assert!(stalled.as_mut().now_or_never().is_none(), "the client has nothing to take");
        }
        answer.set_being_made(false);
        let trickle = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                answer.taken(1);
            }
        };
        let patience = limits::STALL_TIME * 2;
        tokio::select! {
            () = stalled => {}
            () = trickle => {}
            () = tokio::time::sleep(patience) => panic!("a byte a second must not count as progress"),
        }
        drop(answer);
    }

    struct Outdated(AtomicUsize);

    impl RetainedObjects for Outdated {
        fn outdated_bytes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_lists_are_charged_for_objects_nobody_else_needs() {
        let (progress, memory) =
            (Arc::new(AnswerProgress::default()), AnswerMemory::default().for_user("jane"));
        let kept = Arc::new(Outdated(0.into()));
        let half = limits::USER_UNSENT_BYTES_MAX / 2;
        let list =
            || ListResponseInProgress::new(Arc::clone(&kept) as Arc<dyn RetainedObjects>, memory.clone());
        let mut stalled = Box::pin(progress.stalled());
        let lists = [progress.begin(Some(list())), progress.begin(Some(list()))];
        tokio::time::advance(limits::LIST_CHECK_TIME).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "all they keep is stored");
        assert!(memory.reserve(limits::USER_UNSENT_BYTES_MAX).is_some());
        kept.0.store(half, Ordering::Relaxed);
        tokio::time::advance(2 * limits::LIST_CHECK_TIME).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "there is room");
        assert!(memory.reserve(1).is_none());
        kept.0.store(half + 1, Ordering::Relaxed);
        tokio::time::timeout(8 * limits::LIST_CHECK_TIME, stalled)
            .await
            .expect("the wait ends for lack of memory");
        drop(lists);
        assert!(memory.reserve(limits::USER_UNSENT_BYTES_MAX).is_some(), "they take nothing any more");
    }
}
