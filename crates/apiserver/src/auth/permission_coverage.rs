//! Determines which permissions a user wants to grant but does not hold.
//!
//! A rule permits every combination of its groups, resources, names and verbs: a box. It may be granted if the boxes
//! of the held rules cover it together. Kubernetes expands the box into its combinations, and sixty entries in each
//! list make 13 million of them. This code treats entries that are covered by the same held rules as one, and expands
//! a list only as far as the held rules differ in it.
//!
//! **Invariant:** every comparison is paid for out of one [budget](COMPARISONS_MAX); permissions that cannot be
//! compared within it are refused, never granted.

use std::collections::{BTreeMap, HashSet};

use super::rbac_index::RuleSet;
use super::rule::{ANY, Rule, path_matches};
use super::rule_strings::RuleStrings;

/// How many comparisons of one entry with one held rule a check may take: about 50 ms. The largest roles in use (an
/// administrator's, granted by a user with a hundred rules) take about 50 000.
pub(super) const COMPARISONS_MAX: usize = 1_000_000;
/// The maximum number of bytes of missing permissions listed in a refusal: about 500 permissions, more than anyone
/// reads.
const GAPS_BYTES_MAX: usize = 32 << 10;

/// The permissions that the user lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MissingPermissions {
    /// These permissions, in the form that refusals list them; never empty.
    Rules(Vec<String>),
    /// Finding out would take too many comparisons.
    Unknown,
}

/// Checks that the `held` rules include all permissions of the `wanted` rules.
pub(super) fn check_coverage(wanted: &[&Rule], held: &[RuleSet]) -> Result<(), MissingPermissions> {
    let held = held
        .iter()
        .flat_map(|set| set.iter().flat_map(|part| &**part))
        .map(HeldRule::new)
        .collect::<Vec<_>>();
    let mut gaps = MissingPermissionList::default();
    let mut budget = ComparisonBudget(COMPARISONS_MAX);
    for rule in wanted {
        if gaps.is_full {
            break;
        }
        find_gaps(rule, &held, &mut budget, &mut gaps).map_err(|OutOfBudget| MissingPermissions::Unknown)?;
    }
    if gaps.is_empty() { Ok(()) } else { Err(MissingPermissions::Rules(gaps.shown())) }
}

fn find_gaps<'a>(
    rule: &'a Rule,
    held: &[HeldRule<'_>],
    budget: &mut ComparisonBudget,
    gaps: &mut MissingPermissionList<'a>,
) -> Result<(), OutOfBudget> {
    for path in &rule.non_resource_urls {
        budget.pay(held.iter().map(|one| one.rule.non_resource_urls.len() + 1).sum())?;
        let covering = held.iter().filter(|one| one.covers_path(path)).collect::<Vec<_>>();
        budget.pay(covering.len() * rule.verbs.len())?;
        for verb in rule.verbs.iter().filter(|verb| !covering.iter().any(|one| one.verbs.has(verb))) {
            gaps.add_path(path, verb);
        }
    }
    if rule.api_groups.is_empty() || rule.resources.is_empty() || rule.verbs.is_empty() {
        return Ok(());
    }
    let wanted = WantedRule::new(rule, held, budget)?;
    let everyone = (0..wanted.candidates).collect::<Vec<_>>();
    wanted.walk(0, &everyone, [&[], &[], &[]], budget, gaps)
}

/// A held rule, prepared for lookups of single entries.
struct HeldRule<'a> {
    rule: &'a Rule,
    groups: RuleEntries<'a>,
    resources: RuleEntries<'a>,
    verbs: RuleEntries<'a>,
    /// `None` means every name.
    names: Option<HashSet<&'a str>>,
}

/// The entries in one list of a rule.
struct RuleEntries<'a> {
    has_any: bool,
    listed: HashSet<&'a str>,
}

impl<'a> RuleEntries<'a> {
    fn new(list: &'a [Box<str>]) -> Self {
        let listed = list.iter().map(|one| &**one).collect::<HashSet<_>>();
        Self { has_any: listed.contains(ANY), listed }
    }

    fn has(&self, entry: &str) -> bool {
        self.has_any || self.listed.contains(entry)
    }
}

impl<'a> HeldRule<'a> {
    fn new(rule: &'a Rule) -> Self {
        let names = rule.resource_names.iter().map(|name| &**name).collect::<HashSet<_>>();
        Self {
            rule,
            groups: RuleEntries::new(&rule.api_groups),
            resources: RuleEntries::new(&rule.resources),
            verbs: RuleEntries::new(&rule.verbs),
            names: (!names.is_empty()).then_some(names),
        }
    }

    /// Returns whether the rule covers a resource. A subresource is also covered by the same subresource of every
    /// resource.
    fn covers_resource(&self, resource: &str) -> bool {
        let of_every = || resource.split_once('/').map(|(_, sub)| format!("{ANY}/{sub}"));
        self.resources.has(resource) || of_every().is_some_and(|every| self.resources.has(&every))
    }

