//! The options of a request: its query string, decoded once.

use percent_encoding::percent_decode_str;

/// The decoded query string. The first value of a name counts, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// The value of an option, empty when absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// Is the option named at all?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(one, _)| one == name)
    }

    /// Every value of an option.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(one, _)| one == name).map(|(_, value)| &**value)
    }

    /// A switch as Go converts it: named without a value, or any text but `false` and `0`, is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name), "false" | "0")
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_decode_and_switches_follow_go() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc+in+(d)&watch&force=0"));
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch") && !query.flag("force") && !query.flag("absent"));
        assert_eq!(query.all("watch").count(), 1);
    }
}
