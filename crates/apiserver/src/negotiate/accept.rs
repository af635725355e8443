//! The `Accept` header, taken apart as kube-apiserver does it, oddities of its sorting included.
//!
//! Knows nothing of what can be offered: that is the caller's side.

/// One alternative of an `Accept` header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: &'a str,
    quality: f32,
}

impl<'a> Clause<'a> {
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

    /// The last parameter of this name; later ones win, as in a map.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let pairs = self.parameters.split(';').filter_map(|pair| pair.split_once('='));
        pairs
            .rev()
            .find(|(key, value)| key.trim() == name && !value.contains('='))
            .map(|(_, value)| value.trim())
    }

    /// The order kube-apiserver sorts by. It is no consistent order (a wildcard with a higher quality and a precise
    /// type each come before the other), hence the sorting by insertion that gives the same result as there.
    fn comes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    /// Does it admit `application/` with this subtype?
    pub(super) fn matches(&self, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*" | "application", "*") => true,
            ("application", own) => own == subtype,
            _ => false,
        }
    }
}

/// The alternatives in the order they are tried.
pub(super) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut sorted = Vec::new();
    for clause in accept.split(',').filter_map(Clause::parse) {
        let mut at = sorted.len();
        sorted.push(clause);
        while at > 0 && sorted[at].comes_before(&sorted[at - 1]) {
            sorted.swap(at, at - 1);
            at -= 1;
        }
    }
    sorted
}
