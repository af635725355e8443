//! Asks every announced operator on behalf of one user: what it is doing, and what it did about an object. For a
//! console, which asks again and again.
//!
//! **Invariant:** one question costs a bounded number of requests, bytes and seconds, whatever the Leases announce. The
//! tokens are those of `operator_request`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use homeostat_core::activity::{ActivityReport, NotAnswered, OperatorAnswer, OperatorAnswers};
use homeostat_core::write_history::OperatorJournal;
use homeostat_core::{Clock, Key};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::announcement::{Announcement, announced};
use super::api_reads::{self, AnswerForm};
use super::ask_failure::AskFailure;
use super::operator_request::{CallerToken, PageRequest, journal_path, load_caller_token, load_page};
use super::served_kinds::escape;
use crate::admin::ACTIVITY_PATH;
use crate::admin_address::AdminAddress;

/// The most operators that are asked: clusters have a handful, and each costs its server some reviews.
pub const OPERATORS_MAX: usize = 16;

/// How many of them are asked at a time.
const PARALLEL_MAX: usize = 8;

/// How long one operator may take. An answer takes milliseconds and a few requests to the API server, and the next
/// question comes within seconds.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// How long a token for an operator is used again: less than the five minutes for which a Homeostat server issues it.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(200);

/// The most bytes of what an operator is doing: its figures, and 200 failures with their errors.
const ACTIVITY_BYTES_MAX: usize = 512 * 1024;

/// The most bytes of its last records about an object.
const JOURNAL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Leases that are looked at, without those of nodes.
const LEASES_MAX: usize = 500;

/// Asks the operators that one user may ask.
pub struct OperatorsClient {
    client: Client,
    own_token: Option<String>,
    except: Option<AdminAddress>,
    clock: Clock,
    /// Tokens by the address they are for, and since when.
    tokens: Mutex<BTreeMap<String, (Instant, CallerToken)>>,
}

impl OperatorsClient {
    /// Creates one for a client that acts as the user. The user's own token is shown to operators only where the server
    /// issues no other, and only to processes of this machine's same user or of root.
    pub fn new(client: Client, own_token: Option<String>, clock: Clock) -> Self {
        Self { client, own_token, except: None, clock, tokens: Mutex::default() }
    }

    /// Does not ask the operator that is announced at this address: the one that asks.
    #[must_use]
    pub fn except(mut self, address: Option<AdminAddress>) -> Self {
        self.except = address;
        self
    }

