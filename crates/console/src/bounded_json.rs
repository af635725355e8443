//! Reads JSON in pieces and keeps a bounded part of every object: long strings are truncated, and oversized fields are
//! replaced by a note. The memory use of a stream therefore does not depend on the size of the objects it shows.
//!
//! **Invariant:** for any input, it keeps at most the limits of one object plus [`OUTSIDE_MAX`] bytes, and returns
//! valid JSON that includes the object's identity (`apiVersion`, `kind`, `metadata`).

use serde_json::Value;

/// The maximum number of bytes outside objects: the head of a list with its continue token.
const OUTSIDE_MAX: usize = 1 << 20;

/// The maximum nesting depth; serde_json refuses to read more.
const LEVELS_MAX: usize = 120;

/// How much of an object is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeLimits {
    /// Bytes of one string.
    text: usize,
    /// Bytes of one field of the object, or of one of that field's subfields.
    field: usize,
    /// Bytes of the whole object, and the number of its values. Metadata may exceed both by a few fields.
    object: usize,
    values: usize,
    /// Fields that are left out at any level.
    left_out: &'static [&'static str],
}

/// Limits for a row of a list, which needs the status and a little of the spec.
pub(crate) const ROW_LIMITS: SizeLimits = SizeLimits {
    text: 2 << 10,
    field: 64 << 10,
    object: 128 << 10,
    values: 5_000,
    left_out: &["data", "binaryData", "stringData", "fieldsV1"],
};

/// Limits for the page of an object: more than a person reads.
pub(crate) const OBJECT_LIMITS: SizeLimits =
    SizeLimits { text: 32 << 10, field: 128 << 10, object: 512 << 10, values: 20_000, left_out: &[] };

/// Where the objects are in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentShape {
    /// The document is the object.
    Object,
    /// An event of a watch: `{"type": …, "object": …}`.
    Event,
    /// A list: `{"metadata": …, "items": [ … ]}`.
    List,
}

/// A part of a document that has been read completely.
#[derive(Debug, PartialEq)]
pub(crate) enum FoundJson {
    /// An object of a list.
    Item(Value),
    /// The end of the document: the object, the event, or the list with `null` in place of each object.
    Document(Value),
}

/// Reads documents in pieces.
#[derive(Debug)]
pub(crate) struct BoundedJson {
    shape: DocumentShape,
    limits: SizeLimits,
    kept: Vec<u8>,
    /// The open containers: whether each is an array.
    open: Vec<bool>,
    token: Token,
    /// Whether the next string in an object is a key.
    is_key_next: bool,
    /// The last key, if it is short.
    key: Vec<u8>,
    /// Where the current member begins, including its comma.
    member_at: usize,
    object: Option<ObjectParser>,
    skipped: Option<SkippedValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Between,
    Scalar,
    Text { is_key: bool, bytes: usize, is_escaped: bool, is_cut: bool },
}

/// The object that is being read.
#[derive(Debug)]
struct ObjectParser {
    /// The number of open containers around it.
    level: usize,
    start: usize,
    values: usize,
    /// Where the values of the current field and of its current subfield begin.
    fields: [Option<usize>; 2],
    is_in_metadata: bool,
    is_cut: bool,
}

/// A value that is read but not kept.
#[derive(Debug)]
struct SkippedValue {
    level: usize,
    bytes: usize,
    /// Whether a note takes its place; otherwise the member is left out.
    is_noted: bool,
}

impl BoundedJson {
    pub(crate) fn new(shape: DocumentShape, limits: SizeLimits) -> Self {
        Self {
            shape,
            limits,
            kept: Vec::new(),
            open: Vec::new(),
            token: Token::Between,
            is_key_next: false,
            key: Vec::new(),
            member_at: 0,
            object: None,
            skipped: None,
        }
    }

    /// Reads a piece; `found` gets every object and document that ends in it.
    pub(crate) fn push(&mut self, piece: &[u8], found: &mut impl FnMut(FoundJson)) -> Result<(), String> {
        let mut rest = piece;
        while let Some((byte, after)) = rest.split_first() {
            let run = self.read_run(rest);
            if run > 0 {
                rest = &rest[run..];
            } else {
                self.read(*byte, found)?;
                rest = after;
            }
        }
        Ok(())
    }

