//! JSON patch (RFC 6902), with the habits of the Go library behind kube-apiserver: `replace` of an absent key adds it,
//! `copy` from an absent key gives null, negative indexes count from the end, and a pointer without a leading slash
//! loses its first segment.
//!
//! **Invariant:** [`Patch::parse`] refuses what is no patch; whether an operation can be performed is only known when it
//! is, so an unknown `op` or a missing `path` fails in [`Patch::apply`], with the one text Kubernetes has for that.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::object::depth::{DEPTH_MAX, is_deeper};
use crate::status::Status;

/// Operations one patch may hold; kube-apiserver's limit, against patches small in bytes and large in work.
const OPERATIONS_MAX: usize = 10_000;

/// Bytes that `copy` operations may add in sum: the limit of a request body, so that copying cannot grow an object
/// beyond what a client could have sent.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// List elements that operations may push aside in sum: 10 000 insertions at the front of a list of a million would
/// otherwise keep a processor busy for half a minute. This many take a fraction of a second.
const SHIFTED_ELEMENTS_MAX: usize = 50_000_000;

/// What one run of a patch has spent of its limits.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    shifted_elements: usize,
}

impl Spent {
    fn copy(&mut self, bytes: usize) -> Result<(), Failed> {
        self.copied_bytes += bytes;
        holds(self.copied_bytes <= COPIED_BYTES_MAX)
    }

    fn shift(&mut self, elements: usize) -> Result<(), Failed> {
        self.shifted_elements += elements;
        holds(self.shifted_elements <= SHIFTED_ELEMENTS_MAX)
    }
}

/// The fields an operation may have.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// A parsed patch.
#[derive(Debug)]
pub struct Patch(Vec<Operation>);

#[derive(Debug)]
struct Operation {
    verb: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

/// An operation cannot be performed. Kubernetes says no more than that.
#[derive(Debug)]
struct Failed;

impl From<Failed> for Status {
    fn from(_: Failed) -> Self {
        Self::unprocessable()
    }
}

impl Patch {
    /// Takes a decoded body for a patch.
    pub fn parse(body: Value) -> Result<Self, Status> {
        let items = match body {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => {
                return Err(mistyped(&other, "Go value of type []handlers.jsonPatchOp"));
            }
        };
        if items.len() > OPERATIONS_MAX {
            return Err(Status::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                items.len()
            )));
        }
        items.into_iter().map(Operation::parse).collect::<Result<_, _>>().map(Self)
    }

    /// The paths of fields of operations that mean nothing, as strict decoding names them: `[0].vallue`.
    pub fn unknown_fields(body: &Value) -> Vec<String> {
        let operations = body.as_array().into_iter().flatten().enumerate();
        operations
            .filter_map(|(at, operation)| Some((at, operation.as_object()?)))
            .flat_map(|(at, fields)| fields.keys().map(move |name| (at, name)))
            .filter(|(_, name)| !FIELDS.contains(&name.as_str()))
            .map(|(at, name)| format!("[{at}].{name}"))
            .collect()
    }

    /// Performs the operations one after another. After a refusal the document is half changed: discard it.
    pub fn apply(&self, document: &mut Value) -> Result<(), Status> {
        let mut spent = Spent::default();
        for operation in &self.0 {
            operation.apply(document, &mut spent)?;
        }
        Ok(())
    }
}

impl Operation {
    fn parse(item: Value) -> Result<Self, Status> {
        let mut fields = match item {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => return Err(mistyped(&other, "Go value of type handlers.jsonPatchOp")),
        };
        Ok(Self {
            verb: take_text(&mut fields, "op")?.unwrap_or_default(),
            path: take_text(&mut fields, "path")?,
            from: take_text(&mut fields, "from")?,
            value: fields.remove("value"),
        })
    }

