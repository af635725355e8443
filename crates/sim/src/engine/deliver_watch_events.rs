//! Takes watch events from the server, delivers them when it is their turn, and chooses what happens next.
//!
//! The default order is the order of arrival: events before calls, and by name if two arrive together. The server's own
//! work happens a little later.

use std::task::Context;
use std::time::Duration;

use tokio::time::Instant;

use super::calls::ASIDE;
use super::notes::WriteAttribution;
use super::process::ProcessRole;
use super::record::{Actor, PointKind};
use super::run::ScheduleRun;
use super::watch_streams::{OpenWatch, WatchFrame, WatchHold, read_frame};
use crate::fault::Fault;

/// The longest time that a watch waits for further writes.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How long the server takes for its own work, such as garbage collection: longer than calls, as in every cluster.
const SERVER_DELAY: Duration = Duration::from_millis(500);

impl ScheduleRun<'_> {
    /// Reads the events that the server has written to the watches.
    pub(crate) fn pull_watches(&mut self) {
        let waker = futures::task::noop_waker();
        self.pull_with(&mut Context::from_waker(&waker));
    }

    /// Reads the events as well, and wakes the task of `cx` when there are more. Returns whether there is a new event.
    pub(crate) fn pull_with(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_news = false;
        let round = self.round;
        for watch in &mut self.watches {
            for line in watch.pull(cx) {
                let Some(frame) = read_frame(&line, round) else { continue };
                let is_change = matches!(&*frame.change, "ADDED" | "MODIFIED" | "DELETED");
                if is_change || watch.hold.is_some() || !watch.frames.is_empty() {
                    watch.frames.push_back(frame);
                    is_news |= is_change;
                } else {
                    watch.send(line);
                }
            }
        }
        self.watches
            .retain(|watch| !(watch.sender.is_closed() || watch.has_ended && watch.frames.is_empty()));
        is_news
    }

    /// Performs the next call or delivers the next event; returns false if nothing is waiting.
    pub(crate) async fn perform_next(&mut self) -> bool {
        self.release_holds();
        let now = Instant::now();
        if self.background_due.is_none() && self.background.next_step().is_some() {
            self.background_due = Some(now + SERVER_DELAY);
        }
        let frame = self.next_frame(now);
        let call = self.next_call(now);
        let frame_round = frame.map_or(u64::MAX, |at| self.watches[at].frames[0].round);
        let call_round = call.map_or(u64::MAX, |at| self.calls[at].round);
        let first = frame_round.min(call_round);
        match (frame, call) {
            (Some(at), _) if frame_round == first => self.perform_frame(at).await,
            (_, Some(at)) if call_round == first => {
                let call = self.calls.remove(at);
                self.perform_call(call).await;
            }
            _ if self.background_due.is_some_and(|due| due <= now) => {
                self.background_due = None;
                self.record.operations += 1;
                let what = self.background.next_step().unwrap_or_default();
                self.background.step().await;
                if self.note_changes(&WriteAttribution::plain(Actor::Server)) > 0 {
                    self.tell("server", false, || what);
                }
            }
            _ => return false,
        }
        true
    }

    fn next_frame(&self, now: Instant) -> Option<usize> {
        let ready = self.watches.iter().enumerate().filter(|(_, watch)| {
            let is_frozen = self
                .processes
                .iter()
                .any(|process| process.number == watch.process && process.is_frozen(now));
            watch.hold.is_none() && !watch.frames.is_empty() && !is_frozen
        });
        let first = ready.min_by(|(_, one), (_, other)| {
            (one.frames[0].round, &one.resource).cmp(&(other.frames[0].round, &other.resource))
        });
        first.map(|(at, _)| at)
    }

    fn next_call(&self, now: Instant) -> Option<usize> {
        self.calls.iter().position(|call| {
            let is_late = call.not_before.is_some_and(|due| now < due);
            let is_frozen = || {
                self.processes.iter().any(|process| process.number == call.process && process.is_frozen(now))
            };
            !is_late && !is_frozen()
        })
    }

    /// Ends the silence of watches that have been silent for long enough.
    fn release_holds(&mut self) {
        let (now, writes) = (Instant::now(), self.record.changes.len() as u64);
        let mut is_released = false;
        for watch in &mut self.watches {
            let Some(hold) = &watch.hold else { continue };
            let again = |frame: &WatchFrame| Some(&frame.object) == hold.object.as_ref();
            let is_over = now >= hold.until
                || hold.writes.is_some_and(|until| writes >= until)
                || hold.object.is_some() && watch.frames.iter().filter(|frame| again(frame)).count() > 1;
            if !is_over {
                continue;
            }
            let round = self.round;
            watch.frames.iter_mut().for_each(|frame| frame.round = round);
            if hold.expires {
                watch.send_expired();
                watch.frames.clear();
                watch.has_ended = true;
            }
            watch.hold = None;
            is_released = true;
        }
        // A watch that must list again is not at rest until it has done so.
        if is_released {
            self.note_activity();
        }
        self.watches.retain(|watch| !(watch.has_ended && watch.frames.is_empty()));
    }

    /// Delivers an event, with its faults.
    async fn perform_frame(&mut self, at: usize) {
        self.record.operations += 1;
        let frame = self.watches[at].frames[0].clone();
        let is_change = matches!(&*frame.change, "ADDED" | "MODIFIED" | "DELETED");
        let replica = self.watches[at].process;
        let role = self.process(replica).map(|process| process.role);
        let who = role.map(|role| self.shown_role(role)).unwrap_or_default();
        let is_tested = matches!(role, Some(ProcessRole::Tested(_)));
        let plural = self.watches[at].resource.split('.').next().unwrap_or_default();
        let is_aside = ASIDE.contains(&plural);
        let resource = self.watches[at].resource.clone();
        let name = format!("{who}watch {resource}: {} {}", frame.change.to_lowercase(), frame.object);
        let object = format!("{resource} {}", frame.object);
        let faults = if is_change && is_tested && !is_aside {
            self.visit(&name, PointKind::Frame, &object)
        } else {
            Vec::new()
        };
        for fault in faults {
            let address = self.record.points.last().map(|point| point.address.clone()).unwrap_or_default();
            self.tell("FAULT", true, || format!("{}: {}", address, fault.shown()));
            if self.disturb_frame(at, &frame, &fault).await {
                return;
            }
        }
        if is_change && !is_aside {
            self.note_activity();
            let actor = self.shown_process(replica);
            self.tell(&actor, false, || format!("is told: {object} was {}", frame.change.to_lowercase()));
        }
        // A step of the user may have come first, but it only appends events.
        if let Some(watch) = self.watches.get_mut(at)
            && watch.frames.pop_front().is_some()
        {
            watch.send(frame.bytes.clone());
            let process = watch.process;
            if let Some(process) = self.process(process) {
                process.known.insert(frame.uid);
            }
        }
    }

    /// Injects a fault; returns whether the event remains undelivered.
    async fn disturb_frame(&mut self, at: usize, frame: &WatchFrame, fault: &Fault) -> bool {
        let now = Instant::now();
        let writes = self.record.changes.len() as u64;
        let watch = &mut self.watches[at];
        let silent =
            |writes: Option<u64>, until: Instant| WatchHold { writes, until, expires: false, object: None };
        match fault {
            Fault::StepFirst => {
                self.do_next_step().await;
                return false;
            }
            Fault::Hold { writes: more } => watch.hold = Some(silent(Some(writes + more), now + HOLD_MAX)),
            Fault::Delay { seconds } => {
                watch.hold = Some(silent(None, now + Duration::from_secs(*seconds)));
            }
            Fault::Coalesce => {
                let hold = silent(None, now + HOLD_MAX);
                watch.hold = Some(WatchHold { expires: true, object: Some(frame.object.clone()), ..hold });
            }
            Fault::Cut => {
                self.watches.remove(at);
            }
            Fault::Expire => {
                watch.send_expired();
                self.watches.remove(at);
            }
            Fault::ExpireAgain { seconds } => {
                watch.send_expired();
                let OpenWatch { process, resource, .. } = self.watches.remove(at);
                self.expiring.insert((process, resource), now + Duration::from_secs(*seconds));
            }
            _ => return false,
        }
        self.note_activity();
        true
    }
}
