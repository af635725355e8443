//! JSON patch (RFC 6902), with the behavior of kube-apiserver's Go library: `replace` of an absent key adds it, `copy`
//! from an absent key yields null, negative indexes count from the end, and a pointer without a leading slash loses its
//! first segment.
//!
//! **Invariant:** [`JsonPatch::parse`] rejects anything that is not a patch. Whether an operation is possible becomes
//! clear only when it is performed, so an unknown `op` or a missing `path` fails in [`JsonPatch::apply`], with the only
//! message that Kubernetes has for this.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::object::depth::{DEPTH_MAX, is_deeper};
use crate::object::memory::{MEMORY_MAX, MemoryBudget};
use crate::status::Status;

/// The maximum number of operations in one patch: kube-apiserver's limit, which guards against patches that are small
/// in bytes but cause much work.
const OPERATIONS_MAX: usize = 10_000;

/// The maximum number of bytes that all `copy` operations add: the size limit of a request body, so that copying cannot
/// grow an object beyond what a client could have sent.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum number of list elements that all operations shift: 10 000 insertions at the front of a list of a
/// million would otherwise keep a processor busy for half a minute. This many take a fraction of a second.
const SHIFTED_ELEMENTS_MAX: usize = 20_000_000;

/// The maximum number of values that all operations visit in order to move them: 10 000 moves of a list of a million
/// take as long as the insertions above. This many take a few tenths of a second.
const VISITED_VALUES_MAX: usize = 10_000_000;

/// The amounts of its limits that a patch has used up.
struct PatchUsage {
    copied_bytes: usize,
    shifted_elements: usize,
    visited_values: usize,
    /// Limits memory, because copies of small values take far more of it than their text.
    room: MemoryBudget,
}

impl Default for PatchUsage {
    fn default() -> Self {
        Self { copied_bytes: 0, shifted_elements: 0, visited_values: 0, room: MemoryBudget::new(MEMORY_MAX) }
    }
}

impl PatchUsage {
    fn copy(&mut self, value: &Value) -> Result<(), OperationFailed> {
        self.copied_bytes += value.to_string().len();
        holds(self.copied_bytes <= COPIED_BYTES_MAX && self.room.whole(value).is_ok())
    }

    /// Counts a visit to a value and everything in it.
    fn visit(&mut self, value: &Value) -> Result<(), OperationFailed> {
        self.visited_values += count(value);
        holds(self.visited_values <= VISITED_VALUES_MAX)
    }

    fn shift(&mut self, elements: usize) -> Result<(), OperationFailed> {
        self.shifted_elements += elements;
        holds(self.shifted_elements <= SHIFTED_ELEMENTS_MAX)
    }
}

/// The fields that an operation may have.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// A parsed patch.
#[derive(Debug)]
pub struct JsonPatch(Vec<PatchOperation>);

#[derive(Debug)]
struct PatchOperation {
    verb: String,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

/// An operation cannot be performed. Kubernetes gives no further details.
#[derive(Debug)]
struct OperationFailed;

impl From<OperationFailed> for Status {
    fn from(_: OperationFailed) -> Self {
        Self::unprocessable()
    }
}

impl JsonPatch {
    /// Parses a decoded body as a patch.
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
        items.into_iter().map(PatchOperation::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the paths of unknown fields in operations, as strict decoding names them: `[0].vallue`.
    pub fn unknown_fields(body: &Value) -> Vec<String> {
        let operations = body.as_array().into_iter().flatten().enumerate();
        operations
            .filter_map(|(at, operation)| Some((at, operation.as_object()?)))
            .flat_map(|(at, fields)| fields.keys().map(move |name| (at, name)))
            .filter(|(_, name)| !FIELDS.contains(&name.as_str()))
            .map(|(at, name)| format!("[{at}].{name}"))
            .collect()
    }

    /// Performs the operations one after another. After an error, discard the half-changed document.
    pub fn apply(&self, document: &mut Value) -> Result<(), Status> {
        let mut spent = PatchUsage::default();
        for operation in &self.0 {
            operation.apply(document, &mut spent)?;
        }
        Ok(())
    }
}

impl PatchOperation {
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

    fn apply(&self, document: &mut Value, spent: &mut PatchUsage) -> Result<(), OperationFailed> {
        let path = self.path.as_deref().ok_or(OperationFailed)?;
        match (&*self.verb, path) {
            ("replace", "") => self.replace_document(document),
            ("test", "") => holds(*document == self.value()),
            ("add", _) => add(find(document, path)?, self.shallow_value(path)?, spent),
            ("remove", _) => remove(find(document, path)?, spent).map(drop),
            ("replace", _) => replace(find(document, path)?, self.shallow_value(path)?),
            ("test", _) => self.test(document, path),
            ("move", _) => self.move_value(document, path, spent),
            ("copy", _) => self.copy(document, path, spent),
            _ => Err(OperationFailed),
        }
    }

    /// Returns the value; an absent value counts as null, as in the library.
    fn value(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }

    fn replace_document(&self, document: &mut Value) -> Result<(), OperationFailed> {
        let value = self.value();
        holds(value.is_object() || value.is_array())?;
        *document = value;
        Ok(())
    }

    fn test(&self, document: &mut Value, path: &str) -> Result<(), OperationFailed> {
        let place = find(document, path)?;
        let found = get(&place)?;
        let wanted = self.value.as_ref();
        holds(found.unwrap_or(&Value::Null) == wanted.unwrap_or(&Value::Null))
    }

