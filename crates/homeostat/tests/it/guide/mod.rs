//! What the guide shows compiles: every line of its Rust stands, in the same order, in one of the files beside this one,
//! which are compiled (and, where they are tests, run). What pages leave out with `…` is filled in there.
//!
//! Comments, semicolons and commas at the ends of lines do not count, and whether a body follows a signature.

mod handlers;
mod reconcilers;
mod testing;
mod worlds;

use std::fs;
use std::path::Path;

const COMPILED: [&str; 4] = [
    include_str!("handlers.rs"),
    include_str!("reconcilers.rs"),
    include_str!("testing.rs"),
    include_str!("worlds.rs"),
];

/// A line without what does not count; none when nothing is left.
fn essence(line: &str) -> Option<&str> {
    let code = line.split(" //").next().unwrap_or_default().trim();
    let code = code.split('…').next().unwrap_or_default().trim_end();
    let code = code.trim_end_matches([',', ';', '{', ' ']);
    (!code.is_empty() && !code.starts_with("//")).then_some(code)
}

/// The blocks of Rust on a page.
fn blocks(page: &str) -> Vec<Vec<&str>> {
    let after = page.split("```rust\n").skip(1);
    let blocks = after.map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.map(|block| block.lines().filter_map(essence).collect()).collect()
}

/// The first line of the block that this file does not have after the ones before it.
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

#[test]
fn a_line_that_is_nowhere_is_found_missing() {
    let [block] = &blocks("```rust\nlet a = 1; // one\nfoo(…)\n```\n")[..] else { panic!("one block") };
    assert_eq!(block, &["let a = 1", "foo("]);
    assert_eq!(missing(block, "let a = 1;\nfoo(\n"), None);
    assert_eq!(missing(block, "foo(\nlet a = 1;\n"), Some("foo("), "in another order");
}
