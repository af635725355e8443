//! The name of a project, and the names that follow from it: `page-operator` has the kind `Page`.

use std::str::FromStr;

/// Letters of a name: what a DNS label holds, because it becomes part of the API group.
const LETTERS_MAX: usize = 50;

/// A name fit for a package, a folder and a DNS label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_label = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        let is_fine = text.starts_with(|letter: char| letter.is_ascii_lowercase())
            && text.ends_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
            && text.chars().all(is_label)
            && text.len() <= LETTERS_MAX;
        // Cargo refuses a package of that name, and a crate `homeostat` could not use this one.
        let is_taken = ["test", "core", "std", "alloc", "homeostat"].contains(&text);
        if is_fine && !is_taken {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "write lower case letters, digits and dashes, as in page-operator, at most {LETTERS_MAX}"
        ))
    }
}

impl Name {
    /// The folder and the package.
    pub(super) fn project(&self) -> &str {
        &self.0
    }

    /// The template with its words filled in.
    pub(super) fn fill(&self, template: &str) -> String {
        let singular = self.singular();
        template
            .replace("{{name}}", &self.0)
            .replace("{{crate}}", &self.0.replace('-', "_"))
            .replace("{{kind}}", &kind(singular))
            .replace("{{singular}}", &singular.replace('-', ""))
            .replace("{{group}}", &format!("{}.example.com", self.0))
    }

    /// Without the word that says what sort of program it is.
    fn singular(&self) -> &str {
        let suffixes = ["-operator", "-controller"];
        suffixes.iter().find_map(|suffix| self.0.strip_suffix(suffix)).unwrap_or(&self.0)
    }
}

/// `static-page` is a `StaticPage`.
fn kind(words: &str) -> String {
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
            let filled =
                name.parse::<Name>().unwrap().fill("{{name}} {{crate}} {{kind}} {{singular}} {{group}}");
            assert_eq!(filled, expected);
        };
        check("page", "page page Page page page.example.com");
        check("page-operator", "page-operator page_operator Page page page-operator.example.com");
        check("static-page2", "static-page2 static_page2 StaticPage2 staticpage2 static-page2.example.com");
    }

    #[test]
    fn other_names_are_refused() {
        for name in
            ["", "Page", "1page", "page-", "-page", "a b", "../x", "test", "homeostat", &"x".repeat(51)]
        {
            assert!(name.parse::<Name>().is_err(), "{name}");
        }
    }
}
