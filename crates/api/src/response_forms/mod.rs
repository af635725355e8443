//! Renders responses in a form other than the object's own: tables, as `kubectl get` prints them, and bare metadata.
//!
//! **Invariant:** the JSON is written directly from the parsed objects; no object and no metadata is cloned, and a list
//! is written item by item, so a table of any length needs memory for only one row at a time. A kind without its own
//! cells has two default columns; a kind that cannot be listed has no table, as [`forms`] reports for content
//! negotiation.

mod partial;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::kinds::autoscaling::scale;
use crate::negotiate::{IncludedObject, MetaVersion, ObjectForm, OfferedForms};
use crate::object::read;
use crate::printing::{Column, CustomColumns, PrintCells, PrintConditions};
use crate::resource::Resource;
use crate::resource::declaration::BuiltInKind;
use crate::status::Status;

/// The columns of kinds that declare none.
static FALLBACK: [Column; 2] = [Column::NAME, Column::date("Created At")];

/// The metadata of a list.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta<'a> {
    /// The resourceVersion of the list.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: &'a str,
    /// The token of the next page; empty if there is none.
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    pub next: &'a str,
    /// How many items follow this page, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// Returns the forms in which a resource or subresource can be returned.
pub fn forms(row: &Resource, subresource: Option<&str>) -> OfferedForms {
    if has_table(row, subresource) { OfferedForms::All } else { OfferedForms::Metadata }
}

/// Renders objects in a form other than their own. It is created once per request or watch.
#[derive(Debug)]
pub struct FormRenderer {
    row: Arc<Resource>,
    shape: RenderedForm,
}

#[derive(Debug)]
enum RenderedForm {
    Table { printer: RowPrinter, version: MetaVersion, include: IncludedObject },
    Partial(MetaVersion),
    PartialList(MetaVersion),
}

/// How the objects of a kind are printed as rows.
#[derive(Debug)]
enum RowPrinter {
    BuiltIn { columns: &'static [Column], cells: PrintCells, conditions: Option<PrintConditions> },
    Fallback,
    Custom(Arc<CustomColumns>),
}

impl FormRenderer {
    /// The end of every list.
    pub const LIST_END: &'static str = "]}\n";

    /// Creates the renderer of a negotiated form; `None` for the unchanged object, or a form that this kind lacks.
    pub fn new(row: &Arc<Resource>, subresource: Option<&str>, form: ObjectForm) -> Option<Self> {
        let shape = match form {
            ObjectForm::Object => return None,
            ObjectForm::Table { version, include } => {
                RenderedForm::Table { printer: RowPrinter::new(row, subresource)?, version, include }
            }
            ObjectForm::Partial(version) => RenderedForm::Partial(version),
            ObjectForm::PartialList(version) => RenderedForm::PartialList(version),
        };
        Some(Self { row: Arc::clone(row), shape })
    }

    /// Renders one object.
    pub fn object(&self, object: &Value, now: Timestamp) -> Result<Vec<u8>, Status> {
        self.event(object, now, true).map(|mut out| {
            out.push(b'\n');
            out
        })
    }

    /// Renders the object of a watch event, without a newline. Columns are sent only with the first event.
    pub fn event(&self, object: &Value, now: Timestamp, is_first: bool) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        match &self.shape {
            _ if is_status(object) => write(&mut out, object),
            RenderedForm::Table { printer, version, include } => {
                let resource_version = read::string_at(object, "metadata.resourceVersion");
                let head = TableHead { version: *version, columns: is_first.then(|| printer.columns()) };
                head.write(&mut out, &ListMeta { resource_version, ..ListMeta::default() });
                printer.row(&mut out, object, now, (*include, *version));
                out.extend_from_slice(b"]}");
            }
            RenderedForm::Partial(version) => partial::object(&mut out, object, *version),
            RenderedForm::PartialList(_) => return Err(partial::is_no_list(&self.row)),
        }
        Ok(out)
    }