    /// Reads the characters of a string up to the next quote or backslash in one go, and returns their number.
    fn read_run(&mut self, rest: &[u8]) -> usize {
        let Token::Text { is_key: false, bytes, is_escaped: false, is_cut } = &mut self.token else {
            return 0;
        };
        // Never scans further than it reads, so each byte is scanned a fixed number of times.
        let allowed =
            if *is_cut { rest.len() } else { self.limits.text.saturating_sub(*bytes).min(rest.len()) };
        let run = rest[..allowed].iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(allowed);
        *bytes += run;
        match (&mut self.skipped, *is_cut) {
            (Some(skipped), _) => skipped.bytes += run,
            (None, true) => {}
            (None, false) => self.kept.extend_from_slice(&rest[..run]),
        }
        run
    }

    fn read(&mut self, byte: u8, found: &mut impl FnMut(FoundJson)) -> Result<(), String> {
        if let Token::Text { .. } = self.token {
            self.read_in_text(byte);
            return self.check_size();
        }
        if self.token == Token::Scalar && matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n') {
            self.token = Token::Between;
            self.end_value(found)?;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return Ok(()),
            b'"' => self.start_text(),
            b'{' | b'[' => self.open_container(byte)?,
            b'}' | b']' => return self.close_container(byte, found),
            b',' => self.start_member(),
            b':' => {
                self.is_key_next = false;
                self.keep(byte);
            }
            _ => {
                if self.token == Token::Between {
                    self.start_value();
                    self.token = Token::Scalar;
                }
                self.keep(byte);
            }
        }
        self.check_size()
    }

    fn keep(&mut self, byte: u8) {
        match &mut self.skipped {
            Some(skipped) => skipped.bytes += 1,
            None => self.kept.push(byte),
        }
    }

    fn start_member(&mut self) {
        self.is_key_next = self.open.last() == Some(&false);
        if self.skipped.is_none() {
            self.member_at = self.kept.len();
            // All members before it may have been left out.
            if !matches!(self.kept.last(), Some(b'{' | b'[')) {
                self.kept.push(b',');
            }
        } else {
            self.keep(b',');
        }
    }

    fn start_text(&mut self) {
        let is_key = self.is_key_next;
        if is_key {
            self.key.clear();
        } else {
            self.start_value();
        }
        self.keep(b'"');
        self.token = Token::Text { is_key, bytes: 0, is_escaped: false, is_cut: false };
    }

    fn read_in_text(&mut self, byte: u8) {
        let Token::Text { is_key, bytes, is_escaped, is_cut } = self.token else { return };
        if byte == b'"' && !is_escaped {
            if is_cut {
                let note = format!("… ({bytes} bytes, cut)");
                note.bytes().for_each(|byte| self.keep(byte));
            }
            self.keep(byte);
            self.token = Token::Between;
            if !is_key {
                // A string is never a whole document, so nothing is complete at its end.
                self.leave_value();
            }
            return;
        }
        if is_key && self.key.len() <= 32 {
            self.key.push(byte);
        }
        // Truncates only before an ordinary character, never within a multi-byte character or an escape.
        let is_letter = byte.is_ascii() && byte != b'\\' && !is_escaped;
        let is_cut = is_cut || (bytes >= self.limits.text && is_letter && !self.follows_escape());
        if !is_cut {
            self.keep(byte);
        }
        let is_escaped = byte == b'\\' && !is_escaped;
        self.token = Token::Text { is_key, bytes: bytes + 1, is_escaped, is_cut };
    }

    /// Returns whether the last bytes may be an unfinished `\u` escape.
    fn follows_escape(&self) -> bool {
        let last = &self.kept[self.kept.len().saturating_sub(6)..];
        last.contains(&b'\\')
    }

    /// Returns the depth within the object of the value that begins here: 1 for its fields.
    fn depth(&self) -> Option<usize> {
        self.object.as_ref().map(|object| self.open.len() - object.level)
    }

    fn start_value(&mut self) {
        let (depth, level) = (self.depth(), self.open.len());
        let (at, is_left_out) = (self.kept.len(), self.is_left_out());
        let is_identity = [b"metadata".as_slice(), b"kind", b"apiVersion"].contains(&self.key.as_slice());
        let limits = self.limits;
        let (Some(object), Some(depth)) = (&mut self.object, depth) else { return };
        if self.skipped.is_some() {
            return;
        }
        object.values += 1;
        if depth == 1 {
            object.is_in_metadata = self.key == b"metadata";
            object.fields[1] = None;
        }
        if let Some(field) = depth.checked_sub(1).and_then(|depth| object.fields.get_mut(depth)) {
            *field = Some(at);
        }
        let is_full = at - object.start > limits.object || object.values > limits.values;
        let may_leave_out = match depth {
            1 => !is_identity,
            2 => !object.is_in_metadata,
            _ => false,
        };
        if is_left_out || (is_full && may_leave_out) {
            object.is_cut |= !is_left_out;
            self.kept.truncate(self.member_at);
            self.skipped = Some(SkippedValue { level, bytes: 0, is_noted: false });
        }
    }

    fn is_left_out(&self) -> bool {
        let is_field = self.open.last() == Some(&false) && self.object.is_some();
        is_field && self.limits.left_out.iter().any(|name| name.as_bytes() == self.key)
    }

    fn open_container(&mut self, byte: u8) -> Result<(), String> {
        self.start_value();
        let is_item = match self.shape {
            DocumentShape::Object => self.open.is_empty(),
            DocumentShape::Event => self.open.len() == 1 && self.key == b"object",
            DocumentShape::List => self.open.len() == 2 && self.open.last() == Some(&true),
        };
        if is_item && self.object.is_none() {
            self.object = Some(ObjectParser {
                level: self.open.len(),
                start: self.kept.len(),
                values: 0,
                fields: [None, None],
                is_in_metadata: false,
                is_cut: false,
            });
        }
        if self.open.len() >= LEVELS_MAX {
            return Err("an object is nested too deeply to be shown".to_owned());
        }
        self.open.push(byte == b'[');
        self.is_key_next = byte == b'{';
        self.keep(byte);
        if self.skipped.is_none() {
            self.member_at = self.kept.len();
        }
        Ok(())
    }

    fn close_container(&mut self, byte: u8, found: &mut impl FnMut(FoundJson)) -> Result<(), String> {
        if self.open.pop().is_none() {
            return Err("the server's answer is not JSON".to_owned());
        }
        self.is_key_next = false;
        let is_cut = self.object.as_ref().is_some_and(|one| one.level == self.open.len() && one.is_cut);
        if is_cut && self.skipped.is_none() && byte == b'}' {
            self.kept.extend_from_slice(b",\"(not shown)\":\"the object is too large to be shown in full\"");
        }
        self.keep(byte);
        self.end_value(found)
    }

    /// Ends a skipped value, if it ends here.
    fn leave_value(&mut self) {
        let level = self.open.len();
        if let Some(skipped) = self.skipped.take_if(|skipped| skipped.level == level)
            && skipped.is_noted
        {
            let note = format!("\"({} bytes, not shown)\"", skipped.bytes);
            self.kept.extend_from_slice(note.as_bytes());
        }
    }

    fn end_value(&mut self, found: &mut impl FnMut(FoundJson)) -> Result<(), String> {
        self.leave_value();
        let level = self.open.len();
        if let Some(object) = self.object.take_if(|object| object.level == level)
            && self.shape == DocumentShape::List
        {
            found(FoundJson::Item(parse(&self.kept[object.start..])?));
            self.kept.truncate(object.start);
            self.kept.extend_from_slice(b"null");
            self.kept.shrink_to(self.limits.object);
        }
        if level == 0 {
            found(FoundJson::Document(parse(&self.kept)?));
            self.kept.clear();
            self.kept.shrink_to(self.limits.object);
        }
        Ok(())
    }

    /// Stops keeping a field that has become too large.
    fn check_size(&mut self) -> Result<(), String> {
        let (at, limits) = (self.kept.len(), self.limits);
        let Some(object) = &mut self.object else {
            let is_fine = at <= OUTSIDE_MAX;
            return is_fine.then_some(()).ok_or_else(|| "the answer is too long to be shown".to_owned());
        };
        if self.skipped.is_some() {
            return Ok(());
        }
        // A field is being read if one of its containers is open or one of its values is incomplete.
        let is_in_value = !matches!(self.token, Token::Between | Token::Text { is_key: true, .. });
        let depth = self.open.len() - object.level - usize::from(!is_in_value);
        let (field, start) = match object.fields {
            [_, Some(start)] if depth >= 2 => (2, start),
            [Some(start), _] if depth >= 1 => (1, start),
            _ => return Ok(()),
        };
        let is_full = at - object.start > limits.object || object.values > limits.values;
        let is_too_large = at - start > limits.field || (is_full && !object.is_in_metadata && field == 2);
        if is_too_large {
            object.is_cut = true;
            self.skipped =
                Some(SkippedValue { level: object.level + field, bytes: at - start, is_noted: true });
            self.kept.truncate(start);
        } else if at - object.start > 2 * limits.object + 8 * limits.field {
            return Err("an object is too large to be shown".to_owned());
        }
        Ok(())
    }
}

fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| format!("the server's answer is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMITS: SizeLimits =
        SizeLimits { text: 100, field: 1_000, object: 5_000, values: 500, left_out: &["data"] };

    /// Reads a document in pieces of several sizes, and checks that the size makes no difference.
    #[track_caller]
    fn read(shape: DocumentShape, limits: SizeLimits, text: &str) -> Vec<FoundJson> {
        let mut answers = [1, 7, 1000, usize::MAX].map(|size| {
            let (mut reader, mut all) = (BoundedJson::new(shape, limits), Vec::new());
            for piece in text.as_bytes().chunks(size.min(text.len())) {
                reader.push(piece, &mut |found| all.push(found)).expect("it is JSON");
                assert!(reader.kept.len() <= OUTSIDE_MAX, "{}", reader.kept.len());
            }
            all
        });
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        std::mem::take(&mut answers[0])
    }

    fn object(text: &str, limits: SizeLimits) -> Value {
        match read(DocumentShape::Object, limits, text).as_slice() {
            [FoundJson::Document(value)] => value.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn small_objects_are_kept_as_they_are() {
        let value = json!({
            "kind": "Pod", "metadata": {"name": "a", "labels": {}, "n": [1, -2.5e3, true, null, [], [{}, "x"]]},
            "status": {"text": "quote \" backslash \\ snow \u{2603} \u{1f600}", "empty": ""},
        });
        assert_eq!(object(&value.to_string(), LIMITS), value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(object(&pretty, LIMITS), value);
    }

    #[test]
    fn fields_that_nobody_needs_are_left_out_wherever_they_are() {
        for text in [
            r#"{"data":{"a":"x"},"b":1,"c":2}"#,
            r#"{"b":1,"data":"x","c":2}"#,
            r#"{"b":1,"c":2,"data":[1,{"data":2}]}"#,
            r#"{"b":1,"data":1,"data":2,"c":2}"#,
        ] {
            assert_eq!(object(text, LIMITS), json!({"b": 1, "c": 2}), "{text}");
        }
        assert_eq!(
            object(r#"{"a":[{"data":1},{"x":["data"]}]}"#, LIMITS),
            json!({"a": [{}, {"x": ["data"]}]})
        );
    }

    #[test]
    fn long_texts_are_cut_and_large_fields_are_replaced_by_a_note() {
        let limits = SizeLimits { left_out: &[], ..LIMITS };
        let value = json!({
            "metadata": {"name": "a"}, "data": {"long": "x".repeat(300), "after": "y"},
            "spec": {"many": (0..400).collect::<Vec<_>>(), "few": [1]}, "escapes": "\n".repeat(4000), "last": 1,
        });
        let shown = object(&value.to_string(), limits);
        assert_eq!(shown["data"]["long"], format!("{}… (300 bytes, cut)", "x".repeat(100)));
        assert_eq!((&shown["data"]["after"], &shown["last"]), (&json!("y"), &json!(1)));
        assert_eq!(shown["metadata"], value["metadata"]);
        assert!(shown["escapes"].as_str().unwrap().ends_with("bytes, not shown)"), "{}", shown["escapes"]);
        assert!(shown["spec"]["many"].as_str().unwrap().ends_with("bytes, not shown)"), "{}", shown["spec"]);
        assert_eq!(shown["spec"]["few"], json!([1]));
        assert!(shown["(not shown)"].is_string());
    }

    #[test]
    fn an_object_of_a_million_parts_keeps_its_identity_and_little_else() {
        let fields: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("a{n}"), json!("v"))).collect();
        let empty: Vec<Value> = vec![json!({}); 50_000];
        for (name, part) in [("fields", json!(fields)), ("list", json!(empty)), ("lists", json!([empty]))] {
            for text in [
                format!(
                    r#"{{"bulk":{part},"kind":"K","metadata":{{"name":"a","uid":"u"}},"status":{{"phase":"x"}}}}"#
                ),
                format!(r#"{{"kind":"K","metadata":{{"name":"a","uid":"u"}},"bulk":{part}}}"#),
            ] {
                let shown = object(&text, LIMITS);
                assert_eq!(shown["metadata"], json!({"name": "a", "uid": "u"}), "{name}");
                assert!(shown.to_string().len() < 2 * LIMITS.object, "{name}: {}", shown.to_string().len());
            }
        }
    }

    #[test]
    fn objects_of_a_list_are_returned_one_by_one() {
        let items: Vec<Value> = (0..3).map(|n| json!({"metadata": {"name": n.to_string()}})).collect();
        let list = json!({"kind": "PodList", "metadata": {"continue": "abc", "resourceVersion": "7"}, "items": items});
        let mut expected: Vec<FoundJson> = items.iter().cloned().map(FoundJson::Item).collect();
        let mut head = list.clone();
        head["items"] = json!([null, null, null]);
        expected.push(FoundJson::Document(head));
        assert_eq!(read(DocumentShape::List, LIMITS, &list.to_string()), expected);
    }

    #[test]
    fn events_follow_each_other() {
        let big = "x".repeat(200);
        let text = format!(
            "{{\"type\":\"ADDED\",\"object\":{{\"a\":\"{big}\"}}}}\n\n{{\"type\":\"DELETED\",\"object\":{{\"a\":2}}}}\n"
        );
        let cut = format!("{}… (200 bytes, cut)", "x".repeat(100));
        let expected = [
            FoundJson::Document(json!({"type": "ADDED", "object": {"a": cut}})),
            FoundJson::Document(json!({"type": "DELETED", "object": {"a": 2}})),
        ];
        assert_eq!(read(DocumentShape::Event, LIMITS, &text), expected);
    }

    #[test]
    fn the_time_is_linear_in_the_length_of_the_text() {
        let text = json!({"metadata": {"name": "a"}, "status": "x".repeat(20_000_000)}).to_string();
        let limits = SizeLimits { text: 1 << 20, field: 2 << 20, object: 4 << 20, ..LIMITS };
        let mut reader = BoundedJson::new(DocumentShape::Object, limits);
        // If every byte read caused all others to be scanned again, this would take forever.
        reader.push(text.as_bytes(), &mut |_| {}).expect("it is JSON");
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in
            ["}", "{]]", &"[".repeat(1000), "{\"a\" 1}", &format!("{{\"a\":\"{}", "\\n".repeat(1 << 20))]
        {
            let mut reader = BoundedJson::new(DocumentShape::Event, LIMITS);
            let answer = reader.push(text.as_bytes(), &mut |_| {});
            assert!(answer.is_err() || reader.kept.len() <= OUTSIDE_MAX, "{text:.20}");
        }
    }
}
