//! Reads the file given by `--token-auth-file`, which has one line of comma-separated values for each token, as in
//! kube-apiserver.
//!
//! ```text
//! token,user,uid
//! token,user,uid,"group1,group2"
//! ```
//!
//! A running server reads its file again at intervals, which kube-apiserver does not; a file that is broken by then changes
//! nothing.

use std::path::{Path, PathBuf};

use homeostat_api::user_identity::{AUTHENTICATED, Identity};

/// The minimum number of values in a line: token, user and uid.
const COLUMNS_MIN: usize = 3;

/// Static tokens and their users.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StaticTokens {
    tokens: Vec<(String, Identity)>,
    /// The file that they were read from, if it is to be followed.
    file: Option<PathBuf>,
}

impl std::fmt::Debug for StaticTokens {
    /// Omits the tokens themselves.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.tokens.iter().map(|(_, identity)| identity)).finish()
    }
}

impl StaticTokens {
    /// Reads the file; a server with these tokens reads it again while it runs.
    pub fn load(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        Ok(Self { file: Some(file.to_owned()), ..Self::parse(&text)? })
    }

    /// Returns the file to read again, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Parses the contents of a file. The error names the line that is wrong, but reveals nothing of its content.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens: Vec<(String, Identity)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |what: String| format!("line {}: {what}", at + 1);
            let values = split_values(line).map_err(|what| wrong(what.to_owned()))?;
            if values.len() < COLUMNS_MIN {
                let found = values.len();
                return Err(wrong(format!(
                    "write token,user,uid and optionally \"group1,group2\"; found {found} values"
                )));
            }
            let [token, name, uid] = [0, 1, 2].map(|index| values[index].clone());
            if token.is_empty() || name.is_empty() {
                return Err(wrong("neither the token nor the user may be empty".to_owned()));
            }
            if tokens.iter().any(|(known, _)| *known == token) {
                return Err(wrong("another line has the same token".to_owned()));
            }
            let groups = values.get(COLUMNS_MIN).map(|groups| groups.split(',').map(str::trim));
            let mut groups: Vec<String> =
                groups.into_iter().flatten().filter(|group| !group.is_empty()).map(Into::into).collect();
            if !groups.iter().any(|group| group == AUTHENTICATED) {
                groups.push(AUTHENTICATED.to_owned());
            }
            tokens.push((token, Identity { name, uid, groups, ..Identity::default() }));
        }
        Ok(Self { tokens, file: None })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Identity)> {
        self.tokens.iter()
    }
}

/// Splits a line at its commas. A value in quotation marks may contain commas, and quotation marks written twice.
fn split_values(line: &str) -> Result<Vec<String>, &'static str> {
    let mut values = Vec::new();
    let mut rest = line;
    loop {
        let value = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                if rest[..end].contains('"') {
                    return Err("a quotation mark stands inside of a value");
                }
                let value = rest[..end].to_owned();
                rest = &rest[end..];
                value
            }
            Some(quoted) => {
                let (value, after) = split_quoted(quoted).ok_or("a quotation mark is not closed")?;
                rest = after;
                value
            }
        };
        values.push(value);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(values),
            None => return Err("there is text after a closing quotation mark"),
        }
    }
}

/// Returns the value up to the closing quotation mark, and the text after it.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        value.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return Some((value, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, &str, &[&str])]) {
        let StaticTokens { tokens, .. } = StaticTokens::parse(text).expect("it is well-formed");
        let found: Vec<_> = tokens
            .iter()
            .map(|(token, who)| {
                let groups: Vec<_> = who.groups.iter().map(String::as_str).collect();
                (token.as_str(), who.name.as_str(), who.uid.as_str(), groups)
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(token, name, uid, groups)| (*token, *name, *uid, groups.to_vec()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn tokens_name_users_and_groups() {
        check("", &[]);
        check("t,jane,1", &[("t", "jane", "1", &["system:authenticated"])]);
        check("t,jane,\n\n", &[("t", "jane", "", &["system:authenticated"])]);
        check(
            "t,jane,1,\"a,b\"\r\nu,\"o\"\"x,y\",2,c,ignored\n",
            &[
                ("t", "jane", "1", &["a", "b", "system:authenticated"]),
                ("u", "o\"x,y", "2", &["c", "system:authenticated"]),
            ],
        );
    }

    #[test]
    fn broken_lines_are_named_without_their_contents() {
        let broken = [
            "secret,jane",
            "secret",
            ",jane,1",
            "secret,,1",
            "secret,\"jane,1",
            "secret,\"jane\"x,1",
            "sec\"ret,jane,1",
        ];
        for text in broken {
            let why = StaticTokens::parse(&format!("fine,joe,1\n{text}")).expect_err(text);
            assert!(why.starts_with("line 2: ") && !why.contains("secret"), "{text}: {why}");
        }
        let twice = StaticTokens::parse("secret,jane,1\nsecret,joe,2").expect_err("the token has two users");
        assert!(twice.contains("same token"), "{twice}");
        assert!(!format!("{:?}", StaticTokens::parse("secret,jane,1")).contains("secret"));
    }
}
