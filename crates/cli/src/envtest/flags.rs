//! The command line of a stand-in, read as Go programs read theirs: `--name=value`, `--name value`, one dash or two,
//! switches without a value, names with `_` for `-`, and the same name several times.
//!
//! **Invariant:** all flags of the original program are accepted, and no others.

use std::collections::BTreeMap;

/// The flags that a program knows.
pub(super) struct KnownFlags {
    /// Flags with a value.
    pub(super) values: &'static [&'static str],
    /// Flags that are on or off.
    pub(super) switches: &'static [&'static str],
}

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandLine {
    Help,
    Version,
    Run(Flags),
}

/// The flags that were given, each with its values in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(BTreeMap<String, Vec<String>>);

impl KnownFlags {
    /// Reads a command line.
    pub(super) fn parse(&self, arguments: &[String]) -> Result<CommandLine, String> {
        let mut flags = Flags::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(flag) = argument.strip_prefix('-') else {
                return Err(format!("unknown command {argument:?}"));
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            match name.as_str() {
                "help" | "h" => return Ok(CommandLine::Help),
                "version" if value != Some("false") => return Ok(CommandLine::Version),
                "version" => continue,
                _ => {}
            }
            let value = match value {
                Some(value) => value.to_owned(),
                None if self.switches.contains(&name.as_str()) => "true".to_owned(),
                None if !self.values.contains(&name.as_str()) => {
                    return Err(format!("unknown flag: --{name}"));
                }
                None => rest.next().cloned().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
            };
            if !self.switches.contains(&name.as_str()) && !self.values.contains(&name.as_str()) {
                return Err(format!("unknown flag: --{name}"));
            }
            flags.0.entry(name).or_default().push(value);
        }
        Ok(CommandLine::Run(flags))
    }

    /// Returns the help: one line for each flag, which is what callers look for.
    pub(super) fn help(&self, program: &str) -> String {
        let mut names: Vec<&str> = self.values.iter().chain(self.switches).copied().collect();
        names.sort_unstable();
        let lines = names.join("\n      --");
        format!("Homeostat in place of {program}, for test suites.\n\nFlags:\n      --{lines}\n")
    }
}

impl Flags {
    /// Returns the last value, which takes precedence; `None` if it is empty or the flag was not given.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns all values in order.
    pub(super) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns all parts of values that are comma-separated lists.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.all(name).iter().flat_map(|value| value.split(','));
        parts.map(str::trim).filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
    }

    /// Returns whether a switch is on.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        self.last(name).map_or(default, |value| matches!(value, "true" | "1" | "t" | "T" | "TRUE" | "True"))
    }

    /// Returns the names that were given.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: KnownFlags = KnownFlags { values: &["data-dir", "issuer"], switches: &["allow"] };

    #[track_caller]
    fn check(line: &str, expected: Result<&[(&str, &[&str])], &str>) {
        let arguments: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        let found = KNOWN.parse(&arguments);
        let expected = expected.map_err(ToOwned::to_owned).map(|flags| {
            let owned = |(name, values): &(&str, &[&str])| {
                ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
            };
            CommandLine::Run(Flags(flags.iter().map(owned).collect()))
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn flags_are_read_in_every_form_that_go_programs_accept() {
        check("--data-dir=/a --allow", Ok(&[("data-dir", &["/a"]), ("allow", &["true"])]));
        check(
            "-data-dir /a --allow --issuer b",
            Ok(&[("data-dir", &["/a"]), ("allow", &["true"]), ("issuer", &["b"])]),
        );
        check("--issuer a --issuer=b=c", Ok(&[("issuer", &["a", "b=c"])]));
        check("--data_dir=x --allow=false", Ok(&[("data-dir", &["x"]), ("allow", &["false"])]));
        check("--insecure-port=0", Err("unknown flag: --insecure-port"));
        check("--insecure-port 0", Err("unknown flag: --insecure-port"));
        check("--issuer", Err("flag needs an argument: --issuer"));
        check("serve", Err("unknown command \"serve\""));
        assert_eq!(KNOWN.parse(&["--allow".into(), "--help".into()]), Ok(CommandLine::Help));
    }

    #[test]
    fn the_help_has_a_line_that_begins_with_each_flag() {
        let help = KNOWN.help("etcd");
        for flag in ["--data-dir", "--allow"] {
            assert!(help.lines().any(|line| line.trim_start() == flag), "{help}");
        }
    }
}
