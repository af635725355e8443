//! The name of a project, and the names derived from it: `page-operator` has the kind `Page`.

use std::str::FromStr;

/// The maximum length of a name: what a DNS label allows, because the name becomes part of the API group.
const LETTERS_MAX: usize = 50;

/// A name that is valid for a package, a folder and a DNS label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProjectName(String);

/// Rust's keywords: a crate with such a name cannot be imported.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final fn
    for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true
    try type typeof unsafe unsized use virtual where while yield";

/// Names that Rust and cargo use for crates and folders, and the name of the project's tests.
const KEPT: &str = "alloc build core deps examples incremental it proc_macro std test";

/// The project's dependencies.
const DEPENDENCIES: &str = "homeostat k8s_openapi kube schemars serde serde_json tokio";

/// The prefix of the packages that `homeostat` depends on: cargo rejects two packages with one name.
const OURS: &str = "homeostat-";

/// Names that a project's sources use without a path: a kind with such a name would hide them.
const USED: &str =
    "Action Arc AsMut AsRef Backoff Box BuiltController Client Clone Cluster ConfigMap Context Controller
    Copy CronJob CustomResource CustomResourceExt DaemonSet Debug Default Deployment Deserialize Diff
    DoubleEndedIterator Drop Duration Eq Err Error ExactSizeIterator Extend Fault FieldUpdate Fn FnMut
    FnOnce From FromIterator Future HandlerContext Handlers Hash InjectedFault Into IntoFuture
    IntoIterator Iterator Job JsonSchema Metadata None ObjectName Ok Operator Option Ord PartialEq
    PartialOrd Pod Predicate RawEvent RequestVerb Resource ResourceExt Result Secret Self Send Serialize
    Service Severity Simulation Sized Some StandardStatus StatefulSet String Sync ToOwned ToString
    TryFrom TryInto Unpin ValueFilter Vec";

impl FromStr for ProjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = Self(text.to_owned());
        check_letters(text)?;
        let (library, kind) = (name.library(), kind_name(name.singular()));
        let has = |words: &str, word: &str| words.split_whitespace().any(|one| one == word);
        let why = if has(KEYWORDS, &library) {
            format!("{text} is a Rust keyword")
        } else if has(KEPT, &library) {
            format!("Rust or cargo reserves the name {text}")
        } else if has(DEPENDENCIES, &library) || text.starts_with(OURS) {
            format!("the project depends on a package named {text}, or may depend on it later")
        } else if has(USED, &kind) {
            format!("its kind would be named {kind}, which the generated source uses for something else")
        } else {
            return Ok(name);
        };
        Err(format!("{why}: choose another name"))
    }
}

/// Checks that it is valid for a package, a folder and a DNS label.
fn check_letters(text: &str) -> Result<(), String> {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let why = if text.is_empty() || !text.chars().all(is_letter) {
        "use only lower case letters, digits and dashes, as in page-operator".to_owned()
    } else if !text.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        "begin with a letter, as in page-operator".to_owned()
    } else if text.ends_with('-') {
        "end with a letter or a digit, as in page-operator".to_owned()
    } else if text.len() > LETTERS_MAX {
        format!("use at most {LETTERS_MAX} letters")
    } else {
        return Ok(());
    };
    Err(why)
}

impl ProjectName {
    /// Returns the name of the folder and the package.
    pub(super) fn project(&self) -> &str {
        &self.0
    }

    /// Returns the crate's name in sources.
    fn library(&self) -> String {
        self.0.replace('-', "_")
    }

    /// Returns the template with its placeholders filled in.
    pub(super) fn fill(&self, template: &str) -> String {
        let singular = self.singular();
        template
            .replace("{{name}}", &self.0)
            .replace("{{crate}}", &self.library())
            .replace("{{kind}}", &kind_name(singular))
            .replace("{{singular}}", &singular.replace('-', ""))
            .replace("{{group}}", &format!("{}.example.com", self.0))
    }

    /// Returns the name without the word for the kind of program.
    fn singular(&self) -> &str {
        let suffixes = ["-operator", "-controller"];
        suffixes.iter().find_map(|suffix| self.0.strip_suffix(suffix)).unwrap_or(&self.0)
    }
}

/// Converts `static-page` to `StaticPage`.
fn kind_name(words: &str) -> String {
    let capitalized = words.split('-').filter(|word| !word.is_empty()).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    capitalized.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_name() {
        let check = |name: &str, expected: &str| {
            let filled = name
                .parse::<ProjectName>()
                .unwrap()
                .fill("{{name}} {{crate}} {{kind}} {{singular}} {{group}}");
            assert_eq!(filled, expected);
        };
        check("page", "page page Page page page.example.com");
        check("page-operator", "page-operator page_operator Page page page-operator.example.com");
        check("static-page2", "static-page2 static_page2 StaticPage2 staticpage2 static-page2.example.com");
    }

    #[track_caller]
    fn check_refused(name: &str, expected: &str) {
        let why = name.parse::<ProjectName>().expect_err(name);
        assert!(why.contains(expected), "{name}: {why}");
    }

    #[test]
    fn other_names_are_refused_with_a_reason() {
        for name in ["", "Page", "a b", "../x", "a_b", "ä"] {
            check_refused(name, "lower case letters, digits and dashes");
        }
        for name in ["1page", "-page"] {
            check_refused(name, "begin with a letter");
        }
        check_refused("page-", "end with a letter");
        check_refused(&"x".repeat(51), "at most 50");
        for name in ["fn", "async", "self", "box", "gen"] {
            check_refused(name, "a Rust keyword");
        }
        for name in ["test", "core", "std", "proc-macro", "build"] {
            check_refused(name, "Rust or cargo reserves");
        }
        for name in ["serde-json", "homeostat-core", "homeostat-example-at", "homeostat-of-mine"] {
            check_refused(name, &format!("depends on a package named {name}"));
        }
        check_refused("result-operator", "its kind would be named Result");
        check_refused("self-operator", "its kind would be named Self");
    }

    /// Checks every dependency of the template, so that the list cannot become outdated.
    #[test]
    fn no_project_is_called_as_what_it_uses() {
        let manifest = include_str!("template/Cargo.toml.template");
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().lines();
        for dependency in dependencies.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name) {
            check_refused(&dependency.replace('_', "-"), "depends on a package named");
        }
        let prelude = include_str!("../../../homeostat/src/lib.rs").split("pub mod prelude").nth(1).unwrap();
        let imports = include_str!("template/it.rs.template").split("\nuse {{").next().unwrap();
        let words =
            [prelude, imports].into_iter().flat_map(|text| text.lines()).filter(|line| !line.contains("//"));
        let words = words.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric()));
        for word in words.filter(|word| word.starts_with(|letter: char| letter.is_ascii_uppercase())) {
            check_refused(&format!("{}-operator", dashed(word)), "its kind would be");
        }
    }

    /// Converts `ConfigMap` to `config-map`.
    fn dashed(word: &str) -> String {
        let letters = word.chars().enumerate().flat_map(|(place, letter)| {
            let dash = (place > 0 && letter.is_ascii_uppercase()).then_some('-');
            dash.into_iter().chain([letter.to_ascii_lowercase()])
        });
        letters.collect()
    }
}