    fn apply(&self, document: &mut Value, spent: &mut Spent) -> Result<(), Failed> {
        let path = self.path.as_deref().ok_or(Failed)?;
        match (&*self.verb, path) {
            ("replace", "") => self.replace_document(document),
            ("test", "") => holds(*document == self.value()),
            ("add", _) => add(find(document, path)?, shallow(path, self.value())?, spent),
            ("remove", _) => remove(find(document, path)?, spent).map(drop),
            ("replace", _) => replace(find(document, path)?, shallow(path, self.value())?),
            ("test", _) => self.test(document, path),
            ("move", _) => self.move_value(document, path, spent),
            ("copy", _) => self.copy(document, path, spent),
            _ => Err(Failed),
        }
    }

    /// The value; an absent one counts as null, as in the library.
    fn value(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }

    fn replace_document(&self, document: &mut Value) -> Result<(), Failed> {
        let value = self.value();
        holds(value.is_object() || value.is_array())?;
        *document = value;
        Ok(())
    }

    fn test(&self, document: &mut Value, path: &str) -> Result<(), Failed> {
        let place = find(document, path)?;
        let found = get(&place)?;
        let wanted = self.value.as_ref();
        holds(found.unwrap_or(&Value::Null) == wanted.unwrap_or(&Value::Null))
    }

    fn move_value(&self, document: &mut Value, path: &str, spent: &mut Spent) -> Result<(), Failed> {
        let value = remove(find(document, self.from.as_deref().ok_or(Failed)?)?, spent)?;
        add(find(document, path)?, shallow(path, value)?, spent)
    }

    fn copy(&self, document: &mut Value, path: &str, spent: &mut Spent) -> Result<(), Failed> {
        let from = find(document, self.from.as_deref().ok_or(Failed)?)?;
        let value = get(&from)?.cloned();
        if let Some(value) = &value {
            spent.copy(value.to_string().len())?;
        }
        add(find(document, path)?, shallow(path, value.unwrap_or_default())?, spent)
    }
}

/// The value, unless it would be nested too deep at this place. Each operation could double the depth otherwise.
fn shallow(path: &str, value: Value) -> Result<Value, Failed> {
    let above = path.matches('/').count();
    holds(above <= DEPTH_MAX && !is_deeper(&value, DEPTH_MAX - above))?;
    Ok(value)
}

fn holds(claim: bool) -> Result<(), Failed> {
    claim.then_some(()).ok_or(Failed)
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Status> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mistyped(&other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
    }
}

fn mistyped(found: &Value, wanted: &str) -> Status {
    let found = super::go::json_type_of(found);
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {found} into {wanted}"))
}

/// What a pointer names: the last segment, inside the container the others lead to.
enum Place<'a> {
    Field(&'a mut Map<String, Value>, String),
    Element(&'a mut Vec<Value>, String),
}

/// Follows a pointer to the container of its last segment. The text before the first slash is not looked at.
fn find<'a>(document: &'a mut Value, pointer: &str) -> Result<Place<'a>, Failed> {
    let (_, rest) = pointer.split_once('/').ok_or(Failed)?;
    let (parents, last) = rest.rsplit_once('/').map_or((None, rest), |(parents, last)| (Some(parents), last));
    let mut container = document;
    for segment in parents.into_iter().flat_map(|parents| parents.split('/')) {
        container = child(container, &unescape(segment))?;
    }
    let last = unescape(last).into_owned();
    match container {
        Value::Object(fields) => Ok(Place::Field(fields, last)),
        Value::Array(items) => Ok(Place::Element(items, last)),
        _ => Err(Failed),
    }
}

fn child<'a>(container: &'a mut Value, segment: &str) -> Result<&'a mut Value, Failed> {
    match container {
        Value::Object(fields) => fields.get_mut(segment).ok_or(Failed),
        Value::Array(items) => {
            let at = index(segment, items.len())?;
            items.get_mut(at).ok_or(Failed)
        }
        _ => Err(Failed),
    }
}

/// Undoes `~1` and `~0` in one pass, so that `~01` is `~1`.
fn unescape(segment: &str) -> Cow<'_, str> {
    if !segment.contains('~') {
        return segment.into();
    }
    let mut text = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((before, after)) = rest.split_once('~') {
        text.push_str(before);
        let (letter, skipped) = match after.as_bytes().first() {
            Some(b'0') => ('~', 1),
            Some(b'1') => ('/', 1),
            _ => ('~', 0),
        };
        text.push(letter);
        rest = &after[skipped..];
    }
    text.push_str(rest);
    text.into()
}

