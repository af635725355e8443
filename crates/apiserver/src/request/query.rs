//! The options of a request: its query string, decoded once.

use crate::negotiate::parameters;
use crate::status::Status;

/// The decoded query string. The first value of a name counts, as in Go.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = parameters(query.unwrap_or_default());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The value of an option, empty when absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// Is the option named at all?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(one, _)| one == name)
    }

    /// The value of an option, if it is named.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| &**value)
    }

    /// A whole number, if it is named. One that is named and empty is none, as in Go.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let parse = |text: &str| {
            let refusal =
                |_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            text.parse::<i64>().map_err(refusal)
        };
        self.value(name).map(parse).transpose()
    }

    /// Every value of an option.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(one, _)| one == name).map(|(_, value)| &**value)
    }

    /// A switch as Go converts it: named without a value, or any text but `false` and `0`, is true.
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
    fn what_go_cannot_read_is_left_out() {
        let query = Query::parse(Some("a=1;b=2&c;d&%zz=1&e=%zz&f=%&g=1&=x&;"));
        for name in ["a", "b", "c", "c;d", "d", "e", "f", "%zz"] {
            assert!(!query.has(name), "{name}");
        }
        assert_eq!(query.get("g"), "1");
    }

    #[test]
    fn a_number_that_is_named_must_be_one() {
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
