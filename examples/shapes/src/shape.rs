//! The kind Shape: what people write.

use homeostat::prelude::*;

/// A shape in the cloud.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "shapes.demo.dev", version = "v1", kind = "Shape", namespaced, status = "ShapeStatus")]
#[kube(printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.type"}"#)]
#[kube(printcolumn = r#"{"name": "Color", "type": "string", "jsonPath": ".spec.color"}"#)]
#[kube(
    printcolumn = r#"{"name": "Synced", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status"}"#
)]
pub struct ShapeSpec {
    /// Its form.
    #[serde(rename = "type")]
    pub form: Form,
    /// Its color, as CSS names it.
    pub color: String,
}

/// The forms the cloud can make.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Four sides.
    #[default]
    Square,
    /// No sides.
    Circle,
    /// Three sides.
    Triangle,
}

/// The status. The condition `Synced` says whether the cloud has the shape as it should be.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
pub struct ShapeStatus {
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StandardStatus,
}