    /// Returns the beginning of a list; its items follow, with commas between them, then [`FormRenderer::LIST_END`].
    pub fn list_head(&self, meta: &ListMeta<'_>) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        match &self.shape {
            RenderedForm::Table { printer, version, .. } => {
                TableHead { version: *version, columns: Some(printer.columns()) }.write(&mut out, meta);
            }
            RenderedForm::Partial(_) => return Err(partial::is_a_list(&self.row)),
            RenderedForm::PartialList(version) => partial::list_head(&mut out, meta, *version),
        }
        Ok(out)
    }

    /// Returns the beginning and the end of a list without items. A metadata list without items has no items field,
    /// just as Go writes a list that was never allocated.
    pub fn empty_list(&self, meta: &ListMeta<'_>) -> Result<(Vec<u8>, String), Status> {
        let mut head = self.list_head(meta)?;
        if matches!(self.shape, RenderedForm::PartialList(_)) {
            head.truncate(head.len() - "[".len());
            return Ok((head, "null}\n".to_owned()));
        }
        Ok((head, Self::LIST_END.to_owned()))
    }

    /// Writes an object as an item of a list and returns the number of evaluation steps taken.
    pub fn item_into(&self, out: &mut Vec<u8>, object: &Value, now: Timestamp) -> usize {
        match &self.shape {
            RenderedForm::Table { printer, version, include } => {
                printer.row(out, object, now, (*include, *version))
            }
            RenderedForm::Partial(version) | RenderedForm::PartialList(version) => {
                partial::object(out, object, *version);
                0
            }
        }
    }
}

/// Returns whether the resource can be listed, or is shown like a resource that can.
fn has_table(row: &Resource, subresource: Option<&str>) -> bool {
    let is_scale = subresource == Some("scale");
    if let Some(subresource) = subresource
        && !is_scale
        && row.subresource(subresource).is_none_or(|sub| sub.kind != row.kind || !sub.version.is_empty())
    {
        return false;
    }
    is_scale || row.is_custom() || row.allows("list")
}

impl RowPrinter {
    fn new(row: &Resource, subresource: Option<&str>) -> Option<Self> {
        if !has_table(row, subresource) {
            return None;
        }
        let is_scale = subresource == Some("scale");
        match row.custom() {
            Some(_) if is_scale => Some(Self::Custom(Arc::new(CustomColumns::scale()))),
            Some(custom) => {
                let compiled =
                    custom.compiled_columns.get_or_init(|| Arc::new(CustomColumns::new(&custom.columns)));
                Some(Self::Custom(Arc::clone(compiled)))
            }
            None if is_scale => {
                let (columns, cells) = (&scale::SCALE_COLUMNS, scale::scale);
                Some(Self::BuiltIn { columns, cells, conditions: None })
            }
            None => Some(row.declaration().and_then(Self::built_in).unwrap_or(Self::Fallback)),
        }
    }

    fn built_in(kind: &'static BuiltInKind) -> Option<Self> {
        let (columns, conditions) = (kind.columns, kind.row_conditions);
        kind.cells.map(|cells| Self::BuiltIn { columns, cells, conditions })
    }

    fn columns(&self) -> &[Column] {
        match self {
            Self::BuiltIn { columns, .. } => columns,
            Self::Fallback => &FALLBACK,
            Self::Custom(custom) => &custom.columns,
        }
    }

