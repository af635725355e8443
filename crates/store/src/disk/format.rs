//! What a folder is written in: the layout of its files, which is ours, and the version of what they hold, which is the
//! user's.
//!
//! The first record of every file says both. So a folder whose files are replaced one by one can be read at every moment
//! between, and there is no note beside them that could say something else than they do.
//!
//! **Invariant:** a file of a newer layout or version is refused before anything else is looked at or changed.

use std::fmt;
use std::io::{self, Read as _};

use homeostat_core::Key;

use super::files::Files;
use super::frame::{HEADER_BYTES, Header};

/// The layout this code writes: frames as in `frame`, files with room at their end, and a version of the contents.
const LAYOUT: u32 = 3;
/// Its files need not have room at their end. Layouts before [`LAYOUT`] have contents of version 0.
const LAYOUT_WITHOUT_ROOM: u32 = 1;
const LAYOUT_WORDS: &str = "homeostat store ";
const CONTENTS_WORDS: &str = " contents ";
/// Longer first records are none of ours.
const START_BYTES_MAX: usize = 1024;

/// The version of what is stored, and how older ones become it. The store knows keys and bytes; what they mean, and so what
/// must become of them, is known to whoever opens it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents {
    /// The n-th brings contents of version n to version n + 1, so their number is the present version. They are never
    /// changed once released: folders of that version are out there.
    pub migrations: &'static [KeyMigration],
}

impl Contents {
    pub(super) fn version(self) -> u32 {
        u32::try_from(self.migrations.len()).expect("a handful")
    }
}

/// How keys change from one version to the next; values, revisions and times stay.
///
/// **Invariant:** each key has one new name of its own, and no new name is a key of the version before. So at any moment
/// either a key or its new name is there, never both, and a deletion means the one that is.
#[derive(Clone, Copy, Debug)]
pub struct KeyMigration {
    /// The name a key gets if its value moves.
    pub new_name: fn(&Key) -> Key,
    /// Does this value of this key move to the new name?
    pub moves: fn(&Key, &[u8]) -> bool,
}

/// What one file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    layout: u32,
    pub(super) contents: u32,
}

impl Format {
    /// What files are written in now.
    pub(super) fn new(contents: u32) -> Self {
        Self { layout: LAYOUT, contents }
    }

    /// Reads the payload of a first record; `None`: it is none of ours.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?.strip_prefix(LAYOUT_WORDS)?;
        let (layout, rest) =
            text.split_at(text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len()));
        let layout = layout.parse().ok()?;
        // What a newer layout says beyond its number is not for us to read.
        let contents = match rest.strip_prefix(CONTENTS_WORDS) {
            Some(version) if layout == LAYOUT => version.parse().ok()?,
            None if layout == LAYOUT || !rest.is_empty() && layout < LAYOUT => return None,
            _ => 0,
        };
        Some(Self { layout, contents })
    }

    /// The payload of a first record.
    pub(super) fn payload(self) -> String {
        format!("{LAYOUT_WORDS}{}{CONTENTS_WORDS}{}", self.layout, self.contents)
    }

    /// Is it newer than a program with contents of this version can read?
    pub(super) fn is_newer(self, contents: u32) -> bool {
        self.layout > LAYOUT || self.contents > contents
    }

    /// Has every file of this layout room at its end?
    pub(super) fn has_room(self) -> bool {
        self.layout > LAYOUT_WITHOUT_ROOM
    }
}

/// As people are told: `3.1` is layout 3 with contents of version 1.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layout, self.contents)
    }
}

/// What a file says it is written in; `None`: its first record is broken or none of ours, and whoever reads it says so.
pub(super) fn of_file(files: &dyn Files, name: &str) -> io::Result<Option<Format>> {
    let mut start = Vec::new();
    files.open(name)?.take(START_BYTES_MAX as u64).read_to_end(&mut start)?;
    let format = Header::read(&start).and_then(|header| {
        let body = start.get(HEADER_BYTES..)?.get(..header.body_bytes())?;
        Format::parse(header.with_body(body)?.payload)
    });
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_reads_back_and_older_ones_are_known() {
        let format = |layout, contents| Some(Format { layout, contents });
        assert_eq!(Format::parse(Format::new(7).payload().as_bytes()), format(3, 7));
        assert_eq!(Format::parse(b"homeostat store 1"), format(1, 0));
        assert_eq!(Format::parse(b"homeostat store 2"), format(2, 0));
        assert_eq!(Format::parse(b"homeostat store 12, whatever that is"), format(12, 0));
        for odd in [
            "homeostat store ",
            "homeostat store 3",
            "homeostat store 2 x",
            "homeostat store 3 contents x",
            "",
        ] {
            assert_eq!(Format::parse(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn only_what_is_beyond_us_is_newer() {
        let is_newer = |text: &str| Format::parse(text.as_bytes()).is_some_and(|format| format.is_newer(1));
        assert!(!is_newer("homeostat store 2") && !is_newer("homeostat store 3 contents 1"));
        assert!(is_newer("homeostat store 3 contents 2") && is_newer("homeostat store 4"));
    }
}
