//! The query of a request: names and values, decoded.

use percent_encoding::percent_decode_str;

/// The names and values of a query.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let decode =
            |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// Returns the first value with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse("kind=apps%2Fdeployments&name=a+b&empty");
        assert_eq!(query.get("kind"), Some("apps/deployments"));
        assert_eq!(query.get("name"), Some("a b"));
        assert_eq!(query.get("empty"), Some(""));
        assert_eq!(query.get("none"), None);
    }
}
