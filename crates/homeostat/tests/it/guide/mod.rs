//! Checks that the guide's code compiles: every line appears, in order, in one of these files, which are compiled (and,
//! if they are tests, run). They contain what the pages leave out with `…`.
//!
//! Comments, semicolons and commas at the ends of lines are ignored, and so is whether a body follows a signature.

mod handlers;
mod reconcilers;
mod simulations;
mod testing;
mod worlds;

use std::fs;
use std::path::Path;

const COMPILED: [&str; 5] = [
    include_str!("handlers.rs"),
    include_str!("reconcilers.rs"),
    include_str!("simulations.rs"),
    include_str!("testing.rs"),
    include_str!("worlds.rs"),
];

/// Returns a line without the ignored parts; `None` if nothing is left.
fn essence(line: &str) -> Option<&str> {
    let code = line.split(" //").next().unwrap_or_default().trim();
    let code = code.split('…').next().unwrap_or_default().trim_end();
    let code = code.trim_end_matches([',', ';', '{', ' ']);
    (!code.is_empty() && !code.starts_with("//")).then_some(code)
}

/// Returns the blocks of Rust on a page.
fn blocks(page: &str) -> Vec<Vec<&str>> {
    let after = page.split("```rust\n").skip(1);
    let blocks = after.map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.map(|block| block.lines().filter_map(essence).collect()).collect()
}

/// Returns the first line of the block that this file does not contain after the previous ones.
fn missing<'a>(block: &[&'a str], compiled: &str) -> Option<&'a str> {
    let mut lines = compiled.lines().filter_map(essence);
    block.iter().copied().find(|line| !lines.any(|other| other == *line))
}

#[test]
fn what_the_guide_shows_compiles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let (mut count, mut problems) = (0, Vec::new());
    for page in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&page).unwrap();
        for block in blocks(&text) {
            count += 1;
            let missing: Vec<&str> =
                COMPILED.iter().filter_map(|compiled| missing(&block, compiled)).collect();
            let is_quoted = missing.len() < COMPILED.len();
            if !is_quoted {
                problems.push(format!(
                    "{}: no file has a block, for want of one of {missing:#?}",
                    page.display()
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 10, "only {count} blocks were found");
}

/// Returns the public methods of a type that the sources under `folder` declare in blocks that begin with `opening`.
fn methods(folder: &Path, opening: &str, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            methods(&path, opening, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split(opening).skip(1) {
            let lines = block.split("\n}").next().unwrap_or_default().lines();
            let declared = lines.filter_map(|line| {
                let line = line.strip_prefix("    pub ")?;
                line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")
            });
            found.extend(declared.filter_map(|rest| rest.split(['(', '<']).next()).map(ToOwned::to_owned));
        }
    }
}

/// Returns whether the method is called on this page.
fn is_shown(page: &str, name: &str) -> bool {
    let calls = [format!(".{name}("), format!(".{name}::<"), format!("::{name}(")];
    calls.iter().any(|call| page.contains(call))
}

#[test]
fn at_a_glance_has_every_method() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/guide/at-a-glance.md")).unwrap();
    for (kind, opening, least) in [
        ("Operator", "\nimpl Operator {", 20),
        ("Controller", "\nimpl<K: Kind> Controller<K> {", 20),
        ("Context", "\nimpl<K: Kind> Context<K> {", 20),
    ] {
        let section = page.split("\n## ").find(|section| section.starts_with(&format!("`{kind}`"))).unwrap();
        let mut all = Vec::new();
        methods(&root.join("crates/runtime/src"), opening, &mut all);
        assert!(all.len() >= least, "only {all:?} of {kind} were found");
        let missing: Vec<&String> = all.iter().filter(|name| !is_shown(section, name)).collect();
        assert!(
            missing.is_empty(),
            "docs/guide/at-a-glance.md does not have these methods of {kind}: {missing:?}"
        );
    }
}

#[test]
fn a_line_that_is_nowhere_is_found_missing() {
    let [block] = &blocks("```rust\nlet a = 1; // one\nfoo(…)\n```\n")[..] else { panic!("one block") };
    assert_eq!(block, &["let a = 1", "foo("]);
    assert_eq!(missing(block, "let a = 1;\nfoo(\n"), None);
    assert_eq!(missing(block, "foo(\nlet a = 1;\n"), Some("foo("), "in another order");
}