    fn move_value(
        &self,
        document: &mut Value,
        path: &str,
        spent: &mut PatchUsage,
    ) -> Result<(), OperationFailed> {
        let value = remove(find(document, self.from.as_deref().ok_or(OperationFailed)?)?, spent)?;
        spent.visit(&value)?;
        check_depth(path, &value)?;
        add(find(document, path)?, value, spent)
    }

    fn copy(&self, document: &mut Value, path: &str, spent: &mut PatchUsage) -> Result<(), OperationFailed> {
        let from = find(document, self.from.as_deref().ok_or(OperationFailed)?)?;
        let value = get(&from)?;
        if let Some(value) = value {
            spent.visit(value)?;
            spent.copy(value)?;
            check_depth(path, value)?;
        }
        let value = value.cloned().unwrap_or_default();
        add(find(document, path)?, value, spent)
    }

    fn shallow_value(&self, path: &str) -> Result<Value, OperationFailed> {
        let value = self.value();
        check_depth(path, &value)?;
        Ok(value)
    }
}

/// Rejects a value that would be nested too deeply at this path. Otherwise each operation could double the depth.
fn check_depth(path: &str, value: &Value) -> Result<(), OperationFailed> {
    let above = path.matches('/').count();
    holds(above <= DEPTH_MAX && !is_deeper(value, DEPTH_MAX - above))
}

/// Returns the number of values in a value, including itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn holds(claim: bool) -> Result<(), OperationFailed> {
    claim.then_some(()).ok_or(OperationFailed)
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Status> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mistyped(&other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
    }
}

fn mistyped(found: &Value, wanted: &str) -> Status {
    let found = super::go_format::json_type_of(found);
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {found} into {wanted}"))
}

/// The target of a pointer: the last segment, inside the container that the others lead to.
enum PointerTarget<'a> {
    Field(&'a mut Map<String, Value>, String),
    Element(&'a mut Vec<Value>, String),
}

/// Follows a pointer to the container of its last segment. The text before the first slash is ignored.
fn find<'a>(document: &'a mut Value, pointer: &str) -> Result<PointerTarget<'a>, OperationFailed> {
    let (_, rest) = pointer.split_once('/').ok_or(OperationFailed)?;
    let (parents, last) = rest.rsplit_once('/').map_or((None, rest), |(parents, last)| (Some(parents), last));
    let mut container = document;
    for segment in parents.into_iter().flat_map(|parents| parents.split('/')) {
        container = child(container, &unescape(segment))?;
    }
    let last = unescape(last).into_owned();
    match container {
        Value::Object(fields) => Ok(PointerTarget::Field(fields, last)),
        Value::Array(items) => Ok(PointerTarget::Element(items, last)),
        _ => Err(OperationFailed),
    }
}

fn child<'a>(container: &'a mut Value, segment: &str) -> Result<&'a mut Value, OperationFailed> {
    match container {
        Value::Object(fields) => fields.get_mut(segment).ok_or(OperationFailed),
        Value::Array(items) => {
            let at = index(segment, items.len())?;
            items.get_mut(at).ok_or(OperationFailed)
        }
        _ => Err(OperationFailed),
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

/// Returns the position that a segment names; negative positions count back from `length`. It may be beyond the end.
fn index(segment: &str, length: usize) -> Result<usize, OperationFailed> {
    let at: i64 = segment.parse().map_err(|_| OperationFailed)?;
    if at >= 0 {
        return usize::try_from(at).map_err(|_| OperationFailed);
    }
    let back = usize::try_from(at.unsigned_abs()).map_err(|_| OperationFailed)?;
    length.checked_sub(back).ok_or(OperationFailed)
}

/// Returns the value of a target. An absent key is not an error; an index out of range is.
fn get<'a>(place: &'a PointerTarget<'_>) -> Result<Option<&'a Value>, OperationFailed> {
    match place {
        PointerTarget::Field(fields, name) => Ok(fields.get(name)),
        PointerTarget::Element(items, segment) => {
            items.get(index(segment, items.len())?).map(Some).ok_or(OperationFailed)
        }
    }
}

fn add(place: PointerTarget<'_>, value: Value, spent: &mut PatchUsage) -> Result<(), OperationFailed> {
    match place {
        PointerTarget::Field(fields, name) => {
            fields.insert(name, value);
        }
        PointerTarget::Element(items, segment) if segment == "-" => items.push(value),
        PointerTarget::Element(items, segment) => {
            let at = index(&segment, items.len() + 1)?;
            spent.shift(items.len().checked_sub(at).ok_or(OperationFailed)?)?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn replace(place: PointerTarget<'_>, value: Value) -> Result<(), OperationFailed> {
    match place {
        PointerTarget::Field(fields, name) => {
            fields.insert(name, value);
        }
        PointerTarget::Element(items, segment) => {
            let at = index(&segment, items.len())?;
            *items.get_mut(at).ok_or(OperationFailed)? = value;
        }
    }
    Ok(())
}

fn remove(place: PointerTarget<'_>, spent: &mut PatchUsage) -> Result<Value, OperationFailed> {
    match place {
        PointerTarget::Field(fields, name) => fields.remove(&name).ok_or(OperationFailed),
        PointerTarget::Element(items, segment) => {
            let at = index(&segment, items.len())?;
            holds(at < items.len())?;
            spent.shift(items.len() - at)?;
            Ok(items.remove(at))
        }
    }
}

#[cfg(test)]
mod tests;
