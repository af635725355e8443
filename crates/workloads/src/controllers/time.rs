//! Handles times as the API keeps them: to the second. A more precise time would read back as different and be written
//! again.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Truncates a time to the second.
pub(crate) fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole second of a valid time is valid"))
}