/// The position a segment names; negative ones count back from `length`. It may lie beyond the end.
fn index(segment: &str, length: usize) -> Result<usize, Failed> {
    let at: i64 = segment.parse().map_err(|_| Failed)?;
    if at >= 0 {
        return usize::try_from(at).map_err(|_| Failed);
    }
    let back = usize::try_from(at.unsigned_abs()).map_err(|_| Failed)?;
    length.checked_sub(back).ok_or(Failed)
}

/// The value at a place. An absent key is no failure, an index out of range is.
fn get<'a>(place: &'a Place<'_>) -> Result<Option<&'a Value>, Failed> {
    match place {
        Place::Field(fields, name) => Ok(fields.get(name)),
        Place::Element(items, segment) => items.get(index(segment, items.len())?).map(Some).ok_or(Failed),
    }
}

fn add(place: Place<'_>, value: Value, spent: &mut Spent) -> Result<(), Failed> {
    match place {
        Place::Field(fields, name) => {
            fields.insert(name, value);
        }
        Place::Element(items, segment) if segment == "-" => items.push(value),
        Place::Element(items, segment) => {
            let at = index(&segment, items.len() + 1)?;
            spent.shift(items.len().checked_sub(at).ok_or(Failed)?)?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn replace(place: Place<'_>, value: Value) -> Result<(), Failed> {
    match place {
        Place::Field(fields, name) => {
            fields.insert(name, value);
        }
        Place::Element(items, segment) => {
            let at = index(&segment, items.len())?;
            *items.get_mut(at).ok_or(Failed)? = value;
        }
    }
    Ok(())
}

fn remove(place: Place<'_>, spent: &mut Spent) -> Result<Value, Failed> {
    match place {
        Place::Field(fields, name) => fields.remove(&name).ok_or(Failed),
        Place::Element(items, segment) => {
            let at = index(&segment, items.len())?;
            holds(at < items.len())?;
            spent.shift(items.len() - at)?;
            Ok(items.remove(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Entropy;
    use serde_json::json;

    use super::*;

    fn apply(document: &Value, patch: &Value) -> Result<Value, Status> {
        let mut changed = document.clone();
        Patch::parse(patch.clone())?.apply(&mut changed)?;
        Ok(changed)
    }

    #[track_caller]
    fn check(document: &Value, patch: &Value, expected: &Value) {
        assert_eq!(apply(document, patch).as_ref(), Ok(expected), "patch {patch}");
    }

    #[track_caller]
    fn check_fails(document: &Value, patch: &Value) {
        assert_eq!(apply(document, patch), Err(Status::unprocessable()), "patch {patch}");
    }

    #[track_caller]
    fn check_refused(patch: &Value, code: u16, message: &str) {
        let status = Patch::parse(patch.clone()).expect_err("no patch");
        assert_eq!((status.code, &*status.message), (code, message));
    }

    #[test]
    fn operations_on_fields() {
        let object = json!({"data": {"k": "1", "m": "2"}});
        let rows = [
            (json!([{"op": "add", "path": "/data/n", "value": "3"}]), json!({"k": "1", "m": "2", "n": "3"})),
            (json!([{"op": "add", "path": "/data/k", "value": "3"}]), json!({"k": "3", "m": "2"})),
            (json!([{"op": "add", "path": "/data/k"}]), json!({"k": null, "m": "2"})),
            (json!([{"op": "replace", "path": "/data/k", "value": "9"}]), json!({"k": "9", "m": "2"})),
            (json!([{"op": "replace", "path": "/data/n", "value": 1}]), json!({"k": "1", "m": "2", "n": 1})),
            (json!([{"op": "remove", "path": "/data/m"}]), json!({"k": "1"})),
            (
                json!([{"op": "copy", "from": "/data/k", "path": "/data/c"}]),
                json!({"k": "1", "m": "2", "c": "1"}),
            ),
            (
                json!([{"op": "copy", "from": "/data/x", "path": "/data/c"}]),
                json!({"k": "1", "m": "2", "c": null}),
            ),
            (json!([{"op": "move", "from": "/data/k", "path": "/data/c"}]), json!({"m": "2", "c": "1"})),
            (json!([{"op": "test", "path": "/data/k", "value": "1"}]), json!({"k": "1", "m": "2"})),
            (json!([{"op": "test", "path": "/data/x", "value": null}]), json!({"k": "1", "m": "2"})),
            (json!([{"op": "test", "path": "/data/x"}]), json!({"k": "1", "m": "2"})),
            (json!([{"op": "test", "path": "", "value": object}]), json!({"k": "1", "m": "2"})),
            (json!([{"op": "replace", "path": "", "value": {"data": 1}}]), json!(1)),
            (json!([]), json!({"k": "1", "m": "2"})),
            (json!(null), json!({"k": "1", "m": "2"})),
        ];
        for (patch, data) in rows {
            check(&object, &patch, &json!({ "data": data }));
        }
        check(
            &object,
            &json!([{"op": "add", "path": "data/n", "value": 1}]),
            &json!({"data": {"k": "1", "m": "2"}, "n": 1}),
        );
    }

    #[test]
    fn operations_that_cannot_be_performed() {
        let object = json!({"data": {"k": "1"}, "list": ["a"]});
        for patch in [
            json!([{"op": "test", "path": "/data/k", "value": "other"}]),
            json!([{"op": "test", "path": "/data/k"}]),
            json!([{"op": "test", "path": "/data/x", "value": "1"}]),
            json!([{"op": "test", "path": "", "value": {}}]),
            json!([{"op": "remove", "path": "/data/x"}]),
            json!([{"op": "remove", "path": ""}]),
            json!([{"op": "add", "path": "/nope/deep", "value": 1}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "add", "path": "data", "value": {}}]),
            json!([{"op": "add", "path": "/data/k/deep", "value": 1}]),
            json!([{"op": "replace", "path": "/nope/deep", "value": 1}]),
            json!([{"op": "replace", "path": "", "value": 1}]),
            json!([{"op": "replace", "path": ""}]),
            json!([{"op": "move", "from": "/data/x", "path": "/data/y"}]),
            json!([{"op": "move", "path": "/data/y"}]),
            json!([{"op": "copy", "from": "/list/9", "path": "/data/y"}]),
            json!([{"op": "copy", "path": "/data/y"}]),
            json!([{"op": "replace", "path": "/list/9", "value": 1}]),
            json!([{"op": "add", "path": "/list/9", "value": 1}]),
            json!([{"op": "add", "path": "/list/abc", "value": 1}]),
            json!([{"op": "add", "path": "/list/-3", "value": 1}]),
            json!([{"op": "remove", "path": "/list/-2"}]),
            json!([{"op": "remove", "path": "/list/-"}]),
            json!([{"op": "unknown", "path": "/data/k"}]),
            json!([{"path": "/data/k"}]),
            json!([{"op": "add", "value": 1}]),
            json!([null]),
        ] {
            check_fails(&object, &patch);
        }
    }

    #[test]
    fn operations_on_lists() {
        let object = json!({"l": ["a", "b", "c"]});
        let rows = [
            (json!([{"op": "add", "path": "/l/-", "value": "d"}]), json!(["a", "b", "c", "d"])),
            (json!([{"op": "add", "path": "/l/3", "value": "d"}]), json!(["a", "b", "c", "d"])),
            (json!([{"op": "add", "path": "/l/1", "value": "x"}]), json!(["a", "x", "b", "c"])),
            (json!([{"op": "add", "path": "/l/-1", "value": "d"}]), json!(["a", "b", "c", "d"])),
            (json!([{"op": "add", "path": "/l/-4", "value": "x"}]), json!(["x", "a", "b", "c"])),
            (json!([{"op": "remove", "path": "/l/0"}]), json!(["b", "c"])),
            (json!([{"op": "remove", "path": "/l/-1"}]), json!(["a", "b"])),
            (json!([{"op": "replace", "path": "/l/-3", "value": "x"}]), json!(["x", "b", "c"])),
            (json!([{"op": "replace", "path": "/l/01", "value": "x"}]), json!(["a", "x", "c"])),
            (json!([{"op": "move", "from": "/l/0", "path": "/l/2"}]), json!(["b", "c", "a"])),
            (json!([{"op": "copy", "from": "/l/0", "path": "/l/-"}]), json!(["a", "b", "c", "a"])),
            (json!([{"op": "test", "path": "/l", "value": ["a", "b", "c"]}]), json!(["a", "b", "c"])),
        ];
        for (patch, list) in rows {
            check(&object, &patch, &json!({ "l": list }));
        }
    }

    #[test]
    fn pointers_are_unescaped_in_one_pass() {
        let object = json!({"til~de": 1, "sl/ash": 2, "~1": 3, "x": {"": 4}});
        let patch = json!([
            {"op": "remove", "path": "/til~0de"}, {"op": "replace", "path": "/sl~1ash", "value": 5},
            {"op": "remove", "path": "/~01"}, {"op": "replace", "path": "/x/", "value": 6}
        ]);
        check(&object, &patch, &json!({"sl/ash": 5, "x": {"": 6}}));
        assert_eq!(unescape("a~2~"), "a~2~");
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        let prefix = "error decoding patch: json: cannot unmarshal";
        let slice = "into Go value of type []handlers.jsonPatchOp";
        check_refused(&json!({}), 400, &format!("{prefix} object {slice}"));
        check_refused(
            &json!([1]),
            400,
            &format!("{prefix} number into Go value of type handlers.jsonPatchOp"),
        );
        let field = "into Go struct field jsonPatchOp.path of type string";
        check_refused(&json!([{"path": 1}]), 400, &format!("{prefix} number {field}"));
        let many = vec![json!({"op": "test", "path": ""}); OPERATIONS_MAX + 1];
        let text =
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
        check_refused(&many.into(), 413, text);
    }

    #[test]
    fn unknown_fields_are_named_with_their_operation() {
        let patch = json!([{"op": "add", "path": "/a"}, {"op": "add", "path": "/a", "vallue": 1}]);
        assert_eq!(Patch::unknown_fields(&patch), ["[1].vallue"]);
    }

    #[test]
    fn copies_cannot_outgrow_a_request() {
        let object = json!({"a": "x".repeat(1024 * 1024)});
        let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
        assert!(apply(&object, &json!([copy, copy])).is_ok());
        check_fails(&object, &json!([copy, copy, copy]));
    }

    #[test]
    fn a_long_list_cannot_be_pushed_about_for_ever() {
        let object = json!({"l": vec![0; 60_000]});
        let insert = json!({"op": "add", "path": "/l/0", "value": 1});
        assert!(apply(&object, &vec![insert.clone(); 10].into()).is_ok());
        check_fails(&object, &vec![insert; 900].into());
        let append = json!({"op": "add", "path": "/l/-", "value": 1});
        assert!(apply(&object, &vec![append; 900].into()).is_ok());
    }

    #[test]
    fn random_operations_never_panic() {
        let entropy = Entropy::seeded(1);
        let pick = |from: &[&str]| {
            let at = entropy.below(from.len() as u64);
            from[usize::try_from(at).expect("small")].to_owned()
        };
        let pointer = || -> String {
            (0..entropy.below(4))
                .map(|_| pick(&["/a", "/b", "/0", "/-1", "/-", "/9", "/", "~1", "/-9"]))
                .collect()
        };
        for _ in 0..5_000 {
            let operations = (0..entropy.below(6)).map(|_| {
                let value = if entropy.below(2) == 0 { json!({"a": [1, {"b": 2}]}) } else { json!([[1], 2]) };
                let op = pick(&["add", "remove", "replace", "move", "copy", "test", "no"]);
                json!({"op": op, "path": pointer(), "from": pointer(), "value": value})
            });
            let patch = Patch::parse(operations.collect()).expect("well formed");
            // Only the absence of a panic counts: most random patches fail somewhere.
            let _ = patch.apply(&mut json!({"a": [1, [2], {"b": {}}], "b": {"a": 1}}));
        }
    }
}
