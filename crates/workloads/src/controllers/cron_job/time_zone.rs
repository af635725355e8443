//! Loads time zones by name from the machine's database, when needed: one small file per reconcile of a CronJob.

use std::path::Path;

use jiff::tz::TimeZone;

/// The folders in which systems keep their time zones.
const FOLDERS: &[&str] =
    &["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/// Loads the zone with this name; without a name, UTC.
pub(super) fn load_zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name.filter(|name| !matches!(*name, "UTC" | "Etc/UTC")) else {
        return Ok(TimeZone::UTC);
    };
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    if !name.split('/').all(is_plain) {
        return Err(format!("unknown time zone {name}"));
    }
    let found = FOLDERS.iter().find_map(|folder| std::fs::read(Path::new(folder).join(name)).ok());
    let data =
        found.ok_or_else(|| format!("unknown time zone {name}: install the time zone database (tzdata)"))?;
    TimeZone::tzif(name, &data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_and_not_paths() {
        assert!(load_zone(None).is_ok() && load_zone(Some("UTC")).is_ok());
        for name in ["../../etc/passwd", "/etc/localtime", "Nowhere/City", ""] {
            assert!(load_zone(Some(name)).is_err(), "{name}");
        }
    }
}
