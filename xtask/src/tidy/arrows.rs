//! Checks that dependency arrows only point down. The table is the drawing in ARCHITECTURE.md; to add an edge, change
//! both, in a commit that says why.
//!
//! Indirect arrows need no check: if every edge of a path is allowed, the path stays inside the drawing.

use super::Problem;
use super::workspace::{Arrow, Kind, Package, Workspace};

/// What one package may depend on.
struct Row {
    package: &'static str,
    /// In every build.
    always: &'static [&'static str],
    /// Only behind a cargo feature.
    optional: &'static [&'static str],
    /// Only in tests.
    tests: &'static [&'static str],
}

const CORE: &str = "homeostat-core";
const EXPLAIN: &str = "homeostat-explain";
const STORE: &str = "homeostat-store";
const API: &str = "homeostat-api";
const APISERVER: &str = "homeostat-apiserver";
const RUNTIME: &str = "homeostat-runtime";
const WORKLOADS: &str = "homeostat-workloads";
const SIM: &str = "homeostat-sim";
const CONSOLE: &str = "homeostat-console";
const FACADE: &str = "homeostat";
const ZOO: &str = "homeostat-zoo";

/// The whole drawing, bottom up. Packages of the design that do not exist yet have their row already.
const TABLE: &[Row] = &[
    Row { package: CORE, always: &[], optional: &[], tests: &[] },
    Row { package: EXPLAIN, always: &[CORE], optional: &[], tests: &[] },
    Row { package: STORE, always: &[CORE], optional: &[], tests: &[] },
    Row { package: API, always: &[CORE], optional: &[], tests: &[] },
    // Tests use `homeostat::testing`, a cluster in memory: the one arrow that points up.
    Row { package: APISERVER, always: &[CORE, STORE, API], optional: &[], tests: &[FACADE] },
    Row { package: RUNTIME, always: &[CORE, EXPLAIN], optional: &[], tests: &[FACADE] },
    Row { package: WORKLOADS, always: &[CORE, RUNTIME], optional: &[], tests: &[STORE, APISERVER, FACADE] },
    Row { package: SIM, always: &[CORE, STORE, APISERVER, RUNTIME], optional: &[], tests: &[] },
    Row { package: CONSOLE, always: &[CORE, EXPLAIN], optional: &[], tests: &[] },
    Row {
        package: FACADE,
        always: &[CORE, RUNTIME],
        optional: &[STORE, APISERVER, WORKLOADS, SIM, CONSOLE],
        // Itself, with the features that its tests need.
        tests: &[FACADE, STORE, APISERVER, SIM],
    },
    // A zoo is a user of the façade, with the feature `sim`.
    Row { package: ZOO, always: &[FACADE], optional: &[], tests: &[] },
    // The crates that the fuzzer feeds.
    Row { package: "homeostat-fuzz", always: &[CORE, STORE, API, APISERVER], optional: &[], tests: &[] },
    Row { package: "homeostat-cli", always: EVERYTHING_AND_DEMO, optional: EVERYTHING, tests: EVERYTHING },
    Row { package: "homeostat-bench", always: EVERYTHING_AND_ZOO, optional: EVERYTHING, tests: EVERYTHING },
    Row { package: "xtask", always: &[], optional: &[], tests: &[] },
];

const EVERYTHING: &[&str] = &[CORE, EXPLAIN, STORE, API, APISERVER, RUNTIME, WORKLOADS, SIM, CONSOLE, FACADE];

/// Everything, and the reconcilers that the simulator is measured with.
const EVERYTHING_AND_ZOO: &[&str] =
    &[CORE, EXPLAIN, STORE, API, APISERVER, RUNTIME, WORKLOADS, SIM, CONSOLE, FACADE, ZOO];

/// Everything, and the examples that `homeostat demo` shows.
const EVERYTHING_AND_DEMO: &[&str] = &[
    CORE,
    EXPLAIN,
    STORE,
    API,
    APISERVER,
    RUNTIME,
    WORKLOADS,
    SIM,
    CONSOLE,
    FACADE,
    "homeostat-example-at",
    "homeostat-example-database",
    "homeostat-example-shapes",
];

