//! JSON patch (RFC 6902), with the habits of the Go library behind kube-apiserver: `replace` of an absent key adds it,
//! `copy` from an absent key gives null, negative indexes count from the end, and a pointer without a leading slash
//! loses its first segment.
//!
//! **Invariant:** [`Patch::parse`] refuses what is no patch; whether an operation can be performed is only known when it
//! is, so an unknown `op` or a missing `path` fails in [`Patch::apply`], with the one text Kubernetes has for that.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::object::depth::{DEPTH_MAX, is_deeper};
use crate::object::memory::{MEMORY_MAX, Room};
use crate::status::Status;

/// Operations one patch may hold; kube-apiserver's limit, against patches small in bytes and large in work.
const OPERATIONS_MAX: usize = 10_000;

/// Bytes that `copy` operations may add in sum: the limit of a request body, so that copying cannot grow an object
/// beyond what a client could have sent.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// List elements that operations may push aside in sum: 10 000 insertions at the front of a list of a million would
/// otherwise keep a processor busy for half a minute. This many take a fraction of a second.
const SHIFTED_ELEMENTS_MAX: usize = 20_000_000;

/// Values that operations may look at in sum, because they put them elsewhere: 10 000 moves of a list of a million take as
/// long as the insertions above. This many take some tenths of a second.
const VISITED_VALUES_MAX: usize = 10_000_000;

/// What one run of a patch has spent of its limits.
struct Spent {
    copied_bytes: usize,
    shifted_elements: usize,
    visited_values: usize,
    /// Copies of small values take far more memory than text.
    room: Room,
}

impl Default for Spent {
    fn default() -> Self {
        Self { copied_bytes: 0, shifted_elements: 0, visited_values: 0, room: Room::new(MEMORY_MAX) }
    }
}

impl Spent {
    fn copy(&mut self, value: &Value) -> Result<(), Failed> {
        self.copied_bytes += value.to_string().len();
        holds(self.copied_bytes <= COPIED_BYTES_MAX && self.room.whole(value).is_ok())
    }

    /// Takes account of a look at a value and all in it.
    fn visit(&mut self, value: &Value) -> Result<(), Failed> {
        self.visited_values += count(value);
        holds(self.visited_values <= VISITED_VALUES_MAX)
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
            ("add", _) => add(find(document, path)?, self.shallow_value(path)?, spent),
            ("remove", _) => remove(find(document, path)?, spent).map(drop),
            ("replace", _) => replace(find(document, path)?, self.shallow_value(path)?),
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
        spent.visit(&value)?;
        check_depth(path, &value)?;
        add(find(document, path)?, value, spent)
    }

    fn copy(&self, document: &mut Value, path: &str, spent: &mut Spent) -> Result<(), Failed> {
        let from = find(document, self.from.as_deref().ok_or(Failed)?)?;
        let value = get(&from)?;
        if let Some(value) = value {
            spent.visit(value)?;
            spent.copy(value)?;
            check_depth(path, value)?;
        }
        let value = value.cloned().unwrap_or_default();
        add(find(document, path)?, value, spent)
    }

    fn shallow_value(&self, path: &str) -> Result<Value, Failed> {
        let value = self.value();
        check_depth(path, &value)?;
        Ok(value)
    }
}

/// Refuses a value that would be nested too deep at this place. Each operation could double the depth otherwise.
fn check_depth(path: &str, value: &Value) -> Result<(), Failed> {
    let above = path.matches('/').count();
    holds(above <= DEPTH_MAX && !is_deeper(value, DEPTH_MAX - above))
}

/// How many values there are in one, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
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
mod tests;
