//! Checks the `format`s that custom kinds may require of strings and numbers. Other formats are not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use jiff::civil::Date;

use crate::names;

/// A format that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatCheck {
    /// Its name in definitions.
    pub(super) name: &'static str,
    check: fn(&str) -> bool,
}

/// Formats of strings. Dashes in their names are ignored.
const TEXT: &[FormatCheck] = &[
    FormatCheck { name: "bsonobjectid", check: |text| text.len() == 24 && is_hex(text) },
    FormatCheck { name: "uri", check: is_uri },
    FormatCheck { name: "email", check: is_email },
    FormatCheck { name: "hostname", check: is_hostname },
    FormatCheck { name: "ipv4", check: |text| text.contains('.') && is_ip(text) },
    FormatCheck { name: "ipv6", check: |text| text.contains(':') && is_ip(text) },
    FormatCheck { name: "cidr", check: is_cidr },
    FormatCheck { name: "mac", check: is_mac },
    FormatCheck { name: "uuid", check: |text| is_uuid(text, None) },
    FormatCheck { name: "uuid3", check: |text| is_uuid(text, Some(b'3')) },
    FormatCheck { name: "uuid4", check: |text| is_uuid(text, Some(b'4')) },
    FormatCheck { name: "uuid5", check: |text| is_uuid(text, Some(b'5')) },
    FormatCheck { name: "isbn", check: |text| is_isbn10(text) || is_isbn13(text) },
    FormatCheck { name: "isbn10", check: is_isbn10 },
    FormatCheck { name: "isbn13", check: is_isbn13 },
    FormatCheck { name: "creditcard", check: is_credit_card },
    FormatCheck { name: "ssn", check: is_ssn },
    FormatCheck { name: "hexcolor", check: is_hex_color },
    FormatCheck { name: "rgbcolor", check: is_rgb_color },
    FormatCheck { name: "byte", check: is_base64 },
    FormatCheck { name: "password", check: |_| true },
    FormatCheck { name: "date", check: is_date },
    FormatCheck { name: "duration", check: is_duration },
    FormatCheck { name: "date-time", check: is_date_time },
    FormatCheck { name: "datetime", check: is_date_time },
    FormatCheck { name: "k8s-short-name", check: |text| names::label(text).is_empty() },
    FormatCheck { name: "k8s-long-name", check: |text| names::subdomain(text).is_empty() },
];

const INTEGER: &[FormatCheck] = &[
    FormatCheck { name: "int32", check: |text| text.parse::<i32>().is_ok() },
    FormatCheck { name: "int64", check: is_int64 },
];

const NUMBER: &[FormatCheck] =
    &[FormatCheck { name: "float", check: is_float32 }, FormatCheck { name: "double", check: |_| true }];

impl FormatCheck {
    pub(super) fn of_text(name: &str) -> Option<Self> {
        let exact = TEXT.iter().find(|one| one.name == name);
        let plain = |name: &str| name.replace('-', "");
        exact.or_else(|| TEXT.iter().find(|one| plain(one.name) == plain(name))).copied()
    }

    pub(super) fn of_integer(name: &str) -> Option<Self> {
        INTEGER.iter().find(|one| one.name == name).copied()
    }

    pub(super) fn of_number(name: &str) -> Option<Self> {
        NUMBER.iter().find(|one| one.name == name).copied()
    }

    /// Returns whether the text, or the decimal spelling of the number, fits the format.
    pub(super) fn fits(self, text: &str) -> bool {
        (self.check)(text)
    }
}

fn is_int64(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

fn is_float32(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|number| number.abs() <= f64::from(f32::MAX))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether Go's parser accepts the text as a request URI: an absolute path, or anything after a scheme.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
        return false;
    }
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    text.starts_with('/') || text == "*" || text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').unwrap_or_default(),
        None => text,
    };
    let is_atom = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.contains(|letter: char| letter.is_whitespace() || "()<>[]:;@\\,\"".contains(letter))
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| is_atom(local) && is_atom(domain))
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|letter| letter.is_alphanumeric() || letter == '-')
    };
    let mut labels = text.rsplit('.');
    let last = labels.next().unwrap_or_default();
    let is_qualified = text.contains('.');
    let is_top = last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
    text.len() <= 255 && is_label(last) && (!is_qualified || is_top) && labels.all(is_label)
}

fn is_ip(text: &str) -> bool {
    Ipv4Addr::from_str(text).is_ok() || Ipv6Addr::from_str(text).is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = match IpAddr::from_str(address) {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    is_digits(bits) && bits.parse::<u32>().is_ok_and(|bits| bits <= bits_max)
}

/// Returns whether the text is an EUI-48, EUI-64 or 20-octet address, in pairs with `:` or `-` or groups of four with
/// `.`.
fn is_mac(text: &str) -> bool {
    let of = |separator: char, digits: usize| {
        let parts: Vec<_> = text.split(separator).collect();
        let octets = parts.len() * digits / 2;
        matches!(octets, 6 | 8 | 20) && parts.iter().all(|part| part.len() == digits && is_hex(part))
    };
    of(':', 2) || of('-', 2) || of('.', 4)
}

/// Returns whether the text is a UUID. Each dash may be left out; versions 4 and 5 also require the variant.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            _ if byte.is_ascii_hexdigit() => digits.push(byte.to_ascii_lowercase()),
            _ => return false,
        }
    }
    digits.len() == 32
        && !text.contains("--")
        && version.is_none_or(|version| digits[12] == version)
        && (!matches!(version, Some(b'4' | b'5')) || matches!(digits[16], b'8' | b'9' | b'a' | b'b'))
}

