//! Checks that functions have at most 70 lines and files at most 500. What was longer when it was added is in
//! `xtask/ratchet.txt` and may only shrink. Test code is not measured: its tables may be long.
//!
//! A table outside the tests has a marker: `// tidy-table: why` right above the function, or in the first lines of the
//! file. A function counts from `fn` to its closing brace; a file counts without its `#[cfg(test)]` items.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item, ItemFn, ItemMod, Signature, TraitItemFn};

use super::measure::Measure;
use super::source::{Source, is_test_only, line, lines};

/// One screen of an editor: what a reader can hold at once.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;
/// A file that needs more has two subjects.
pub(crate) const FILE_LINES_MAX: usize = 500;
const UNIT: &str = "lines";
const FIX: &str = "split it where the subject changes; a table gets `// tidy-table: why` above it";
/// Followed by the reason.
const MARKER: &str = "// tidy-table: ";
/// A file's marker is within this many lines, beside its header.
const MARKER_LINES: usize = 15;

/// Measures every file and function outside the tests that is not marked as a table.
pub(crate) fn measure(sources: &[Source]) -> Vec<Measure> {
    sources.iter().filter(|source| !source.is_test()).flat_map(measure_source).collect()
}

fn measure_source(source: &Source) -> Vec<Measure> {
    let mut functions = Functions { source, scope: Vec::new(), measures: Vec::new() };
    functions.visit_file(&source.syntax);
    let mut measures = functions.measures;
    if !source.text.lines().take(MARKER_LINES).any(|line| line.starts_with(MARKER)) {
        measures.push(Measure {
            subject: source.file.clone(),
            file: source.file.clone(),
            line: 1,
            amount: source.text.lines().count() - test_lines(&source.syntax.items),
            amount_max: FILE_LINES_MAX,
            unit: UNIT,
            fix: FIX.to_owned(),
        });
    }
    measures
}

fn test_lines(items: &[Item]) -> usize {
    let modules = items.iter().filter_map(|item| match item {
        Item::Mod(module) if is_test_only(&module.attrs) => Some(lines(module.span(), module.span())),
        _ => None,
    });
    modules.sum()
}

struct Functions<'a> {
    source: &'a Source,
    /// The type of the enclosing `impl` or `trait`.
    scope: Vec<String>,
    measures: Vec<Measure>,
}

impl Functions<'_> {
    fn add(&mut self, signature: &Signature, end: proc_macro2::Span) {
        let line = line(&signature.fn_token);
        if self.is_table(line) {
            return;
        }
        let mut path = vec![self.source.file.clone()];
        path.extend(self.scope.iter().cloned());
        path.push(signature.ident.to_string());
        self.measures.push(Measure {
            subject: path.join("::"),
            file: self.source.file.clone(),
            line,
            amount: lines(signature.fn_token.span, end),
            amount_max: FUNCTION_LINES_MAX,
            unit: UNIT,
            fix: FIX.to_owned(),
        });
    }

    /// Returns whether the comments and attributes right above the function contain the marker.
    fn is_table(&self, line: usize) -> bool {
        let above: Vec<&str> = self.source.text.lines().take(line - 1).map(str::trim).collect();
        let attached = |text: &&&str| text.starts_with("//") || text.starts_with('#');
        above.iter().rev().take_while(attached).any(|text| text.starts_with(MARKER))
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.scope.push(type_name(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.scope.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.scope.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.scope.pop();
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test_only(&function.attrs) {
            self.add(&function.sig, function.block.span());
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, function.block.span());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block.span());
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn type_name(self_type: &syn::Type) -> String {
    match self_type {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default(),
        _ => "impl".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratchet::Ratchet;
    use super::super::source::sample;
    use super::*;

    fn body(lines: usize) -> String {
        "    a();\n".repeat(lines)
    }

    #[track_caller]
    fn check_sizes(text: &str, expected: &[(&str, usize)]) {
        let measures = measure(&[sample("a.rs", text)]);
        let found: Vec<(&str, usize)> = measures.iter().map(|m| (m.subject.as_str(), m.amount)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn counts_functions_and_files_without_tests() {
        check_sizes("/// Doc.\n#[inline]\nfn f(\n    a: u8,\n) {\n}\n", &[("a.rs::f", 4), ("a.rs", 6)]);
        check_sizes("impl A {\n    fn f() {}\n}\n", &[("a.rs::A::f", 1), ("a.rs", 3)]);
        check_sizes("trait A {\n    fn f();\n    fn g() {}\n}\n", &[("a.rs::A::g", 1), ("a.rs", 4)]);
        check_sizes(
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n",
            &[("a.rs::f", 1), ("a.rs", 1)],
        );
        check_sizes("// tidy-table: verbs\nfn f() {}\nfn g() {}\n", &[("a.rs::g", 1)]);
        let far = format!("{}/// Doc.\n// tidy-table: verbs\n#[inline]\nfn f() {{}}\n", "\n".repeat(20));
        check_sizes(&far, &[("a.rs", 24)]);
    }

    #[test]
    fn too_long_is_a_problem_unless_granted() {
        let source = sample("a.rs", &format!("fn f() {{\n{}}}\n", body(69)));
        let measures = measure(std::slice::from_ref(&source));
        let problems = |ratchet: &str| Ratchet::parse(ratchet).unwrap().check(&measures).len();
        assert_eq!(problems(""), 1);
        assert_eq!(problems("a.rs::f 71"), 0);
        let fits = measure(&[sample("a.rs", &format!("fn f() {{\n{}}}\n", body(68)))]);
        assert_eq!(Ratchet::parse("").unwrap().check(&fits), []);
    }
}
