//! Checks that every Rust file opens with a `//!` header: what it is for, its invariant, what it deliberately does not
//! do.
//!
//! The aim is three to eight lines; only its presence, its position and a first sentence are checked, because a padded
//! header is worse than a short one.

use super::Problem;
use super::source::Source;

/// A header shorter than this says nothing.
const CHARACTERS_MIN: usize = 20;

/// Returns a problem unless the file opens with its header.
pub(crate) fn check(source: &Source) -> Option<Problem> {
    let header: Vec<&str> = source.text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let length: usize = header.iter().map(|line| line.trim().len()).sum();
    if length >= CHARACTERS_MIN {
        return None;
    }
    let what = if header.is_empty() { "has no `//!` header" } else { "has a `//!` header that says nothing" };
    let fix = "open the file with 3 to 8 `//!` lines: what it is for, its invariant, what it does not do";
    Some(Problem::new(&source.file, 1, what, fix))
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    #[test]
    fn a_header_comes_first_and_says_something() {
        let is_good = |text: &str| check(&sample("a.rs", text)).is_none();
        assert!(is_good("//! Keeps the books of the shop.\n\nfn a() {}"));
        assert!(!is_good("fn a() {}"));
        assert!(!is_good("//! Books.\n"));
        assert!(!is_good("use a::b;\n// Keeps the books of the shop, in a plain comment.\n"));
    }
}