/// An example is a user: it depends on the façade, and on the simulator only to test itself.
const EXAMPLE: Row = Row { package: "an example", always: &[FACADE], optional: &[], tests: &[SIM] };

/// Returns every edge that is not in the table, and every package that has no row.
pub(crate) fn check(workspace: &Workspace) -> Vec<Problem> {
    workspace.packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Problem> {
    let Some(row) = row_of(package) else {
        let what = format!("package {} has no row in the table of arrows", package.name);
        let fix = "add it to TABLE in xtask/src/tidy/arrows.rs and to the drawing in ARCHITECTURE.md";
        return vec![Problem::new(&package.manifest, 1, what, fix)];
    };
    package
        .arrows
        .iter()
        .filter(|arrow| !row.allows(arrow))
        .map(|arrow| refuse(package, row, arrow))
        .collect()
}

fn row_of(package: &Package) -> Option<&'static Row> {
    if package.manifest.starts_with("examples/") {
        return Some(&EXAMPLE);
    }
    TABLE.iter().find(|row| row.package == package.name)
}

impl Row {
    fn allows(&self, arrow: &Arrow) -> bool {
        let to = &arrow.to.as_str();
        let optional = || self.always.contains(to) || self.optional.contains(to);
        match arrow.kind {
            Kind::Always => self.always.contains(to),
            Kind::Optional => optional(),
            Kind::Development => optional() || self.tests.contains(to),
        }
    }
}

fn refuse(package: &Package, row: &Row, arrow: &Arrow) -> Problem {
    let how = match arrow.kind {
        Kind::Always => "depends on",
        Kind::Optional => "optionally depends on",
        Kind::Development => "in its tests depends on",
    };
    let what = format!("{} {how} {}, against the arrows of ARCHITECTURE.md", package.name, arrow.to);
    let fix = format!(
        "{} may depend on {}; behind a feature also on {}; in tests also on {}",
        row.package,
        names(row.always),
        names(row.optional),
        names(row.tests),
    );
    Problem::new(&package.manifest, 1, what, fix)
}

fn names(packages: &[&str]) -> String {
    if packages.is_empty() { "nothing".to_owned() } else { packages.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[track_caller]
    fn check_arrow(from: &str, kind: Kind, to: &str, allowed: bool) {
        let folder = if from.starts_with("example") { "examples" } else { "crates" };
        let package = Package {
            name: from.to_owned(),
            version: "0.1.0".to_owned(),
            folder: PathBuf::new(),
            manifest: format!("{folder}/{from}/Cargo.toml"),
            roots: Vec::new(),
            arrows: vec![Arrow { to: to.to_owned(), kind }],
        };
        assert_eq!(check_package(&package).is_empty(), allowed, "{from} {kind:?} {to}");
    }

    #[test]
    fn arrows_point_down_only() {
        check_arrow(STORE, Kind::Always, CORE, true);
        check_arrow(CORE, Kind::Always, STORE, false);
        check_arrow(CORE, Kind::Development, STORE, false);
        check_arrow(API, Kind::Always, CORE, true);
        check_arrow(API, Kind::Always, STORE, false);
        check_arrow(APISERVER, Kind::Always, API, true);
        check_arrow(APISERVER, Kind::Always, RUNTIME, false);
        check_arrow(APISERVER, Kind::Development, RUNTIME, false);
        check_arrow(RUNTIME, Kind::Always, APISERVER, false);
        check_arrow(RUNTIME, Kind::Optional, APISERVER, false);
        check_arrow(RUNTIME, Kind::Development, APISERVER, false);
        check_arrow(RUNTIME, Kind::Development, FACADE, true);
        check_arrow(RUNTIME, Kind::Optional, FACADE, false);
        check_arrow(STORE, Kind::Development, FACADE, false);
        check_arrow(FACADE, Kind::Always, APISERVER, false);
        check_arrow(FACADE, Kind::Optional, APISERVER, true);
        check_arrow("homeostat-cli", Kind::Always, SIM, true);
        check_arrow("example-at", Kind::Always, FACADE, true);
        check_arrow("example-at", Kind::Always, RUNTIME, false);
        check_arrow("stranger", Kind::Always, CORE, false);
    }
}
