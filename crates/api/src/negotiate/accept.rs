//! Parses the `Accept` header as kube-apiserver does, including the oddities of its sorting.
//!
//! Only the caller knows which types it can offer.

/// One alternative of an `Accept` header.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptClause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: &'a str,
    quality: f32,
}

impl<'a> AcceptClause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (range, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = match range.split_once('/') {
            Some((kind, subtype)) => (kind.trim(), subtype.trim()),
            None if range.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let clause = Self { kind, subtype, parameters, quality: 1.0 };
        let quality = clause.get("q").map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
        (!subtype.contains('/')).then_some(Self { quality, ..clause })
    }

    /// Returns the last parameter with this name: later ones win, as in a map.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let pairs = self.parameters.split(';').filter_map(|pair| pair.split_once('='));
        pairs
            .rev()
            .find(|(key, value)| key.trim() == name && !value.contains('='))
            .map(|(_, value)| value.trim())
    }

    /// Returns whether kube-apiserver sorts this clause first. This is not a consistent order (a wildcard with a higher
    /// quality and a precise type each come before the other), so the clauses are sorted by insertion, which yields the
    /// same result as kube-apiserver.
    fn comes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    /// Returns whether the clause accepts `application/<subtype>`.
    pub(super) fn matches(&self, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*" | "application", "*") => true,
            ("application", own) => own == subtype,
            _ => false,
        }
    }
}

/// Returns the clauses in the order in which they are tried.
pub(super) fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut sorted = Vec::new();
    for clause in accept.split(',').filter_map(AcceptClause::parse) {
        let mut at = sorted.len();
        sorted.push(clause);
        while at > 0 && sorted[at].comes_before(&sorted[at - 1]) {
            sorted.swap(at, at - 1);
            at -= 1;
        }
    }
    sorted
}
