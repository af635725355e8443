//! Checks that the top modules of a crate form no cycles: each can be read and moved without the others that use it.
//! Exceptions are in `xtask/ratchet.txt` and may only shrink.
//!
//! A module uses another if one of its paths begins with it: `crate::other`, `super::other`, or a name that the crate
//! root re-exports from it. Test code does not count, and neither do macros, whose tokens are not parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree};

use super::measure::Measure;
use super::source::{Source, is_test_only};
use super::workspace::Workspace;

/// The top modules that each top module uses.
type ModuleGraph = BTreeMap<String, BTreeSet<String>>;

/// Returns, for every library and program, how many of its top modules are in cycles.
pub(crate) fn measure(workspace: &Workspace, sources: &[Source]) -> Vec<Measure> {
    let mut measures = Vec::new();
    for package in &workspace.packages {
        let folder = package.folder.join("src");
        for root in package.roots.iter().filter(|root| root.parent() == Some(&folder)) {
            let Some(source) = sources.iter().find(|source| source.path == *root) else { continue };
            let graph = graph(source, &folder, sources);
            let in_cycles = in_cycles(&graph);
            if !in_cycles.is_empty() {
                measures.push(Measure {
                    subject: format!("{} top modules in cycles", package.name),
                    file: source.file.clone(),
                    line: 1,
                    amount: in_cycles.len(),
                    amount_max: 0,
                    unit: "modules",
                    fix: format!(
                        "move what they share into a module below them: {}",
                        in_cycles.iter().map(|name| describe(name, &graph)).collect::<Vec<_>>().join(", ")
                    ),
                });
            }
        }
    }
    measures
}

/// Formats `name (uses a, b)`, with only the modules in its cycle.
fn describe(name: &str, graph: &ModuleGraph) -> String {
    let cyclic = graph[name].iter().filter(|used| reaches(graph, used, name));
    format!("{name} (uses {})", cyclic.cloned().collect::<Vec<_>>().join(", "))
}

fn graph(root: &Source, folder: &Path, sources: &[Source]) -> ModuleGraph {
    let declared = root.syntax.items.iter().filter_map(|item| match item {
        Item::Mod(module) if !is_test_only(&module.attrs) => Some(plain(&module.ident)),
        _ => None,
    });
    let mut graph: ModuleGraph = declared.map(|name| (name, BTreeSet::new())).collect();
    let reexports = reexports(root, &graph);
    for source in sources.iter().filter(|source| source.path.starts_with(folder) && !source.is_test()) {
        let module = module_path(folder, &source.path);
        let Some(top) = module.first().filter(|top| graph.contains_key(*top)).cloned() else { continue };
        let mut paths = ModuleUses { module, used: BTreeSet::new() };
        paths.visit_file(&source.syntax);
        let used = paths.used.into_iter().map(|name| reexports.get(&name).cloned().unwrap_or(name));
        let used: Vec<String> = used.filter(|name| *name != top && graph.contains_key(name)).collect();
        graph.entry(top).or_default().extend(used);
    }
    graph
}

/// Returns the names that the crate root re-exports from its modules, each with its module.
fn reexports(root: &Source, graph: &ModuleGraph) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in &root.syntax.items {
        let Item::Use(item) = item else { continue };
        for path in leaves(&item.tree) {
            let path: Vec<&String> = path.iter().filter(|part| *part != "self" && *part != "crate").collect();
            if let [module, .., name] = path[..]
                && graph.contains_key(module)
            {
                names.insert(name.clone(), module.clone());
            }
        }
    }
    names
}