    /// Asks what the operators are doing. Leases that may not be listed everywhere are looked for in `namespaces`.
    /// Dropping it ends the questions and leaves nothing behind.
    pub fn load_activities(&self, namespaces: Vec<String>) -> BoxFuture<'_, OperatorAnswers<ActivityReport>> {
        Box::pin(async move {
            let page = PageRequest { path: ACTIVITY_PATH, bytes_max: ACTIVITY_BYTES_MAX };
            let found: OperatorAnswers<Option<ActivityReport>> = self.ask_all(&namespaces, page).await;
            let named = |one: OperatorAnswer<ActivityReport>| match &one.answer {
                Ok(report) => OperatorAnswer { operator: report.operator.clone(), ..one },
                Err(_) => one,
            };
            let told = |one: OperatorAnswer<Option<ActivityReport>>| {
                let OperatorAnswer { operator, answer } = one;
                let answer = answer.and_then(|report| report.ok_or_else(no_such_page));
                named(OperatorAnswer { operator, answer })
            };
            OperatorAnswers { answers: found.answers.into_iter().map(told).collect(), notes: found.notes }
        })
    }

    /// Asks for the last records about an object; leaves out operators that know or tell nothing about it.
    pub fn load_journals(
        &self,
        namespaces: Vec<String>,
        object: Key,
        records_max: usize,
    ) -> BoxFuture<'_, OperatorAnswers<OperatorJournal>> {
        Box::pin(async move {
            let path = format!("{}&last={records_max}", journal_path(&object));
            let page = PageRequest { path: &path, bytes_max: JOURNAL_BYTES_MAX };
            let found: OperatorAnswers<Option<OperatorJournal>> = self.ask_all(&namespaces, page).await;
            let told = |one: OperatorAnswer<Option<OperatorJournal>>| {
                let OperatorAnswer { operator, answer } = one;
                Some(OperatorAnswer { operator, answer: answer.transpose()? })
            };
            OperatorAnswers {
                answers: found.answers.into_iter().filter_map(told).collect(),
                notes: found.notes,
            }
        })
    }

    /// Asks every operator for a page; `None` of one that has or tells nothing.
    async fn ask_all<T: DeserializeOwned + Send>(
        &self,
        namespaces: &[String],
        page: PageRequest<'_>,
    ) -> OperatorAnswers<Option<T>> {
        let (mut announced, mut notes) = match self.find(namespaces).await {
            Ok(found) => (found, Vec::new()),
            Err(note) => (Vec::new(), vec![note]),
        };
        if announced.len() > OPERATORS_MAX {
            let left_out = announced.len() - OPERATORS_MAX;
            notes.push(format!(
                "{left_out} more operators announce themselves and were not asked: at most {OPERATORS_MAX} are"
            ));
            announced.truncate(OPERATORS_MAX);
        }
        let mut asked: Vec<BoxFuture<'_, OperatorAnswer<Option<T>>>> = Vec::new();
        for announcement in &announced {
            asked.push(Box::pin(self.ask_one(announcement, page)));
        }
        OperatorAnswers { answers: stream::iter(asked).buffered(PARALLEL_MAX).collect().await, notes }
    }

    async fn ask_one<T: DeserializeOwned>(
        &self,
        announcement: &Announcement,
        page: PageRequest<'_>,
    ) -> OperatorAnswer<Option<T>> {
        let asked = timeout(ANSWER_MAX, self.load(announcement, page)).await;
        let answer = asked.unwrap_or(Err(AskFailure::Late(ANSWER_MAX))).and_then(|body| {
            let parsed = body.map(|body| serde_json::from_slice(&body)).transpose();
            parsed.map_err(|error| AskFailure::Broken(format!("its answer cannot be read: {error}")))
        });
        let answer = answer.map_err(|failure| not_answered(&failure, announcement));
        OperatorAnswer { operator: announcement.operator.clone(), answer }
    }

    /// Loads a page, with a token that was used before if there is one.
    async fn load(
        &self,
        announcement: &Announcement,
        page: PageRequest<'_>,
    ) -> Result<Option<Vec<u8>>, AskFailure> {
        if let Some(token) = self.known_token(announcement) {
            match load_page(&self.client, announcement, &token, page).await {
                // The server forgot it: it was started again, or issued many others since.
                Err(AskFailure::Refused { code: 401, .. }) => {}
                answer => return answer,
            }
        }
        let token = load_caller_token(&self.client, announcement, self.own_token.as_deref()).await?;
        self.keep_token(announcement, &token);
        load_page(&self.client, announcement, &token, page).await
    }

    fn known_token(&self, announcement: &Announcement) -> Option<CallerToken> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, token) = tokens.get(&token_name(announcement))?;
        (self.clock.instant() < *since + TOKEN_AGE_MAX).then(|| token.clone())
    }

    fn keep_token(&self, announcement: &Announcement, token: &CallerToken) {
        let now = self.clock.instant();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, (since, _)| now < *since + TOKEN_AGE_MAX);
        tokens.insert(token_name(announcement), (now, token.clone()));
    }

    /// Returns the operators that announce themselves in Leases that the user may list.
    async fn find(&self, namespaces: &[String]) -> Result<Vec<Announcement>, String> {
        let root = "/apis/coordination.k8s.io/v1";
        let everywhere =
            format!("{root}/leases?limit={LEASES_MAX}&fieldSelector=metadata.namespace!%3Dkube-node-lease");
        let mut leases = self.load_leases(&everywhere).await?;
        if leases.is_none() {
            for namespace in namespaces.iter().collect::<BTreeSet<_>>() {
                let path = format!("{root}/namespaces/{}/leases?limit={LEASES_MAX}", escape(namespace));
                let found = self.load_leases(&path).await.unwrap_or_default();
                leases.get_or_insert_default().extend(found.unwrap_or_default());
            }
        }
        let mut found = announced(&leases.unwrap_or_default());
        found.retain(|one| {
            let is_own = |own: &AdminAddress| own.is_announced_as(&one.address, one.pod.as_ref());
            !self.except.as_ref().is_some_and(is_own)
        });
        found.sort_by(|one, other| one.lease.cmp(&other.lease));
        Ok(found)
    }

    /// Returns the metadata of Leases; `None` if they may not be listed.
    async fn load_leases(&self, path: &str) -> Result<Option<Vec<Value>>, String> {
        let list: Option<Value> = api_reads::find(&self.client, path, AnswerForm::MetadataList)
            .await
            .map_err(|error| format!("the operators of other processes were not found: {error}"))?;
        Ok(list.map(|mut list| list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()))
    }
}

/// Returns the name under which a token for an operator is kept.
fn token_name(announcement: &Announcement) -> String {
    let Announcement { address, pod, .. } = announcement;
    pod.as_ref().map_or_else(|| address.clone(), crate::admin_address::AdminPod::audience)
}

fn not_answered(failure: &AskFailure, announcement: &Announcement) -> NotAnswered {
    NotAnswered { error: failure.to_string(), advice: failure.advice(announcement) }
}

fn no_such_page() -> NotAnswered {
    NotAnswered {
        error: "it does not tell what it is doing".to_owned(),
        advice: "Build it with the version of Homeostat that runs here.".to_owned(),
    }
}