fn compact(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b' ' | b'-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = compact(text);
    let value = |(at, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' if at == 9 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10
            && values.iter().zip(1_u32..).map(|(value, place)| value * place).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let digits = compact(text);
    let weighted = |(at, byte): (usize, &u8)| u32::from(byte - b'0') * if at % 2 == 0 { 1 } else { 3 };
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().enumerate().map(weighted).sum::<u32>() % 10 == 0
}

/// Returns whether the check digit of a card number (Luhn), computed over its digits alone, is correct.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> =
        text.bytes().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0')).collect();
    let doubled = |(at, digit): (usize, &u32)| match (at % 2, digit * 2) {
        (0, _) => *digit,
        (_, twice) => twice / 10 + twice % 10,
    };
    (13..=16).contains(&digits.len()) && digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

fn is_ssn(text: &str) -> bool {
    let digits: String = text.chars().filter(|letter| !matches!(letter, '-' | ' ')).collect();
    let separators = text.len() - digits.len();
    digits.len() == 9 && is_digits(&digits) && separators <= 2
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

fn is_rgb_color(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let parts: Vec<_> = inner.split(',').map(str::trim).collect();
        parts.len() == 3 && parts.iter().all(|part| is_digits(part) && part.parse::<u8>().is_ok())
    })
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Date::strptime("%Y-%m-%d", text).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let in_range =
        |at: usize, most: &str| clock.get(at..at + 2).is_some_and(|two| is_digits(two) && two <= most);
    let is_clock = clock.get(2..3) == Some(":") && clock.get(5..6) == Some(":");
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => rest,
    };
    is_date(date) && is_clock && in_range(0, "23") && in_range(3, "59") && in_range(6, "59") && is_zone(zone)
}

fn is_zone(zone: &str) -> bool {
    let offset = zone.strip_prefix(['+', '-']);
    zone.eq_ignore_ascii_case("z")
        || offset.and_then(|rest| rest.split_once(':')).is_some_and(|(hours, minutes)| {
            hours.len() == 2 && minutes.len() == 2 && is_digits(hours) && is_digits(minutes)
        })
}

/// Returns whether the text is a Go duration (`1h30m`) or a number with a unit in words (`22 ns`, `3 days`).
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 27] = [
        "ns",
        "nano",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "μs",
        "micro",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "second",
        "seconds",
        "m",
        "min",
        "minute",
        "minutes",
        "h",
        "hr",
        "hour",
        "hours",
        "d",
    ];
    const LONG_UNITS: [&str; 5] = ["day", "days", "w", "week", "weeks"];
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let after_number = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        if after_number.len() == rest.len() {
            return false;
        }
        let unit_start = after_number.trim_start();
        let end = unit_start.find(|letter: char| !letter.is_alphabetic()).unwrap_or(unit_start.len());
        let (unit, after) = unit_start.split_at(end);
        if !UNITS.contains(&unit) && !LONG_UNITS.contains(&unit) {
            return false;
        }
        rest = after.trim_start();
        parts += 1;
    }
    parts > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_judge_as_kubernetes_does() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+02:00"],
                &["not a date", "2020-01-01"],
            ),
            ("date", &["2020-01-01"], &["2020-13-01", "2020-1-1"]),
            ("duration", &["1h30m", "22 ns", "1.5s", "3 days"], &["5 parsecs", "", "5"]),
            ("uuid", &["8ad5b1de-0f3f-4f0c-9ae3-0e1f3c9e6b1a"], &["zzz"]),
            ("uuid3", &["8ad5b1de-0f3f-3f0c-9ae3-0e1f3c9e6b1a"], &["8ad5b1de-0f3f-4f0c-9ae3-0e1f3c9e6b1a"]),
            ("ipv4", &["1.2.3.4"], &["1.2.3", "::1"]),
            ("ipv6", &["::1"], &["1.2.3.4"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33"]),
            ("email", &["a@example.test"], &["nobody", "a@@b", "a b@c"]),
            ("uri", &["https://a/b", "/path", "mailto:x"], &["::", "relative", "http://a b"]),
            ("byte", &["aGk=", ""], &["***", "abc"]),
            ("hostname", &["a", "a.example.com"], &["-a", "a..b", "a.b1", ""]),
            ("mac", &["00:11:22:33:44:55", "0011.2233.4455"], &["00:11:22", "xx:11:22:33:44:55"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]),
            ("ssn", &["111-11-1111"], &["111-11-111"]),
            ("hexcolor", &["#FFFFFF", "abc"], &["#ff"]),
            ("rgbcolor", &["rgb(255, 0,1)"], &["rgb(256,0,0)"]),
            ("k8s-short-name", &["a-b"], &["a.b"]),
        ];
        for (name, good, bad) in rows {
            let format = FormatCheck::of_text(name).expect("a known format");
            good.iter().for_each(|text| assert!(format.fits(text), "{name}: {text}"));
            bad.iter().for_each(|text| assert!(!format.fits(text), "{name}: {text}"));
        }
        assert!(FormatCheck::of_text("made-up").is_none());
    }
}
