//! Checks that `mod` declarations lead from a crate root to every Rust file. A file without one is never compiled: its
//! tests never run, and nothing says so.
//!
//! All `cfg`s count as on, and `#[path]` is followed. `include!` is not: nothing here uses it for code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Item, ItemMod};

use super::Problem;
use super::source::Source;
use super::workspace::Workspace;

/// Returns the files to which no crate root leads.
pub(crate) fn check(workspace: &Workspace, sources: &[Source]) -> Vec<Problem> {
    let by_path: BTreeMap<&Path, &Source> = sources.iter().map(|s| (s.path.as_path(), s)).collect();
    let mut reached = BTreeSet::new();
    for root in workspace.packages.iter().flat_map(|package| &package.roots) {
        visit(root, &folder_of_root(root), &by_path, &mut reached);
    }
    let dead = sources.iter().filter(|source| !reached.contains(&source.path));
    dead.map(|source| {
        let fix = "declare it with `mod` in its parent, or delete it";
        Problem::new(&source.file, 1, "no `mod` declaration leads here, so it is never compiled", fix)
    })
    .collect()
}

fn folder_of_root(root: &Path) -> PathBuf {
    root.parent().map(PathBuf::from).unwrap_or_default()
}

/// Marks `file` and everything it declares. `folder` is where its child modules are.
fn visit(file: &Path, folder: &Path, by_path: &BTreeMap<&Path, &Source>, reached: &mut BTreeSet<PathBuf>) {
    let Some(source) = by_path.get(file) else { return };
    if !reached.insert(file.to_owned()) {
        return;
    }
    let mut declared = Vec::new();
    collect(&source.syntax.items, &folder_of_root(file), folder, &mut declared);
    for (candidate, children) in declared {
        visit(&candidate, &children, by_path, reached);
    }
}

/// Collects the files that the items may mean, each with its children's folder. Those that do not exist are dropped
/// later.
fn collect(items: &[Item], beside: &Path, folder: &Path, declared: &mut Vec<(PathBuf, PathBuf)>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let children = folder.join(name_of(module));
        if let Some((_, items)) = &module.content {
            collect(items, beside, &children, declared);
        } else if let Some(path) = path_attribute(module) {
            // Beside the declaring file, or, in an inline module, below its folder.
            for file in [beside.join(&path), folder.join(&path)] {
                declared.push((file.clone(), folder_of_root(&file)));
            }
        } else {
            declared.push((folder.join(format!("{}.rs", name_of(module))), children.clone()));
            declared.push((children.join("mod.rs"), children));
        }
    }
}

fn name_of(module: &ItemMod) -> String {
    module.ident.to_string().trim_start_matches("r#").to_owned()
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    let attribute = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::super::workspace::sample_package;
    use super::*;

    #[test]
    fn follows_every_way_to_declare_a_module() {
        let sources = [
            sample("src/lib.rs", "mod a; mod r#type; mod inline { mod b; } #[path = \"odd/c.rs\"] mod c;"),
            sample("src/a/mod.rs", "#[cfg(test)] mod tests;"),
            sample("src/a/tests.rs", ""),
            sample("src/a/forgotten.rs", "mod deeper;"),
            sample("src/a/forgotten/deeper.rs", ""),
            sample("src/type.rs", "mod child; #[path = \"type_tests.rs\"] mod tests;"),
            sample("src/type_tests.rs", ""),
            sample("src/type/child.rs", ""),
            sample("src/inline/b.rs", ""),
            sample("src/odd/c.rs", "mod beside;"),
            sample("src/odd/beside.rs", ""),
        ];
        let package = sample_package("a", &["src/lib.rs"]);
        let dead: Vec<String> =
            check(&Workspace { packages: vec![package] }, &sources).into_iter().map(|p| p.file).collect();
        assert_eq!(dead, ["src/a/forgotten.rs", "src/a/forgotten/deeper.rs"]);
    }
}
