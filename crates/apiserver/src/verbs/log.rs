//! Implements `pods/log`: finds the container, checks the options, then reads the log through the node that runs the
//! Pod.

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::kinds::core::node::NODE;
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use homeostat_core::container_log::{LogRefusal, LogRequest};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Answer, AuthorizedRequest};
use crate::backend::key_of;
use crate::body::Body;
use crate::request::Query;
use crate::stored::encode;

/// Responds with the log of one container.
pub(super) async fn log(call: &AuthorizedRequest) -> Result<Answer, Status> {
    let pod = {
        let snapshot = call.backend.store.snapshot();
        encode::parse_entry(snapshot.get(&call.key()).ok_or_else(|| call.not_found())?)
    };
    let mut request = parse_options(&call.query, &call.path.name, call.backend.clock.now())?;
    request.pod = meta::uid(&pod).into();
    request.container = requested_container(call, &pod)?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        // The Pod is not bound yet: its log is empty.
        return Ok(plain_text_answer(Body::Empty));
    }
    let Some(source) = call.backend.logs.get().filter(|source| source.is_of(node)) else {
        return Err(node_unreachable(call, node));
    };
    let container = request.container.clone();
    let log = source.read(request).await.map_err(|refusal| log_refusal(call, &pod, &container, refusal))?;
    Ok(plain_text_answer(Body::stream(log)))
}

fn plain_text_answer(body: Body) -> Answer {
    Answer::body(200, "text/plain", body)
}

/// Parses the options of the query, with the same checks as Kubernetes.
fn parse_options(query: &Query, pod: &str, now: Timestamp) -> Result<LogRequest, Status> {
    let mut errors = Errors::new();
    let tail = number_option(query, "tailLines", 0, &mut errors)?;
    let since_seconds = number_option(query, "sinceSeconds", 1, &mut errors)?;
    let limit_bytes = number_option(query, "limitBytes", 1, &mut errors)?;
    if since_seconds.is_some() && query.has("sinceTime") {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(Error::forbidden(&FieldPath::Root, detail));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", pod, &errors));
    }
    let since = match since_seconds {
        // A time before the epoch means no limit.
        Some(seconds) => i64::try_from(seconds)
            .ok()
            .and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok()),
        None => time_option(query)?,
    };
    Ok(LogRequest {
        pod: String::new(),
        container: String::new(),
        previous: query.flag("previous"),
        follow: query.flag("follow"),
        timestamps: query.flag("timestamps"),
        since,
        tail,
        limit_bytes,
    })
}

fn number_option(
    query: &Query,
    name: &'static str,
    min: i64,
    errors: &mut Errors,
) -> Result<Option<u64>, Status> {
    let text = query.get(name);
    if text.is_empty() {
        return Ok(None);
    }
    let value: i64 =
        text.parse().map_err(|_| Status::bad_request(format!("{name} {text:?} is not a whole number")))?;
    if value < min {
        let detail = if min == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
        errors.push(Error::invalid(&FieldPath::Root.field(name), &json!(value), detail));
    }
    Ok(u64::try_from(value).ok())
}

fn time_option(query: &Query) -> Result<Option<Timestamp>, Status> {
    let text = query.get("sinceTime");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| Status::bad_request(format!("sinceTime {text:?} is not a time of RFC 3339")))
}

/// Returns the requested container.
pub(super) fn requested_container(call: &AuthorizedRequest, pod: &Value) -> Result<String, Status> {
    let (asked, name) = (call.query.get("container"), &call.path.name);
    let all = ["initContainers", "containers", "ephemeralContainers"]
        .map(|list| container_names(pod, list))
        .concat();
    if !asked.is_empty() {
        let refusal = || Status::bad_request(format!("container {asked} is not valid for pod {name}"));
        return all.contains(&asked).then(|| asked.to_owned()).ok_or_else(refusal);
    }
    if let [only] = &*container_names(pod, "containers") {
        return Ok((*only).to_owned());
    }
    let all = all.join(" ");
    let message = format!("a container name must be specified for pod {name}, choose one of: [{all}]");
    Err(Status::bad_request(message))
}

fn container_names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    pod["spec"][list].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
}

/// Returns the refusal for a node that no registered source runs.
pub(super) fn node_unreachable(call: &AuthorizedRequest, node: &str) -> Status {
    let table = call.backend.registry.table();
    let nodes = table.built_in(&NODE);
    if call.backend.store.snapshot().get(&key_of(nodes, "", node)).is_none() {
        return Status::not_found(&nodes.about(node));
    }
    Status::unavailable(format!("cannot reach the node {node:?}: this server does not run it"))
}

fn log_refusal(call: &AuthorizedRequest, pod: &Value, container: &str, refusal: LogRefusal) -> Status {
    let name = &call.path.name;
    match refusal {
        LogRefusal::NotStarted => Status::bad_request(match state_of(pod, container) {
            Some(("terminated", why)) => format!("container {container:?} in pod {name:?} never ran: {why}"),
            state => {
                let reason = state.map_or("ContainerCreating", |(_, reason)| reason);
                format!("container {container:?} in pod {name:?} is waiting to start: {reason}")
            }
        }),
        LogRefusal::NoPrevious => Status::bad_request(format!(
            "previous terminated container {container:?} in pod {name:?} not found"
        )),
        LogRefusal::Unreadable(why) => Status::internal(&why),
    }
}

/// Returns the state of a container that is not running, from the Pod's status: what it is waiting for, or why it
/// terminated.
fn state_of<'a>(pod: &'a Value, container: &str) -> Option<(&'static str, &'a str)> {
    const LISTS: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = LISTS.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let state = &all.find(|one| one["name"] == container)?["state"];
    let text_of = |name: &'static str, field: &str| state[name][field].as_str().map(|text| (name, text));
    text_of("waiting", "reason").or_else(|| text_of("terminated", "message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: Result<(Option<u64>, Option<u64>, bool), &str>) {
        let now = Timestamp::from_second(1000).unwrap();
        let found = parse_options(&Query::parse(Some(query)), "p", now);
        let found = found.map(|request| (request.tail, request.limit_bytes, request.follow));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(status), Err(words)) => assert!(status.message.contains(words), "{}", status.message),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn options_are_checked_as_in_kubernetes() {
        check("", Ok((None, None, false)));
        check("tailLines=3&limitBytes=10&follow=true", Ok((Some(3), Some(10), true)));
        check("tailLines=-1", Err("tailLines: Invalid value: -1: must be greater than or equal to 0"));
        check("limitBytes=0", Err("limitBytes: Invalid value: 0: must be greater than 0"));
        check("sinceSeconds=0", Err("sinceSeconds: Invalid value: 0: must be greater than 0"));
        check("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", Err("at most one of"));
        check("tailLines=x", Err("is not a whole number"));
        check("sinceTime=x", Err("is not a time"));
    }
}
