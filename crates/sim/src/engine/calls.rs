//! Handles the operator's calls: takes them from where they are parked, names them, and performs them, fails them, or
//! crashes the caller.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use serde_json::json;
use tokio::time::Instant;

use super::notes::WriteAttribution;
use super::parking::{ApiCall, CallAnswer, OutsideCall, OutsideFate, ParkedCall, ParkedWork, ProcessNumber};
use super::process::ProcessRole;
use super::record::{Actor, PointKind};
use super::run::ScheduleRun;
use super::wire::{AnswerBody, json_answer, start_question};
use crate::address::{CallTarget, CallVerb};
use crate::fault::Fault;

/// Resources that operators write for people or for themselves. Calls about them are never points and never judged.
pub(crate) const ASIDE: [&str; 4] =
    ["events", "leases", "selfsubjectaccessreviews", "customresourcedefinitions"];

/// A call that waits for its turn.
pub(crate) struct WaitingCall {
    pub(crate) process: ProcessNumber,
    pub(crate) round: u64,
    pub(crate) name: String,
    pub(crate) kind: PointKind,
    pub(crate) object: String,
    pub(crate) target: Option<CallTarget>,
    pub(crate) work: ParkedWork,
    /// Its faults have already been injected.
    pub(crate) is_visited: bool,
    /// The number of steps the user had done when the operator made the call.
    pub(crate) step: usize,
    /// The time at which it arrives.
    pub(crate) not_before: Option<Instant>,
}

