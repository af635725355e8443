//! The format of a folder: the layout of its files, which this crate defines, and the version of their contents, which
//! its user defines.
//!
//! The first record of every file states both. A folder whose files are replaced one by one can therefore be read at
//! any moment in between, and no separate record exists that could contradict them.
//!
//! **Invariant:** a file with a newer layout or version is rejected before anything else is read or changed.

use std::fmt;
use std::io::{self, Read as _};

use homeostat_core::Key;

use super::files::Files;
use super::frame::{FrameHeader, HEADER_BYTES};
use crate::Value;

/// The layout this code writes: frames as in `frame`, files with space at their end, and a content version.
const LAYOUT: u32 = 3;
/// The layout whose files need no space at their end. Layouts before [`LAYOUT`] have contents of version 0.
const LAYOUT_WITHOUT_ROOM: u32 = 1;
const LAYOUT_WORDS: &str = "homeostat store ";
const CONTENTS_WORDS: &str = " contents ";
/// A longer first record is not one of ours.
const START_BYTES_MAX: usize = 1024;

/// The version of the contents, and how to migrate older versions to it. The store knows only keys and bytes; only the
/// program that opens it knows what they mean and how to migrate them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentFormat {
    /// The n-th migration migrates contents from version n to version n + 1, so their number is the current version. A
    /// migration never changes once released, because folders with its version exist.
    pub migrations: &'static [Migration],
}

impl ContentFormat {
    pub(super) fn version(self) -> u32 {
        u32::try_from(self.migrations.len()).expect("a handful")
    }
}

/// The changes that a migration makes from one version to the next.
#[derive(Clone, Copy, Debug)]
pub enum Migration {
    /// Keys.
    Keys(KeyMigration),
    /// Values: the function returns the new value, or `None` to keep the old one. Keys, revisions and times stay.
    Values(fn(&Key, &Value) -> Option<Value>),
}

/// How keys change from one version to the next; values, revisions and times stay.
///
/// **Invariant:** each key has a different new name, and no new name is a key of the previous version. At any moment,
/// either a key or its new name exists, never both, so a deletion refers to the one that exists.
#[derive(Clone, Copy, Debug)]
pub struct KeyMigration {
    /// Returns the new name of a key whose value moves.
    pub new_name: fn(&Key) -> Key,
    /// Returns whether this value of this key moves to the new name.
    pub moves: fn(&Key, &[u8]) -> bool,
}

/// The format of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileFormat {
    layout: u32,
    pub(super) contents: u32,
}

impl FileFormat {
    /// Returns the format of newly written files.
    pub(super) fn new(contents: u32) -> Self {
        Self { layout: LAYOUT, contents }
    }

    /// Parses the payload of a first record; `None` if it is not ours.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?.strip_prefix(LAYOUT_WORDS)?;
        let (layout, rest) =
            text.split_at(text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len()));
        let layout = layout.parse().ok()?;
        // If the layout is newer, only its number can be read.
        let contents = match rest.strip_prefix(CONTENTS_WORDS) {
            Some(version) if layout == LAYOUT => version.parse().ok()?,
            None if layout == LAYOUT || !rest.is_empty() && layout < LAYOUT => return None,
            _ => 0,
        };
        Some(Self { layout, contents })
    }

    /// Returns the payload of a first record.
    pub(super) fn payload(self) -> String {
        format!("{LAYOUT_WORDS}{}{CONTENTS_WORDS}{}", self.layout, self.contents)
    }

    /// Returns whether it is too new for a program whose contents have this version.
    pub(super) fn is_newer(self, contents: u32) -> bool {
        self.layout > LAYOUT || self.contents > contents
    }

    /// Returns whether every file with this layout has space at its end.
    pub(super) fn has_room(self) -> bool {
        self.layout > LAYOUT_WITHOUT_ROOM
    }
}

/// Prints the format for people: `3.1` is layout 3 with contents of version 1.
impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layout, self.contents)
    }
}

/// Reads a file's format; `None` if its first record is broken or not ours, which is reported when the file is read.
pub(super) fn of_file(files: &dyn Files, name: &str) -> io::Result<Option<FileFormat>> {
    let mut start = Vec::new();
    files.open(name)?.take(START_BYTES_MAX as u64).read_to_end(&mut start)?;
    let format = FrameHeader::read(&start).and_then(|header| {
        let body = start.get(HEADER_BYTES..)?.get(..header.body_bytes())?;
        FileFormat::parse(header.with_body(body)?.payload)
    });
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_reads_back_and_older_ones_are_known() {
        let format = |layout, contents| Some(FileFormat { layout, contents });
        assert_eq!(FileFormat::parse(FileFormat::new(7).payload().as_bytes()), format(3, 7));
        assert_eq!(FileFormat::parse(b"homeostat store 1"), format(1, 0));
        assert_eq!(FileFormat::parse(b"homeostat store 2"), format(2, 0));
        assert_eq!(FileFormat::parse(b"homeostat store 12, whatever that is"), format(12, 0));
        for odd in [
            "homeostat store ",
            "homeostat store 3",
            "homeostat store 2 x",
            "homeostat store 3 contents x",
            "",
        ] {
            assert_eq!(FileFormat::parse(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn only_what_is_beyond_us_is_newer() {
        let is_newer =
            |text: &str| FileFormat::parse(text.as_bytes()).is_some_and(|format| format.is_newer(1));
        assert!(!is_newer("homeostat store 2") && !is_newer("homeostat store 3 contents 1"));
        assert!(is_newer("homeostat store 3 contents 2") && is_newer("homeostat store 4"));
    }
}
