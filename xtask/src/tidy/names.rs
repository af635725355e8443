//! Checks names and attributes that say too little: drawer modules, ignored tests, exceptions without a reason.
//!
//! What clippy can deny is denied in Cargo.toml; this checks only what clippy cannot see or what differs in tests.

use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod};

use super::Problem;
use super::source::{Source, line};

/// Module names that attract whatever has no other place.
const DRAWERS: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// Returns the problems of one file.
pub(crate) fn check(source: &Source) -> Vec<Problem> {
    let mut visitor = Names { file: &source.file, problems: Vec::new() };
    visitor.visit_file(&source.syntax);
    visitor.problems
}

struct Names<'a> {
    file: &'a str,
    problems: Vec<Problem>,
}

impl Names<'_> {
    fn refuse(&mut self, line: usize, what: impl Into<String>, fix: &str) {
        self.problems.push(Problem::new(self.file, line, what, fix));
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if DRAWERS.contains(&module.ident.to_string().as_str()) {
            let what = format!("module `{}` is a drawer", module.ident);
            self.refuse(line(&module.ident), what, "name it after the one thing it holds");
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let path = attribute.path();
        if path.is_ident("ignore") {
            self.refuse(line(attribute), "test is ignored", "make it fast and reliable, or delete it");
        }
        if (path.is_ident("allow") || path.is_ident("expect")) && !has_reason(attribute) {
            self.refuse(
                line(attribute),
                "lint exception without a reason",
                "write #[expect(lint, reason = \"…\")]",
            );
        }
    }
}

fn has_reason(attribute: &Attribute) -> bool {
    let mut found = false;
    // Stops at the first part that is not a plain path or `name = value`, such as a lint of a nested tool: by then
    // every part before it was seen, and `reason` may only come last, so everything that can be parsed is.
    let _ = attribute.parse_nested_meta(|meta| {
        found |= meta.path.is_ident("reason");
        if meta.input.peek(syn::Token![=]) {
            meta.value()?.parse::<syn::Expr>()?;
        }
        Ok(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    #[track_caller]
    fn check_lines(text: &str, expected: &[usize]) {
        let lines: Vec<usize> = check(&sample("a.rs", text)).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn names_and_attributes() {
        check_lines("mod store;\nmod utils;", &[2]);
        check_lines("#[test]\n#[ignore]\nfn a() {}", &[2]);
        check_lines("#[ignore = \"slow\"]\nfn a() {}", &[1]);
        check_lines("#[allow(dead_code)]\nfn a() {}", &[1]);
        check_lines("#[expect(clippy::too_many_arguments)]\nfn a() {}", &[1]);
        check_lines("#[expect(clippy::too_many_arguments, reason = \"a trait of hyper's\")]\nfn a() {}", &[]);
        check_lines("#[allow(dead_code, reason = \"used by one feature\")]\nfn a() {}", &[]);
    }
}
