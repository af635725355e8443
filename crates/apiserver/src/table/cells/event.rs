//! Events, of the core group and of `events.k8s.io`: the same thing with other field names.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read};

pub(crate) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let first = read::time(object, "firstTimestamp")
        .or_else(|| read::time(object, "deprecatedFirstTimestamp"))
        .or_else(|| read::time(object, "eventTime"));
    let last = read::time(object, "lastTimestamp")
        .or_else(|| read::time(object, "deprecatedLastTimestamp"))
        .or(first);
    let series = read::at(object, "series");
    let last = series.map_or(last, |series| read::time(series, "lastObservedTime"));
    let count = series.map_or_else(
        || read::number(object, "count").max(read::number(object, "deprecatedCount")).max(1),
        |series| read::number(series, "count"),
    );
    let about = ["involvedObject", "regarding"].into_iter().find_map(|field| object.get(field));
    let about = about.unwrap_or(&Value::Null);
    vec![
        age::since(last, now).into(),
        read::text(object, "type").into(),
        read::text(object, "reason").into(),
        target(about).into(),
        read::text(about, "fieldPath").into(),
        source(object).into(),
        read::text_or(object, "message", read::text(object, "note")).trim().into(),
        age::since(first, now).into(),
        count.into(),
        read::name(object).into(),
    ]
}

fn target(about: &Value) -> String {
    let kind = read::text(about, "kind").to_lowercase();
    match read::text(about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(object: &Value) -> String {
    let first = |paths: [&str; 4]| {
        paths.into_iter().map(|path| read::text(object, path)).find(|text| !text.is_empty())
    };
    let component = first([
        "source.component",
        "deprecatedSource.component",
        "reportingComponent",
        "reportingController",
    ]);
    let host = first(["source.host", "deprecatedSource.host", "reportingInstance", "reportingInstance"]);
    match (component.unwrap_or_default(), host) {
        (component, None) => component.to_owned(),
        (component, Some(host)) => format!("{component}, {host}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_events_print_alike() {
        let now = "2020-01-01T00:01:00Z".parse().expect("a time");
        let core = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Made", "message": " it is\n",
            "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "me", "host": "here"},
            "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:00:30Z", "count": 3});
        let expected = json!(["30s", "Normal", "Made", "pod/p", "", "me, here", "it is", "60s", 3, "e"]);
        assert_eq!(Value::from(event(&core, now)), expected);
        let new = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Made", "note": "it is",
            "regarding": {"kind": "Pod", "name": "p"}, "reportingController": "me", "reportingInstance": "here",
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2020-01-01T00:00:30.000000Z"}});
        assert_eq!(Value::from(event(&new, now)), expected);
    }
}
