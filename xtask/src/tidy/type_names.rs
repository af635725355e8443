//! Checks that a type name stands for one thing: two types of a package may share a name, a third may not. Exceptions
//! are in `xtask/ratchet.txt` and may only shrink.
//!
//! Structs, enums, unions, traits and type aliases of all modules below `src` count, private ones too. Tests and types
//! inside functions do not.

use std::collections::BTreeMap;

use syn::{Ident, Item};

use super::measure::Measure;
use super::source::{Source, is_test_only, line};
use super::workspace::{Package, Workspace};

/// How many types of a package may have the same name.
const SAME_NAME_MAX: usize = 2;

/// Returns every name that several types of a package share.
pub(crate) fn measure(workspace: &Workspace, sources: &[Source]) -> Vec<Measure> {
    workspace.packages.iter().flat_map(|package| measure_package(package, sources)).collect()
}

fn measure_package(package: &Package, sources: &[Source]) -> Vec<Measure> {
    let folder = package.folder.join("src");
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with(&folder) && !source.is_test()) {
        let mut found = Vec::new();
        collect(&source.syntax.items, &mut found);
        for name in found {
            places.entry(name.to_string()).or_default().push((&source.file, line(name)));
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| of_name(package, &name, &places)).collect()
}

fn of_name(package: &Package, name: &str, places: &[(&str, usize)]) -> Measure {
    let (file, line) = places[places.len().min(SAME_NAME_MAX + 1) - 1];
    let others: Vec<String> = places
        .iter()
        .filter(|place| **place != (file, line))
        .map(|(file, line)| format!("{file}:{line}"))
        .collect();
    Measure {
        subject: format!("{} type {name}", package.name),
        file: file.to_owned(),
        line,
        amount: places.len(),
        amount_max: SAME_NAME_MAX,
        unit: "types",
        fix: format!("give each a name that says which one it is; the others are in {}", others.join(", ")),
    }
}

/// Adds the names of the types among these items and in their modules.
fn collect<'a>(items: &'a [Item], found: &mut Vec<&'a Ident>) {
    for item in items {
        match item {
            Item::Struct(item) => found.push(&item.ident),
            Item::Enum(item) => found.push(&item.ident),
            Item::Union(item) => found.push(&item.ident),
            Item::Trait(item) => found.push(&item.ident),
            Item::Type(item) => found.push(&item.ident),
            Item::Mod(module) if !is_test_only(&module.attrs) => {
                if let Some((_, items)) = &module.content {
                    collect(items, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::super::workspace::sample_package;
    use super::*;

    #[test]
    fn names_are_counted_per_package() {
        let sources = [
            sample("src/lib.rs", "struct State; mod inner { enum State {} }"),
            sample("src/a.rs", "trait State {}\ntype Page = u8;\n#[cfg(test)]\nmod tests { struct State; }"),
            sample("src/tests.rs", "struct State;"),
            sample("tests/it/main.rs", "struct State;"),
            sample("src/b.rs", "struct Page; struct Only; fn f() { struct Only; }"),
        ];
        let workspace = Workspace { packages: vec![sample_package("p", &["src/lib.rs"])] };
        let measures = measure(&workspace, &sources);
        let found: Vec<(&str, usize)> =
            measures.iter().map(|one| (one.subject.as_str(), one.amount)).collect();
        assert_eq!(found, [("p type Page", 2), ("p type State", 3)]);
        assert_eq!((measures[1].file.as_str(), measures[1].line), ("src/a.rs", 1));
        assert!(measures[1].fix.ends_with("src/lib.rs:1, src/lib.rs:1"), "{}", measures[1].fix);
    }
}
