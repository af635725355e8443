//! A uid is a version 4 UUID that identifies an object across deletion and re-creation under the same name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Entropy;

/// A `metadata.uid`. Clients may send any text, so it is kept as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(Box<str>);

impl Uid {
    /// Creates a random one.
    pub fn random(entropy: &Entropy) -> Self {
        let bits = (u128::from(entropy.next_u64()) << 64) | u128::from(entropy.next_u64());
        // Version 4 in the high nibble of byte 6, variant 10 in the top bits of byte 8 (RFC 9562).
        let bits = (bits & !(0xf << 76)) | (0x4 << 76);
        let bits = (bits & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let text = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        Self(text.into())
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_uid_is_a_version_4_uuid() {
        let uid = Uid::random(&Entropy::seeded(7));
        let text = uid.as_str();
        assert_eq!(text.len(), 36);
        assert_eq!(&text[14..15], "4");
        assert!("89ab".contains(&text[19..20]));
    }
}