impl ScheduleRun<'_> {
    /// Takes the calls that have arrived; those that faults never affect are answered immediately.
    pub(crate) async fn take_calls(&mut self) {
        for ParkedCall { process, work } in self.parking.take() {
            let Some(role) = self.process(process).map(|process| process.role) else { continue };
            let who = self.shown_role(role);
            let is_visited = matches!(role, ProcessRole::Beside(_));
            match work {
                ParkedWork::Outside(call) => {
                    let kind = if call.is_write { PointKind::OutsideWrite } else { PointKind::OutsideRead };
                    let name = format!("{who}outside {}", call.what);
                    let object = format!("outside {}", call.what);
                    self.calls.push(WaitingCall {
                        process,
                        round: self.round,
                        name,
                        kind,
                        object,
                        target: None,
                        work: ParkedWork::Outside(call),
                        is_visited,
                        step: self.step,
                        not_before: None,
                    });
                }
                ParkedWork::Api(call) => {
                    let uri = call.request.uri();
                    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
                    let target =
                        CallTarget::parse(call.request.method().as_str(), path, query, call.request.body());
                    let is_aside = |target: &CallTarget| ASIDE.contains(&&*target.plural);
                    let is_single = |target: &CallTarget| target.verb != CallVerb::Watch;
                    let Some(target) = target.filter(|target| !is_aside(target) || !is_single(target)) else {
                        self.aside.push((process, call));
                        continue;
                    };
                    let is_visited = is_visited || is_aside(&target);
                    let kind = match target.verb {
                        CallVerb::Watch => PointKind::OpenWatch,
                        verb if verb.is_write() => PointKind::Write,
                        _ if query.split('&').any(|part| part == "resourceVersion=0") => {
                            PointKind::ReadAnyVersion
                        }
                        _ => PointKind::Read,
                    };
                    self.calls.push(WaitingCall {
                        process,
                        round: self.round,
                        name: format!("{who}{}", target.shown()),
                        kind,
                        object: target.object(),
                        target: Some(target),
                        work: ParkedWork::Api(call),
                        is_visited,
                        step: self.step,
                        not_before: None,
                    });
                }
            }
        }
        self.answer_all_aside().await;
        self.calls.sort_by(|one, other| (one.round, &one.name).cmp(&(other.round, &other.name)));
    }

    /// Answers the calls that faults never affect, except those of a frozen process.
    async fn answer_all_aside(&mut self) {
        let now = Instant::now();
        for (number, call) in std::mem::take(&mut self.aside) {
            let Some(process) = self.process(number) else { continue };
            if process.is_frozen(now) {
                self.aside.push((number, call));
            } else {
                self.answer_aside(number, call).await;
            }
        }
    }

    /// Returns the prefix of a process's addresses; empty if there is only one replica.
    pub(crate) fn shown_role(&self, role: ProcessRole) -> String {
        match role {
            ProcessRole::Tested(_) if self.setup.replicas == 1 => String::new(),
            ProcessRole::Tested(replica) => format!("operator/{replica} "),
            ProcessRole::Beside(at) => format!("beside/{at} "),
        }
    }

    /// Returns the actor that the oracles see for a process.
    pub(super) fn actor_of(&mut self, number: ProcessNumber) -> Actor {
        match self.process(number).map(|process| process.role) {
            Some(ProcessRole::Beside(_)) => Actor::Beside,
            _ => Actor::Operator(number),
        }
    }

    /// Answers a call that faults never affect, and remembers answers that are the same in every schedule.
    async fn answer_aside(&mut self, process: ProcessNumber, call: ApiCall) {
        let path = call.request.uri().path().to_owned();
        let question = start_question(&call.request);
        let request = call.request.clone();
        let target = CallTarget::parse(request.method().as_str(), &path, "", request.body());
        let served = self.serve_as(process, request).await;
        if let Some(target) = target.filter(|target| ["events", "leases"].contains(&&*target.plural)) {
            self.note_right(&target);
            if target.plural == "leases" && target.verb.is_write() && served.status().is_success() {
                self.note_holder(process, served.body());
            }
        }
        let actor = self.actor_of(process);
        self.note_changes(&WriteAttribution::plain(actor));
        if let Some(question) = question.filter(|_| served.status().is_success()) {
            self.start_answers.insert(question, (served.status(), served.body().clone()));
        }
        answer(call, Ok(served.map(|bytes| AnswerBody::Whole(Some(bytes)))));
    }

    /// Performs the next call, with its faults.
    pub(crate) async fn perform_call(&mut self, mut call: WaitingCall) {
        self.record.operations += 1;
        let faults = if call.is_visited {
            Vec::new()
        } else {
            let (name, object) = (call.name.clone(), call.object.clone());
            self.visit(&name, call.kind, &object)
        };
        // A frozen process may have abandoned the call in the meantime; the call is then never sent.
        let stood_still = self.process(call.process).is_some_and(|process| process.frozen_until.is_some());
        if (call.is_visited || stood_still)
            && call.not_before.is_none()
            && matches!(&call.work, ParkedWork::Api(api) if api.answer.is_closed())
        {
            return;
        }
        call.is_visited = true;
        for fault in faults {
            let address = self.record.points.last().map(|point| point.address.clone()).unwrap_or_default();
            self.tell("FAULT", true, || format!("{}: {}", address, fault.shown()));
            match fault {
                Fault::StepFirst => {
                    self.do_next_step().await;
                }
                Fault::ForeignWrite => {
                    if let Some(target) = &call.target
                        && let ParkedWork::Api(api) = &call.work
                        && target.verb != CallVerb::Create
                    {
                        let path = object_path(api.request.uri().path(), &target.subresource).to_owned();
                        self.write_foreign_mark(&path).await;
                    }
                }
                Fault::Slow { seconds } => {
                    call.not_before = Some(Instant::now() + Duration::from_secs(seconds));
                    return self.calls.push(call);
                }
                Fault::Freeze { seconds } => {
                    let until = Instant::now() + Duration::from_secs(seconds);
                    if let Some(process) = self.process(call.process) {
                        process.frozen_until = Some(until);
                    }
                    self.last_election = Instant::now();
                    return self.calls.push(call);
                }
                Fault::StaleRead { changes } if call.kind == PointKind::ReadAnyVersion => {
                    return self.answer_from_cache(call, changes).await;
                }
                Fault::StaleRead { .. } => {}
                Fault::CrashBefore => return self.crash(call.process, None),
                Fault::JumpClock { seconds } => self.jump_clock(call.process, seconds),
                Fault::RestartSkewed { seconds } => return self.crash_skewed(call.process, seconds),
                Fault::CrashAfter => return self.perform_then_crash(call, None).await,
                Fault::RestartBack { changes } => return self.perform_then_crash(call, Some(changes)).await,
                other => return self.perform_broken(call, &other).await,
            }
        }
        self.perform_whole(call).await;
    }

    async fn perform_then_crash(&mut self, call: WaitingCall, back: Option<u64>) {
        let process = call.process;
        match call.work {
            ParkedWork::Api(api) => {
                self.serve_for((process, call.step), &api.request, call.target.as_ref()).await;
            }
            ParkedWork::Outside(outside) => self.perform_outside(outside, OutsideFate::DoneAndLost),
        }
        let first = self.template.snapshot.revision().get();
        let old = back.map(|changes| self.noted.get().saturating_sub(changes).max(first));
        self.crash(process, old.map(homeostat_core::Revision::new));
    }

    /// Answers with an error, whether or not the call was carried out.
    async fn perform_broken(&mut self, call: WaitingCall, fault: &Fault) {
        let process = call.process;
        if call.kind == PointKind::Write {
            self.note_activity();
        }
        match call.work {
            ParkedWork::Outside(outside) => {
                let fate = match fault {
                    Fault::LoseAnswer => OutsideFate::DoneAndFailed,
                    Fault::Twice => OutsideFate::DoneTwice,
                    Fault::StaleOutside { changes } => OutsideFate::Stale(*changes),
                    _ => OutsideFate::Failed,
                };
                self.perform_outside(outside, fate);
            }
            ParkedWork::Api(api) => match fault {
                Fault::Refuse { code } => answer(api, Ok(refusal(*code))),
                Fault::RefuseAfter { code } => {
                    self.serve_for((process, call.step), &api.request, call.target.as_ref()).await;
                    answer(api, Ok(refusal(*code)));
                }
                Fault::LoseAnswer => {
                    self.serve_for((process, call.step), &api.request, call.target.as_ref()).await;
                    answer(api, Err(lost()));
                }
                _ => answer(api, Err(lost())),
            },
        }
    }

    async fn perform_whole(&mut self, call: WaitingCall) {
        let (process, kind, name) = (call.process, call.kind, call.name);
        match call.work {
            ParkedWork::Outside(outside) => {
                let actor = self.shown_process(process);
                self.tell(&actor, false, || without_role(&name).to_owned());
                self.perform_outside(outside, OutsideFate::Done);
            }
            ParkedWork::Api(api) if kind == PointKind::OpenWatch => {
                self.open_watch(process, api, call.target.as_ref()).await;
            }
            ParkedWork::Api(api) => {
                let before = self.noted;
                let served = self.serve_for((process, call.step), &api.request, call.target.as_ref()).await;
                let code = served.status();
                if kind == PointKind::Write {
                    self.note_activity();
                    self.note_rest(process, &name, self.noted > before);
                }
                let (actor, revision) = (self.shown_process(process), self.noted);
                let change = if revision > before { format!(", now r{revision}") } else { String::new() };
                self.tell(&actor, false, || format!("{} → {code}{change}", without_role(&name)));
                answer(api, Ok(served.map(|bytes| AnswerBody::Whole(Some(bytes)))));
            }
        }
    }

    /// Records a write that happens while the operator should be at rest.
    fn note_rest(&mut self, process: ProcessNumber, name: &str, has_changed: bool) {
        if !self.is_resting() || self.actor_of(process) == Actor::Beside {
            return;
        }
        if has_changed {
            self.record.writes_at_rest.push(name.to_owned());
        } else {
            *self.record.vain_writes_at_rest.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn perform_outside(&mut self, call: OutsideCall, fate: OutsideFate) {
        if !call.is_write && self.is_resting() {
            self.record.outside_reads_at_rest += 1;
        }
        if call.is_write {
            self.last_write = Instant::now();
            self.note_activity();
            if self.is_resting() {
                self.record.writes_at_rest.push(format!("outside {}", call.what));
            }
        }
        (call.perform)(fate);
        let state = self.outside_text();
        self.hasher.update(state.as_bytes());
    }

    /// Serves a call of the operator, and records which objects the process has seen.
    async fn serve_for(
        &mut self,
        (process, step): (ProcessNumber, usize),
        request: &Request<Bytes>,
        target: Option<&CallTarget>,
    ) -> Response<Bytes> {
        if let Some(target) = target
            && self.actor_of(process) != Actor::Beside
        {
            self.note_right(target);
        }
        let body = request.body();
        let guards: [&[u8]; 2] = [b"\"uid\"", b"\"resourceVersion\""];
        let is_guarded = guards.iter().any(|guard| memchr::memmem::find(body, guard).is_some());
        let subresource = target.filter(|target| !target.subresource.is_empty());
        let subresource = subresource.map(|target| Arc::from(&*target.subresource));
        let served = self.serve_as(process, request.clone()).await;
        let attribution =
            WriteAttribution { actor: self.actor_of(process), step: Some(step), subresource, is_guarded };
        self.note_changes(&attribution);
        self.hasher.update(&served.status().as_u16().to_le_bytes());
        // Applying an object that does not exist also needs the right to create it.
        if served.status() == StatusCode::CREATED
            && let Some(target) = target.filter(|target| target.verb != CallVerb::Create)
            && self.actor_of(process) != Actor::Beside
        {
            self.note_right(&CallTarget { verb: CallVerb::Create, ..target.clone() });
        }
        if served.status().is_success() {
            if let (Some(target), Actor::Operator(number)) = (target, self.actor_of(process)) {
                self.note_turn(number, target);
            }
            let uids = crate::state::uids_in(served.body());
            if let Some(process) = self.process(process) {
                process.known.extend(uids);
            }
        }
        served
    }

    /// Records the identity under which a process holds leases.
    fn note_holder(&mut self, process: ProcessNumber, lease: &[u8]) {
        let lease: serde_json::Value = serde_json::from_slice(lease).unwrap_or_default();
        self.uses_leases = true;
        let name = lease["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        if self.lease_holders.insert(name, holder.clone()) != Some(holder) {
            self.lease_changes += 1;
            self.last_election = Instant::now();
        }
        if let Some(holder) = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()) {
            self.holders.insert(holder.to_owned(), process);
        }
    }

    /// Serves a call with the operator's limited rights, if this schedule limits them.
    async fn serve_as(&mut self, process: ProcessNumber, request: Request<Bytes>) -> Response<Bytes> {
        let identity = self.options.identity.filter(|_| self.actor_of(process) != Actor::Beside);
        let Some(identity) = identity.cloned() else { return self.serve_remembered(request).await };
        let mut limited = self.server.acting_as(identity);
        std::mem::swap(&mut limited, &mut self.server);
        let served = self.serve_whole(request).await;
        self.server = limited;
        served
    }

    pub(super) fn note_right(&mut self, target: &CallTarget) {
        let slash = if target.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", target.plural, target.subresource);
        let right = (target.verb.name().to_owned(), target.group.clone(), resource, target.namespace.clone());
        self.record.rights.insert(right);
    }
}

pub(super) fn answer(call: ApiCall, what: CallAnswer) {
    // The caller may no longer be waiting.
    let _ = call.answer.send(what);
}

fn lost() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by the simulator")
}

/// Returns the server's error answer.
fn refusal(code: u16) -> Response<AnswerBody> {
    let reason = match code {
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
                        "message": "a fault of the simulator", "code": code});
    let status_code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut refusal = json_answer(status_code, AnswerBody::Whole(Some(status.to_string().into())));
    if code == 429 {
        refusal.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
    }
    refusal
}

/// Returns the path of the object without the subresource.
fn object_path<'a>(path: &'a str, subresource: &str) -> &'a str {
    if subresource.is_empty() {
        path
    } else {
        path.strip_suffix(subresource).map_or(path, |path| path.trim_end_matches('/'))
    }
}

/// Returns the name of a call without the prefix of the replica.
fn without_role(name: &str) -> &str {
    let is_role = |word: &str| word.starts_with("operator/") || word.starts_with("beside/");
    name.split_once(' ').filter(|(role, _)| is_role(role)).map_or(name, |(_, rest)| rest)
}