    /// Writes a row and returns the number of evaluation steps taken.
    fn row(
        &self,
        out: &mut Vec<u8>,
        object: &Value,
        now: Timestamp,
        (include, version): (IncludedObject, MetaVersion),
    ) -> usize {
        let (cells, steps) = match self {
            Self::BuiltIn { cells, .. } => (cells(object, now), 0),
            Self::Fallback => {
                let created = read::string_at(object, "metadata.creationTimestamp");
                (vec![read::name(object).into(), created.into()], 0)
            }
            Self::Custom(custom) => custom.cells(object, now),
        };
        out.extend_from_slice(br#"{"cells":"#);
        write(out, &cells);
        if let Self::BuiltIn { conditions: Some(conditions), .. } = self
            && let Some(conditions) = conditions(object)
        {
            out.extend_from_slice(br#","conditions":"#);
            write(out, &conditions);
        }
        out.extend_from_slice(br#","object":"#);
        match include {
            IncludedObject::None => out.extend_from_slice(b"null"),
            IncludedObject::Metadata => partial::object(out, object, version),
            IncludedObject::Object => write(out, object),
        }
        out.push(b'}');
        steps
    }
}

/// Returns whether the object is a Status, which is sent as it is in every form.
fn is_status(object: &Value) -> bool {
    read::string_at(object, "kind") == "Status" && read::string_at(object, "apiVersion") == "v1"
}

/// The part of a table before its rows.
struct TableHead<'a> {
    version: MetaVersion,
    columns: Option<&'a [Column]>,
}

impl TableHead<'_> {
    fn write(&self, out: &mut Vec<u8>, meta: &ListMeta<'_>) {
        out.extend_from_slice(br#"{"kind":"Table","apiVersion":""#);
        out.extend_from_slice(self.version.api_version().as_bytes());
        out.extend_from_slice(br#"","metadata":"#);
        write(out, meta);
        out.extend_from_slice(br#","columnDefinitions":"#);
        write(out, &self.columns);
        out.extend_from_slice(br#","rows":["#);
    }
}

fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("writing JSON to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{CustomKind, KindSource};

    const TABLE: ObjectForm =
        ObjectForm::Table { version: MetaVersion::V1, include: IncludedObject::Metadata };

    fn row(kind: &str) -> Arc<Resource> {
        crate::kinds::built_in_rows().into_iter().find(|row| &*row.kind == kind).expect("is built in").into()
    }

    fn custom(columns: Vec<Value>) -> Arc<Resource> {
        let custom = CustomKind { columns, storage_version: "v1".into(), ..CustomKind::default() };
        Resource { source: KindSource::Custom(Arc::new(custom)), ..(*row("ConfigMap")).clone() }.into()
    }

    fn list(view: &FormRenderer, meta: &ListMeta<'_>, items: &[&Value]) -> Value {
        let mut out = view.list_head(meta).expect("is a list");
        for (at, item) in items.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            view.item_into(&mut out, item, now());
        }
        out.extend_from_slice(FormRenderer::LIST_END.as_bytes());
        parsed(Ok(out))
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn parsed(bytes: Result<Vec<u8>, Status>) -> Value {
        serde_json::from_slice(&bytes.expect("is rendered")).expect("is JSON")
    }

    fn config_map() -> Value {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "1", "m": "2"}, "metadata": {
            "name": "a", "resourceVersion": "7", "creationTimestamp": "2025-12-31T23:59:55Z"}})
    }

    #[test]
    fn a_table_of_one_object_is_as_recorded() {
        let row = row("ConfigMap");
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let object = config_map();
        let column = |name: &str, format: &str| json!({"name": name, "type": "string", "format": format, "description": "", "priority": 0});
        let expected = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"},
            "columnDefinitions": [column("Name", "name"), column("Data", ""), column("Age", "")],
            "rows": [{"cells": ["a", 2, "5s"], "object": {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}}]});
        assert_eq!(parsed(view.object(&object, now())), expected);
    }

    #[test]
    fn rows_include_what_was_asked_for() {
        let row = row("ConfigMap");
        let object = config_map();
        let included = |include| {
            let form = ObjectForm::Table { version: MetaVersion::V1Beta1, include };
            let table =
                parsed(FormRenderer::new(&row, None, form).expect("has a table").object(&object, now()));
            assert_eq!(table["apiVersion"], "meta.k8s.io/v1beta1");
            table["rows"][0]["object"].clone()
        };
        assert_eq!(included(IncludedObject::None), Value::Null);
        assert_eq!(included(IncludedObject::Object), object);
        assert_eq!(included(IncludedObject::Metadata)["apiVersion"], "meta.k8s.io/v1beta1");
    }

    #[test]
    fn a_page_says_how_it_goes_on() {
        let row = row("ConfigMap");
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let meta = ListMeta { resource_version: "9", next: "token", remaining_item_count: Some(1) };
        let object = config_map();
        let table = list(&view, &meta, &[&object, &object]);
        let expected = json!({"resourceVersion": "9", "continue": "token", "remainingItemCount": 1});
        assert_eq!((&table["metadata"], table["rows"].as_array().map(Vec::len)), (&expected, Some(2)));
        let empty = list(&view, &ListMeta::default(), &[]);
        assert_eq!((&empty["rows"], &empty["metadata"]), (&json!([]), &json!({})));
    }

    #[test]
    fn a_watch_sends_columns_once() {
        let row = row("ConfigMap");
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let later = parsed(view.event(&config_map(), now(), false));
        assert_eq!((&later["columnDefinitions"], &later["rows"][0]["cells"][0]), (&Value::Null, &json!("a")));
        let bookmark = json!({"kind": "ConfigMap", "metadata": {"resourceVersion": "12"}});
        let bookmark = parsed(view.event(&bookmark, now(), false));
        assert_eq!(bookmark["rows"][0]["object"]["metadata"]["resourceVersion"], "12");
    }

    #[test]
    fn outcomes_are_told_as_they_are() {
        let row = row("ConfigMap");
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let deleted = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        assert_eq!(parsed(view.object(&deleted, now())), deleted);
    }

