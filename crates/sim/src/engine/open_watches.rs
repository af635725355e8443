//! Opens the operator's watches and answers reads from caches, with the current state or with an older one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use homeostat_apiserver::ApiServer;
use homeostat_core::{Entropy, Revision};
use homeostat_store::{Limits, Memory, Store};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::calls::{WaitingCall, answer};
use super::parking::{ApiCall, ParkedWork, ProcessNumber};
use super::record::Actor;
use super::run::ScheduleRun;
use super::watch_streams::{OpenWatch, WatchHold, read_frame};
use super::wire::AnswerBody;
use crate::address::CallTarget;

/// The timeout of a watch. Operators renew watches every few minutes, which a simulation does not need.
const WATCH_SECONDS: &str = "timeoutSeconds=31536000";

/// How long an operator that was shown an old state gets no newer events.
const CATCH_UP: Duration = Duration::from_secs(5);

impl ScheduleRun<'_> {
    /// Opens a watch and shows the existing objects immediately.
    pub(super) async fn open_watch(
        &mut self,
        process: ProcessNumber,
        api: ApiCall,
        target: Option<&CallTarget>,
    ) {
        if let Some(target) = target
            && self.actor_of(process) != Actor::Beside
        {
            self.note_right(target);
        }
        let resource: Arc<str> = target.map(CallTarget::resource).unwrap_or_default().into();
        let query = api.request.uri().query().unwrap_or_default();
        let shows_all = query.contains("sendInitialEvents=true");
        let old = self.process(process).and_then(|process| {
            let is_meant = process.old_only.as_ref().is_none_or(|only| **only == *resource);
            let is_first = shows_all && is_meant && process.old_shown.insert(resource.to_string());
            process.old.filter(|_| is_first)
        });
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut request = with_query(&api.request, longer);
        if let Some(old) = old {
            self.show_old_state(process, &request, old, &sender).await;
            request = with_query(&request, |query| without_initial(query, old.get()));
        }
        let present = self.server.clone();
        if let Some(identity) = self.options.identity.filter(|_| self.actor_of(process) != Actor::Beside) {
            self.server = present.acting_as(identity.clone());
        }
        let served = self.serve(request).await;
        self.server = present;
        if !served.status().is_success() {
            let (head, body) = served.into_parts();
            let bytes = BodyExt::collect(body).await.map(http_body_util::Collected::to_bytes);
            let bytes = bytes.unwrap_or_default();
            return answer(api, Ok(Response::from_parts(head, AnswerBody::Whole(Some(bytes)))));
        }
        let (head, body) = served.into_parts();
        let mut watch = OpenWatch::new(process, resource, body, sender);
        if old.is_some() {
            let until = Instant::now() + CATCH_UP;
            watch.hold = Some(WatchHold { writes: None, until, expires: false, object: None });
        } else if shows_all {
            let lines = std::future::poll_fn(|cx| std::task::Poll::Ready(watch.pull(cx))).await;
            for line in lines {
                self.show_line(process, &line);
                watch.send(line);
            }
        }
        let expires = self.expiring.get(&(process, watch.resource.clone()));
        if old.is_none() && expires.is_some_and(|until| Instant::now() < *until) {
            watch.send_expired();
        } else {
            self.watches.push(watch);
        }
        answer(api, Ok(Response::from_parts(head, AnswerBody::Watch(receiver))));
    }

    /// Answers a read with the state of this many changes ago, like a server whose cache is behind.
    pub(super) async fn answer_from_cache(&mut self, call: WaitingCall, changes: u64) {
        let ParkedWork::Api(api) = call.work else { return };
        if let Some(target) = &call.target {
            self.note_right(target);
        }
        let first = self.template.snapshot.revision().get();
        let old = Revision::new(self.noted.get().saturating_sub(changes).max(first));
        let present = self.server.clone();
        if let Some(server) = self.server_at(old) {
            self.server = server;
        }
        let served = self.serve_whole(api.request.clone()).await;
        self.server = present;
        let uids = crate::state::uids_in(served.body());
        if let Some(process) = self.process(call.process) {
            process.known.extend(uids);
        }
        answer(api, Ok(served.map(|bytes| AnswerBody::Whole(Some(bytes)))));
    }

    /// Returns a server with the state of an earlier revision.
    fn server_at(&self, old: Revision) -> Option<ApiServer> {
        let snapshot = self.store.snapshot_at(old).ok()?;
        let store = Arc::new(Memory::holding(snapshot, self.clock, Limits::default()));
        let forked = self.server.fork(&self.background, store, self.clock, Entropy::seeded(1));
        forked.ok().map(|(server, _)| server)
    }

    /// Shows the operator the state of an earlier revision.
    async fn show_old_state(
        &mut self,
        process: ProcessNumber,
        request: &Request<Bytes>,
        old: Revision,
        sender: &mpsc::UnboundedSender<Bytes>,
    ) {
        let Some(server) = self.server_at(old) else { return };
        let present = std::mem::replace(&mut self.server, server);
        let old_answer = self.serve(request.clone()).await;
        self.server = present;
        let mut watch = OpenWatch::new(process, "".into(), old_answer.into_body(), sender.clone());
        let lines = std::future::poll_fn(|cx| std::task::Poll::Ready(watch.pull(cx))).await;
        for line in lines {
            self.show_line(process, &line);
            watch.send(line);
        }
    }

    /// Records that the process has seen the object of this event.
    pub(crate) fn show_line(&mut self, process: ProcessNumber, line: &Bytes) {
        if let Some(frame) = read_frame(line, 0)
            && let Some(process) = self.process(process)
        {
            process.known.insert(frame.uid);
        }
    }
}

fn with_query(request: &Request<Bytes>, change: impl Fn(&str) -> String) -> Request<Bytes> {
    let mut request = request.clone();
    let changed = format!("{}?{}", request.uri().path(), change(request.uri().query().unwrap_or_default()));
    if let Ok(uri) = changed.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request
}

fn longer(query: &str) -> String {
    let others = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("timeoutSeconds="));
    others.chain([WATCH_SECONDS]).collect::<Vec<_>>().join("&")
}

/// Returns the request of a watch that continues from a revision.
fn without_initial(query: &str, revision: u64) -> String {
    let is_initial = |part: &&str| {
        ["sendInitialEvents=", "resourceVersion=", "resourceVersionMatch="]
            .iter()
            .any(|name| part.starts_with(name))
    };
    let others = query.split('&').filter(|part| !is_initial(part));
    others.chain([&*format!("resourceVersion={revision}")]).collect::<Vec<_>>().join("&")
}
