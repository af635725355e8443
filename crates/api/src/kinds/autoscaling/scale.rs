//! Scale: the number of replicas of an object, as its `/scale` endpoint shows it. It is not a kind of its own but has a
//! table.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::read;
use crate::printing::{Column, age};

/// The columns of a Scale.
pub(crate) static SCALE_COLUMNS: [Column; 4] =
    [Column::text("Name"), Column::number("Desired"), Column::number("Available"), Column::text("Age")];

pub(crate) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::integer_at(object, "spec.replicas").into(),
        read::integer_at(object, "status.replicas").into(),
        age::age_of_object(object, now).into(),
    ]
}
