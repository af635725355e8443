//! Validates address ranges (`10.0.0.0/8`) in fields that existed before Kubernetes became strict about their spelling:
//! an address with bits beyond the prefix, leading zeros or an IPv4 address written as IPv6 is rejected, while other
//! spellings of an IPv6 address only cause a warning.
//!
//! The caller decides whether to accept values that an object already has: a stricter server must not refuse to change
//! the rest.

use std::net::{IpAddr, Ipv6Addr};

use crate::field::Error;
use crate::kinds::networking::ip_address::{is_mapped, without_zeros};
use crate::resource::value_at::{Errors, ValueAt};

const NOT_A_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A range: its address as written, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kinds) struct NetworkRange {
    pub(in crate::kinds) address: IpAddr,
    pub(in crate::kinds) bits: u8,
}

impl NetworkRange {
    /// Parses a range in any spelling that was ever accepted, with leading zeros and bits beyond the prefix.
    pub(in crate::kinds) fn parse_any(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        if bits.is_empty() || !bits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let address = address.parse().or_else(|_| without_zeros(address).parse::<IpAddr>()).ok()?;
        let digits = bits.trim_start_matches('0');
        let bits = if digits.is_empty() { 0 } else { digits.parse::<u8>().ok()? };
        (bits <= length(address)).then_some(Self { address, bits })
    }

    /// Returns the first address of the range.
    pub(in crate::kinds) fn first(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
            }
        }
    }

    /// Returns whether `other` is a part of this range, and smaller.
    pub(in crate::kinds) fn strictly_contains(self, other: Self) -> bool {
        let is_same_family = self.address.is_ipv4() == other.address.is_ipv4();
        let start = Self { address: other.address, bits: self.bits.min(length(other.address)) };
        is_same_family && self.bits < other.bits && start.first() == self.first()
    }
}

fn length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses a range and rejects leading zeros and addresses with bits beyond the prefix.
pub(in crate::kinds) fn parse_strictly(text: &str) -> Result<NetworkRange, &'static str> {
    let range = NetworkRange::parse_any(text).ok_or(NOT_A_RANGE)?;
    let is_exact = text.split_once('/').is_some_and(|(address, bits)| {
        address.parse() == Ok(range.address) && bits == range.bits.to_string()
    });
    if !is_exact {
        Err("must not have leading 0s in IP or prefix length")
    } else if is_mapped(range.address) {
        Err("must not have an IPv4-mapped IPv6 address")
    } else if range.first() != range.address {
        Err("must not have bits set beyond the prefix length")
    } else {
        Ok(range)
    }
}

/// Reports a value that is not a range. `text` is the part of the value that must be a range.
pub(in crate::kinds) fn check(place: &ValueAt<'_>, text: &str, errors: &mut Errors) {
    if let Err(why) = parse_strictly(text) {
        errors.push(Error::invalid(&place.path, &text.into(), why));
    }
}

/// Returns the warning about an IPv6 range that is valid but not spelled in the canonical way.
pub(in crate::kinds) fn spelling_warning(path: &str, text: &str) -> Option<String> {
    let range = parse_strictly(text).ok()?;
    let written = format!("{}/{}", range.address, range.bits);
    (range.address.is_ipv6() && written != text).then(|| {
        format!("{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({written:?})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_refused_for_what_is_wrong_with_them() {
        let zeros = Err("must not have leading 0s in IP or prefix length");
        let beyond = Err("must not have bits set beyond the prefix length");
        let rows = [
            ("10.0.0.0/8", Ok(())),
            ("0.0.0.0/0", Ok(())),
            ("10.0.0.1/32", Ok(())),
            ("fd00::/8", Ok(())),
            ("fd00:0:0::/8", Ok(())),
            ("10.0.0.1/8", beyond),
            ("0.0.0.1/0", beyond),
            ("fd00::1/8", beyond),
            ("010.0.0.0/8", zeros),
            ("10.0.0.0/08", zeros),
            ("::ffff:10.0.0.0/104", Err("must not have an IPv4-mapped IPv6 address")),
            ("10.0.0.0", Err(NOT_A_RANGE)),
            ("10.0.0.0/33", Err(NOT_A_RANGE)),
            ("10.0.0.0/+8", Err(NOT_A_RANGE)),
            (" 10.0.0.0/8 ", Err(NOT_A_RANGE)),
            ("10.0.0.0/", Err(NOT_A_RANGE)),
            ("", Err(NOT_A_RANGE)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_strictly(text).map(drop), expected, "{text}");
        }
    }

    #[test]
    fn a_part_is_smaller_and_inside() {
        let contains = |whole: &str, part: &str| {
            let parse = |text| NetworkRange::parse_any(text).expect("a range");
            parse(whole).strictly_contains(parse(part))
        };
        assert!(contains("10.0.0.0/8", "10.1.0.0/16"));
        assert!(!contains("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0/16"));
        assert!(!contains("10.0.0.0/8", "fd00::/64"));
        assert!(contains("fd00::/8", "fd00::/64"));
        assert!(contains("::/0", "fd00::/64"));
        assert!(!contains("fd00::/64", "10.0.0.0/8"));
    }
}