    fn covers_path(&self, path: &str) -> bool {
        self.names.is_none() && self.rule.non_resource_urls.iter().any(|pattern| path_matches(pattern, path))
    }
}

/// The lists of a rule, in the order in which they are expanded. Verbs come last because refusals join them.
const LISTS: usize = 4;
const VERBS: usize = LISTS - 1;

/// A wanted rule, compared with every held rule that shares an entry with each of its lists.
struct WantedRule<'a> {
    lists: [Vec<ComparedEntry<'a>>; LISTS],
    /// For each held rule and list: whether the rule covers the whole list.
    is_whole: Vec<[bool; LISTS]>,
    candidates: usize,
}

/// An entry of a list, and the held rules that cover it.
struct ComparedEntry<'a> {
    /// `None` means every name.
    text: Option<&'a str>,
    covered_by: Vec<bool>,
}

impl<'a> WantedRule<'a> {
    fn new(
        rule: &'a Rule,
        held: &[HeldRule<'_>],
        budget: &mut ComparisonBudget,
    ) -> Result<Self, OutOfBudget> {
        let entries = |list: &'a [Box<str>]| list.iter().map(|text| Some(&**text)).collect::<Vec<_>>();
        let names = match &*rule.resource_names {
            [] => vec![None],
            names => entries(names),
        };
        let lists = [entries(&rule.api_groups), entries(&rule.resources), names, entries(&rule.verbs)];
        budget.pay(held.len() * lists.iter().map(Vec::len).sum::<usize>())?;
        let candidates = held
            .iter()
            .filter(|one| (0..LISTS).all(|list| lists[list].iter().any(|text| covers(one, list, *text))))
            .collect::<Vec<_>>();
        let compare = |list: usize| {
            let compared = |text: Option<&'a str>| ComparedEntry {
                text,
                covered_by: candidates.iter().map(|one| covers(one, list, text)).collect(),
            };
            lists[list].iter().copied().map(compared).collect::<Vec<_>>()
        };
        let compared = [compare(0), compare(1), compare(2), compare(VERBS)];
        let is_whole =
            |one: usize| compared.each_ref().map(|list| list.iter().all(|entry| entry.covered_by[one]));
        let is_whole = (0..candidates.len()).map(is_whole).collect();
        Ok(Self { candidates: candidates.len(), lists: compared, is_whole })
    }