/// Returns the modules from the crate root to a file.
fn module_path(folder: &Path, file: &Path) -> Vec<String> {
    let below = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let mut path: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Returns every path that a `use` imports.
fn leaves(tree: &UseTree) -> Vec<Vec<String>> {
    let with = |name: String, tree: &UseTree| {
        let rest = leaves(tree).into_iter();
        rest.map(|mut path| {
            path.insert(0, name.clone());
            path
        })
        .collect()
    };
    match tree {
        UseTree::Path(path) => with(plain(&path.ident), &path.tree),
        UseTree::Name(name) => vec![vec![plain(&name.ident)]],
        UseTree::Rename(name) => vec![vec![plain(&name.ident)]],
        UseTree::Glob(_) => vec![vec!["*".to_owned()]],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

fn plain(ident: &syn::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// Collects the modules with which one file's paths begin, as seen from the crate root.
struct ModuleUses {
    module: Vec<String>,
    used: BTreeSet<String>,
}

impl ModuleUses {
    fn add(&mut self, path: &[String]) {
        let mut here = self.module.clone();
        let mut rest = path.iter();
        match rest.next().map(String::as_str) {
            Some("crate") => here.clear(),
            Some("super") => drop(here.pop()),
            _ => return,
        }
        for part in rest {
            match part.as_str() {
                "super" => drop(here.pop()),
                "self" => {}
                part => {
                    here.push(part.to_owned());
                    break;
                }
            }
        }
        self.used.extend(here.into_iter().next());
    }
}

impl<'ast> Visit<'ast> for ModuleUses {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_only(&module.attrs) {
            self.module.push(plain(&module.ident));
            visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test_only(&item.attrs) {
            for path in leaves(&item.tree) {
                self.add(&path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| plain(&segment.ident)).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::a)` uses nothing.
    }
}

/// Returns the modules that reach themselves.
fn in_cycles(graph: &ModuleGraph) -> Vec<String> {
    graph.keys().filter(|name| graph[*name].iter().any(|used| reaches(graph, used, name))).cloned().collect()
}

fn reaches(graph: &ModuleGraph, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(graph.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::super::workspace::sample_package;
    use super::*;

    #[track_caller]
    fn check_cycles(files: &[(&str, &str)], expected: Option<&str>) {
        let sources: Vec<Source> = files.iter().map(|(file, text)| sample(file, text)).collect();
        let workspace = Workspace { packages: vec![sample_package("p", &["src/lib.rs"])] };
        let found = measure(&workspace, &sources);
        let modules: Option<&str> =
            found.first().and_then(|one| one.fix.split_once(": ")).map(|(_, modules)| modules);
        assert_eq!(modules, expected);
        assert_eq!(
            found.first().map(|one| one.subject.as_str()),
            expected.map(|_| "p top modules in cycles")
        );
    }

    #[test]
    fn cycles_are_found_however_they_are_written() {
        let lib = ("src/lib.rs", "mod a; mod b; mod c; pub use b::{Deep, inner::Name as Other};");
        let b = ("src/b.rs", "use crate::c::X; struct Deep;");
        let cycle = Some("a (uses b), b (uses c), c (uses a)");
        for use_of_b in [
            "use crate::b::Deep;",
            "use super::super::b;",
            "use crate::{c, b::Deep};",
            "use crate::Deep;",
            "fn f() -> crate::b::Deep { crate::b::Deep }",
            "fn f() { super::super::b::run() }",
            "mod inner { use super::super::super::b; }",
        ] {
            let a = ("src/a/deep.rs", use_of_b);
            let c = ("src/c.rs", "fn f(_: crate::a::A) {}");
            check_cycles(
                &[lib, a, b, c],
                if use_of_b.contains("{c, b") {
                    Some("a (uses b, c), b (uses c), c (uses a)")
                } else {
                    cycle
                },
            );
        }
    }

    #[test]
    fn one_way_is_fine_and_tests_do_not_count() {
        let lib = ("src/lib.rs", "mod a; mod b;");
        let a = ("src/a/mod.rs", "mod deep; use crate::b::X; use self::deep::Y; use std::fmt;");
        let b = ("src/b.rs", "#[cfg(test)]\nmod tests { use crate::a::Y; }\npub(in crate::a) fn f() {}");
        check_cycles(&[lib, a, b], None);
    }
}
