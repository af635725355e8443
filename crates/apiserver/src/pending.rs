//! Stand-ins for modules that are about to land; each goes when its module comes.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
pub(crate) mod apply {
    use crate::{resource::Resource, schema::Schema, status::Status};
    use jiff::Timestamp;
    use serde_json::Value;
    pub enum Operation {
        Apply,
        Update,
    }
    pub struct Manager<'a> {
        pub name: &'a str,
        pub operation: Operation,
        pub api_version: &'a str,
        pub subresource: &'a str,
        pub time: Timestamp,
    }
    pub struct ResetFields;
    pub fn reset_fields(_r: &Resource, _s: &str) -> ResetFields {
        ResetFields
    }
    pub fn track_update(
        _s: Option<&Schema>,
        _l: Option<&Value>,
        _n: &mut Value,
        _m: &Manager<'_>,
        _r: &ResetFields,
    ) {
    }
    pub fn apply(
        _s: Option<&Schema>,
        _l: Option<&Value>,
        c: &Value,
        _m: &Manager<'_>,
        _f: bool,
        _r: &ResetFields,
    ) -> Result<Value, Status> {
        Ok(c.clone())
    }
}
pub(crate) mod schema {
    use crate::field;
    use crate::schema::Schema;
    use serde_json::Value;
    pub fn custom(_v: &Value) -> Schema {
        Schema::default()
    }
    pub fn default(_s: &Schema, _v: &mut Value) {}
    pub fn validate(_s: &Schema, _v: &Value, _o: Option<&Value>) -> Vec<field::Error> {
        vec![]
    }
    pub fn default_definition(_v: &mut Value) {}
    pub fn validate_definition(_v: &Value, _o: Option<&Value>) -> Vec<field::Error> {
        vec![]
    }
}
pub(crate) mod validate {
    use crate::field;
    use serde_json::Value;
    pub fn validate_create(_g: &str, _k: &str, _o: &Value) -> Vec<field::Error> {
        vec![]
    }
    pub fn validate_update(_g: &str, _k: &str, _n: &Value, _o: &Value) -> Vec<field::Error> {
        vec![]
    }
}