    /// Looks for gaps in the part of the box that is fixed by `before` and still open from `list` on; `covering` are
    /// the held rules that cover the fixed part.
    fn walk(
        &self,
        list: usize,
        covering: &[usize],
        before: [&[Option<&'a str>]; VERBS],
        budget: &mut ComparisonBudget,
        gaps: &mut MissingPermissionList<'a>,
    ) -> Result<(), OutOfBudget> {
        budget.pay(covering.len() + 1)?;
        let is_covered =
            covering.iter().any(|one| self.is_whole[*one][list..].iter().all(|is_whole| *is_whole));
        if is_covered || gaps.is_full {
            return Ok(());
        }
        budget.pay(covering.len() * self.lists[list].len())?;
        if list == VERBS {
            let is_missing = |verb: &&ComparedEntry<'_>| !covering.iter().any(|one| verb.covered_by[*one]);
            let verbs = self.lists[VERBS].iter().filter(is_missing).filter_map(|verb| verb.text);
            let verbs = verbs.collect::<Vec<_>>();
            if !verbs.is_empty() {
                gaps.add(before, &verbs);
            }
            return Ok(());
        }
        // Entries that the same rules cover have the same result.
        let mut alike = BTreeMap::<Vec<usize>, Vec<Option<&'a str>>>::new();
        for entry in &self.lists[list] {
            let by = covering.iter().copied().filter(|one| entry.covered_by[*one]).collect();
            alike.entry(by).or_default().push(entry.text);
        }
        for (covering, entries) in &alike {
            let mut before = before;
            before[list] = entries;
            self.walk(list + 1, covering, before, budget, gaps)?;
        }
        Ok(())
    }
}

fn covers(held: &HeldRule<'_>, list: usize, entry: Option<&str>) -> bool {
    match (list, entry) {
        (0, Some(group)) => held.groups.has(group),
        (1, Some(resource)) => held.covers_resource(resource),
        (2, name) => held.names.as_ref().is_none_or(|names| name.is_some_and(|name| names.contains(name))),
        (_, Some(verb)) => held.verbs.has(verb),
        (_, None) => false,
    }
}

struct OutOfBudget;

/// How many comparisons are left.
struct ComparisonBudget(usize);

impl ComparisonBudget {
    fn pay(&mut self, comparisons: usize) -> Result<(), OutOfBudget> {
        self.0 = self.0.checked_sub(comparisons).ok_or(OutOfBudget)?;
        Ok(())
    }
}

/// Missing permissions; verbs of the same resource and name are kept together.
#[derive(Default)]
struct MissingPermissionList<'a> {
    places: BTreeMap<[Option<&'a str>; VERBS], Vec<&'a str>>,
    paths: Vec<(&'a str, &'a str)>,
    bytes: usize,
    /// Whether there are more gaps than there is room for. If so, the search stops.
    is_full: bool,
}

impl<'a> MissingPermissionList<'a> {
    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.paths.is_empty() && !self.is_full
    }

    /// Reserves room for a string; returns whether there was enough.
    fn reserve(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.is_full |= self.bytes > GAPS_BYTES_MAX;
        !self.is_full
    }

    fn add_path(&mut self, path: &'a str, verb: &'a str) {
        if self.reserve(path.len() + verb.len()) {
            self.paths.push((path, verb));
        }
    }

    fn add(&mut self, [groups, resources, names]: [&[Option<&'a str>]; VERBS], verbs: &[&'a str]) {
        let length = |entry: Option<&str>| entry.map_or(0, str::len);
        for group in groups {
            for resource in resources {
                for name in names {
                    let place = [*group, *resource, *name];
                    for verb in verbs {
                        if !self.reserve(place.map(length).iter().sum::<usize>() + verb.len()) {
                            return;
                        }
                        self.places.entry(place).or_default().push(verb);
                    }
                }
            }
        }
    }

    /// Returns the gaps as Kubernetes lists them, sorted.
    fn shown(&self) -> Vec<String> {
        let list = |entry: Option<&str>| entry.map(Box::from).into_iter().collect::<RuleStrings>();
        let boxed = |verbs: &[&str]| verbs.iter().map(|verb| Box::from(*verb)).collect();
        let places = self.places.iter().map(|([group, resource, name], verbs)| Rule {
            api_groups: list(*group),
            resources: list(*resource),
            resource_names: list(*name),
            verbs: boxed(verbs),
            ..Rule::default()
        });
        let paths = self.paths.iter().map(|(path, verb)| Rule {
            non_resource_urls: list(Some(path)),
            verbs: list(Some(verb)),
            ..Rule::default()
        });
        let mut shown = places.chain(paths).map(|rule| rule.shown()).collect::<Vec<_>>();
        shown.sort();
        shown.dedup();
        if self.is_full {
            shown.push("(and more than can be listed)".to_owned());
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_core::Entropy;
    use serde_json::{Value, json};

    use super::*;

    fn rules(value: Value) -> Vec<Rule> {
        serde_json::from_value(value).unwrap()
    }

    fn missing(held: Value, wanted: Value) -> Result<(), MissingPermissions> {
        let (held, wanted) = (rules(held), rules(wanted));
        check_coverage(&wanted.iter().collect::<Vec<_>>(), &[Arc::new([held.into()])])
    }

    #[track_caller]
    fn check_missing(held: Value, wanted: Value, expected: &[&str]) {
        let found = match missing(held, wanted) {
            Ok(()) => Vec::new(),
            Err(MissingPermissions::Rules(rules)) => rules,
            Err(MissingPermissions::Unknown) => panic!("the budget suffices for these rules"),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn covering_respects_names_subresources_and_wildcards() {
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let one =
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}]);
        let log = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}]);
        let every_log = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]}]);
        let missing_pods = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
        check_missing(all.clone(), pods.clone(), &[]);
        check_missing(pods.clone(), all.clone(), &[r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#]);
        check_missing(pods.clone(), one.clone(), &[]);
        check_missing(one.clone(), pods.clone(), &[missing_pods]);
        check_missing(one.clone(), one, &[]);
        check_missing(
            pods.clone(),
            log.clone(),
            &[r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#],
        );
        check_missing(log.clone(), pods, &[missing_pods]);
        check_missing(every_log.clone(), log.clone(), &[]);
        check_missing(log, every_log, &[r#"{APIGroups:[""], Resources:["*/log"], Verbs:["get"]}"#]);
        let path = json!([{"verbs": ["get", "put"], "nonResourceURLs": ["/x", "/y/z"]}]);
        let line = |path: &str, verb: &str| format!(r#"{{NonResourceURLs:["{path}"], Verbs:["{verb}"]}}"#);
        let lines = [line("/x", "get"), line("/x", "put"), line("/y/z", "get"), line("/y/z", "put")];
        check_missing(all, path.clone(), &lines.each_ref().map(|line| &**line));
        let below = json!([{"verbs": ["get"], "nonResourceURLs": ["/y/*"]}]);
        check_missing(below, path, &[&*lines[0], &*lines[1], &*lines[3]]);
    }

    #[test]
    fn rules_cover_together_what_none_covers_alone() {
        let held = json!([{"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["a", "b"]},
            {"verbs": ["list"], "apiGroups": [""], "resources": ["*"]},
            {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["a"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["b"], "resourceNames": ["x"]}]);
        let wanted = json!([{"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["a", "b"]}]);
        check_missing(held.clone(), wanted, &[r#"{APIGroups:["apps"], Resources:["b"], Verbs:["list"]}"#]);
        let wanted = json!([{"verbs": ["list"], "apiGroups": ["", "apps"], "resources": ["a", "b"],
            "resourceNames": ["x", "y"]}]);
        check_missing(
            held,
            wanted,
            &[r#"{APIGroups:["apps"], Resources:["b"], ResourceNames:["y"], Verbs:["list"]}"#],
        );
    }

    /// Kubernetes would expand this into 13 million rules, and no budget would suffice.
    #[test]
    fn long_lists_are_compared_without_being_multiplied() {
        let texts =
            |letter: &str, count: usize| (0..count).map(|at| format!("{letter}{at}")).collect::<Vec<_>>();
        let wanted = |count: usize| {
            json!([{"verbs": texts("v", count), "apiGroups": texts("g", count),
            "resources": texts("r", count), "resourceNames": texts("n", count)}])
        };
        let halves = |count: usize| {
            json!([{"verbs": texts("v", count), "apiGroups": ["*"],
            "resources": texts("r", count / 2)}, {"verbs": ["*"], "apiGroups": texts("g", count),
            "resources": texts("r", count)[count / 2..]}])
        };
        assert_eq!(missing(halves(1000), wanted(1000)), Ok(()));
        let Err(MissingPermissions::Rules(listed)) = missing(json!([]), wanted(60)) else {
            panic!("nothing is held")
        };
        assert!(listed.concat().len() < 2 * GAPS_BYTES_MAX, "{}", listed.concat().len());
        // Two rules hold everything, and no two entries are alike: each additional rule has one more entry of every
        // list.
        let verbs = texts("v", 200);
        let any = json!(["*"]);
        let mut held = vec![
            json!({"verbs": verbs[..100], "apiGroups": any, "resources": any}),
            json!({"verbs": verbs[100..], "apiGroups": any, "resources": any}),
        ];
        let more = |count: usize| json!({"verbs": texts("v", count), "apiGroups": texts("g", 200 - count), "resources": texts("r", count)});
        held.extend((1..200).map(more));
        assert_eq!(missing(held.into(), wanted(200)), Err(MissingPermissions::Unknown));
    }

    /// Implements the definition literally: expands everything and compares one by one.
    fn missing_by_parts(held: &[Rule], wanted: &[Rule]) -> bool {
        let has = |list: &[Box<str>], entry: &str| list.iter().any(|one| &**one == "*" || &**one == entry);
        let names = |rule: &Rule| match &*rule.resource_names {
            [] => vec![None],
            names => names.iter().cloned().map(Some).collect(),
        };
        wanted.iter().any(|rule| {
            rule.api_groups.iter().any(|group| {
                rule.resources.iter().any(|resource| {
                    names(rule).iter().any(|name| {
                        rule.verbs.iter().any(|verb| {
                            !held.iter().any(|held| {
                                has(&held.api_groups, group)
                                    && has(&held.resources, resource)
                                    && has(&held.verbs, verb)
                                    && (held.resource_names.is_empty()
                                        || name
                                            .as_ref()
                                            .is_some_and(|name| held.resource_names.contains(name)))
                            })
                        })
                    })
                })
            })
        })
    }

    #[test]
    fn the_answer_equals_that_of_expanding_everything() {
        let entropy = Entropy::seeded(15);
        let some = |letters: &[&str], least: u64| {
            let count = least + entropy.below(letters.len() as u64);
            let pick = || letters[usize::try_from(entropy.below(letters.len() as u64)).unwrap()];
            (0..count).map(|_| Box::from(pick())).collect::<RuleStrings>()
        };
        let rule = || Rule {
            verbs: some(&["get", "list", "put", "*"], 1),
            api_groups: some(&["", "a", "b", "*"], 1),
            resources: some(&["x", "y", "z", "*"], 1),
            resource_names: some(&["1", "2", "3"], 0),
            ..Rule::default()
        };
        let mut covered = 0;
        for case in 0..5_000 {
            let held = (0..entropy.below(8)).map(|_| rule()).collect::<Vec<_>>();
            let wanted = [rule()];
            let expected = missing_by_parts(&held, &wanted);
            let found = check_coverage(&[&wanted[0]], &[Arc::new([held.clone().into()])]);
            assert_eq!(found.is_err(), expected, "case {case}: {held:?} for {wanted:?}");
            covered += usize::from(!expected);
        }
        assert!((500..4500).contains(&covered), "both answers must occur: {covered}");
    }
}
