//! Times as the API keeps them: to the second. A finer one would come back different and be written again.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The whole second this moment lies in.
pub(crate) fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole second of a valid time is valid"))
}
