//! Holds the options of a request: its query string, decoded once.

use homeostat_api::negotiate::parameters;
use homeostat_api::status::Status;

/// The decoded query string. As in Go, the first value of a name wins.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = parameters(query.unwrap_or_default());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Returns the value of an option; empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// Returns whether the option is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(one, _)| one == name)
    }

    /// Returns the value of an option, if it is present.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| &**value)
    }

    /// Returns the value as a whole number, if the option is present. As in Go, an empty value is not a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let parse = |text: &str| {
            let refusal =
                |_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            text.parse::<i64>().map_err(refusal)
        };
        self.value(name).map(parse).transpose()
    }

    /// Returns every value of an option.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(one, _)| one == name).map(|(_, value)| &**value)
    }

    /// Returns a boolean option as Go converts it: true if it has no value, or any value other than `false` and `0`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }
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
        assert!(!Query::parse(Some("watch=False")).flag("watch"));
    }

    #[test]
    fn pairs_that_go_cannot_parse_are_ignored() {
        let query = Query::parse(Some("a=1;b=2&c;d&%zz=1&e=%zz&f=%&g=1&=x&;"));
        for name in ["a", "b", "c", "c;d", "d", "e", "f", "%zz"] {
            assert!(!query.has(name), "{name}");
        }
        assert_eq!(query.get("g"), "1");
    }

    #[test]
    fn a_given_number_must_be_valid() {
        let query = Query::parse(Some("a=1&b=&c&d=x&e=-1"));
        assert_eq!(
            (query.number("a"), query.number("e"), query.number("none")),
            (Ok(Some(1)), Ok(Some(-1)), Ok(None))
        );
        for name in ["b", "c", "d"] {
            assert_eq!(query.number(name).map_err(|status| status.code), Err(400), "{name}");
        }
    }
}
