//! An API outside the cluster: an in-memory twin of it, whose calls are scheduled, fail and lag like all others.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::engine::{
    MakeOutside, OutsideCall, OutsideFate, OutsideInstance, ParkedCall, ParkedWork, Parking, ProcessNumber,
    ProcessStart,
};

/// The number of former states that are kept for stale answers.
const PAST_STATES: usize = 8;

/// A call of the outside API failed. It may or may not have been carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideError;

impl fmt::Display for OutsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call of the outside API failed; it may have been done")
    }
}

impl std::error::Error for OutsideError {}

struct Twin<W> {
    present: W,
    /// The former states and, last, the current one.
    past: Vec<W>,
}

/// A process's client of the outside API. Cheap to clone.
pub struct Outside<W> {
    twin: Arc<Mutex<Twin<W>>>,
    parking: Arc<Parking>,
    process: ProcessNumber,
}

impl<W> Clone for Outside<W> {
    fn clone(&self) -> Self {
        Self { twin: Arc::clone(&self.twin), parking: Arc::clone(&self.parking), process: self.process }
    }
}

impl<W> fmt::Debug for Outside<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<W: Clone + Send + 'static> Outside<W> {
    fn twin(twin: &Mutex<Twin<W>>) -> MutexGuard<'_, Twin<W>> {
        twin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state outside. `what` names the call in traces: `create vm-1`. The change must be `Clone`, because the
    /// simulator may carry it out twice.
    ///
    /// # Errors
    /// Fails if the simulator makes the call fail. It may have been carried out nevertheless.
    pub async fn write<R: Send + 'static>(
        &self,
        what: impl Into<String>,
        change: impl FnOnce(&mut W) -> R + Clone + Send + 'static,
    ) -> Result<R, OutsideError> {
        let twin = Arc::clone(&self.twin);
        self.call(what.into(), true, move |_| {
            let mut twin = Self::twin(&twin);
            let before = twin.present.clone();
            twin.past.push(before);
            if twin.past.len() > PAST_STATES {
                twin.past.remove(0);
            }
            change(&mut twin.present)
        })
        .await
    }

    /// Reads the state outside, which may be an old one.
    ///
    /// # Errors
    /// Fails if the simulator makes the call fail.
    pub async fn read<R: Send + 'static>(
        &self,
        what: impl Into<String>,
        look: impl FnOnce(&W) -> R + Clone + Send + 'static,
    ) -> Result<R, OutsideError> {
        let twin = Arc::clone(&self.twin);
        self.call(what.into(), false, move |age| {
            let twin = Self::twin(&twin);
            let old = twin.past.len().checked_sub(age).and_then(|at| twin.past.get(at));
            look(old.unwrap_or(&twin.present))
        })
        .await
    }

    async fn call<R: Send + 'static>(
        &self,
        what: String,
        is_write: bool,
        perform: impl FnOnce(usize) -> R + Clone + Send + 'static,
    ) -> Result<R, OutsideError> {
        let (answer, answered) = oneshot::channel();
        let perform = Box::new(move |fate| {
            let result = match fate {
                OutsideFate::Done => Ok(perform(0)),
                OutsideFate::DoneTwice => {
                    perform.clone()(0);
                    Ok(perform(0))
                }
                OutsideFate::Stale(age) => Ok(perform(age)),
                OutsideFate::DoneAndFailed => {
                    perform(0);
                    Err(OutsideError)
                }
                OutsideFate::DoneAndLost => {
                    perform(0);
                    return;
                }
                OutsideFate::Failed => Err(OutsideError),
            };
            // The caller may no longer be waiting.
            let _ = answer.send(result);
        });
        let work = ParkedWork::Outside(OutsideCall { what, is_write, perform });
        self.parking.park(ParkedCall { process: self.process, work });
        match answered.await {
            Ok(result) => result,
            // The process has crashed.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn of_process(start: &ProcessStart) -> Self {
        let twin = start.outside.clone().expect("a simulation with an outside gives it to every process");
        Self {
            twin: twin.downcast().expect("a simulation has one type of outside"),
            parking: Arc::clone(&start.parking),
            process: start.process,
        }
    }
}

/// Returns the function that creates a new twin for every schedule.
pub(crate) fn make_outside<W: Clone + fmt::Debug + Send + Sync + 'static>(initial: W) -> MakeOutside {
    Arc::new(move || {
        let twin = Arc::new(Mutex::new(Twin { present: initial.clone(), past: Vec::new() }));
        let described = Arc::clone(&twin);
        let describe = Arc::new(move || format!("{:?}", Outside::twin(&described).present));
        let drifted = Arc::clone(&twin);
        let drift = Arc::new(move |changes: usize| {
            let mut twin = Outside::twin(&drifted);
            let Some(at) = twin.past.len().checked_sub(changes) else { return };
            let before = twin.past[at].clone();
            let present = std::mem::replace(&mut twin.present, before);
            twin.past.push(present);
        });
        OutsideInstance { twin, describe, drift }
    })
}