    #[test]
    fn a_finished_pod_has_a_row_condition() {
        let row = row("Pod");
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let table =
            parsed(view.object(&json!({"metadata": {"name": "p"}, "status": {"phase": "Failed"}}), now()));
        assert_eq!(table["rows"][0]["conditions"][0]["type"], "Completed");
    }

    #[test]
    fn custom_columns_are_as_recorded() {
        let column =
            |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
        let row = custom(vec![
            column("N", "integer", ".spec.n"),
            json!({"name": "S", "type": "string", "jsonPath": ".spec.s", "priority": 1}),
            column("On", "boolean", ".spec.on"),
            column("Phase", "string", ".status.phase"),
            column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
            column("First", "string", ".spec.l[0]"),
            column("All", "string", ".spec.l[*]"),
            column("F", "number", ".spec.f"),
            column("When", "date", ".spec.t"),
            column("List", "string", ".spec.l"),
            column("Bad", "date", ".spec.s"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ]);
        let view = FormRenderer::new(&row, None, TABLE).expect("has a table");
        let created = json!({"name": "a", "creationTimestamp": "2025-12-31T00:00:00Z"});
        let full = json!({"metadata": created, "spec": {"n": 5, "s": "text", "on": true, "l": ["x", "y"], "f": 1.5,
            "t": "2000-01-01T00:00:00Z"}, "status": {"phase": "Up", "conditions": [
                {"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]}});
        let table = list(&view, &ListMeta::default(), &[&full, &json!({"metadata": created})]);
        let cells = json!([
            "a",
            5,
            "text",
            true,
            "Up",
            "True",
            "x",
            "x",
            1.5,
            "26y",
            "[\"x\",\"y\"]",
            "<invalid>",
            "24h"
        ]);
        assert_eq!(table["rows"][0]["cells"], cells);
        let none = Value::Null;
        let cells = json!(["a", none, none, none, none, none, none, none, none, none, none, none, "24h"]);
        assert_eq!(table["rows"][1]["cells"], cells);
        assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    }

    #[test]
    fn kinds_without_columns_show_their_age_or_birth() {
        let object = config_map();
        let plain = custom(Vec::new());
        let table =
            parsed(FormRenderer::new(&plain, None, TABLE).expect("has a table").object(&object, now()));
        assert_eq!(table["rows"][0]["cells"], json!(["a", "5s"]));
        assert_eq!(
            (&table["columnDefinitions"][1]["name"], &table["columnDefinitions"][1]["type"]),
            (&json!("Age"), &json!("date"))
        );
        let definition = row("CustomResourceDefinition");
        let table =
            parsed(FormRenderer::new(&definition, None, TABLE).expect("has a table").object(&object, now()));
        assert_eq!(table["rows"][0]["cells"], json!(["a", "2025-12-31T23:59:55Z"]));
        assert_eq!(table["columnDefinitions"][1]["name"], "Created At");
    }

    #[test]
    fn only_what_can_be_listed_has_a_table() {
        let none = [("SelfSubjectAccessReview", None), ("Pod", Some("eviction")), ("Binding", None)];
        for (kind, subresource) in none {
            assert_eq!(forms(&row(kind), subresource), OfferedForms::Metadata, "{kind} {subresource:?}");
        }
        for (kind, subresource) in
            [("Deployment", Some("scale")), ("Deployment", Some("status")), ("Role", None)]
        {
            assert_eq!(forms(&row(kind), subresource), OfferedForms::All, "{kind} {subresource:?}");
        }
    }

    #[test]
    fn bare_metadata_comes_as_object_or_list_but_not_as_the_other() {
        let row = row("ConfigMap");
        let object = config_map();
        let one = FormRenderer::new(&row, None, ObjectForm::Partial(MetaVersion::V1)).expect("has a view");
        let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"]});
        assert_eq!(parsed(one.object(&object, now())), expected);
        let meta = ListMeta { resource_version: "9", ..ListMeta::default() };
        let refusal = one.list_head(&meta).expect_err("is a list");
        assert_eq!(
            refusal.message,
            "you requested PartialObjectMetadata, but the requested object is a list (*v1.ConfigMapList)"
        );
        let many =
            FormRenderer::new(&row, None, ObjectForm::PartialList(MetaVersion::V1)).expect("has a view");
        let expected = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "9"}, "items": [expected]});
        assert_eq!(list(&many, &meta, &[&object]), expected);
        assert_eq!(many.object(&object, now()).expect_err("is no list").code, 406);
    }
}
