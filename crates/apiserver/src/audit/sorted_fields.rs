//! The fields of an object that is being written as JSON, which are sorted when the object ends.
//!
//! A field costs its name and two numbers until then, many times less than a parsed value. Fields that come in order,
//! as those of stored objects do, are not moved.

/// The fields of one object in a text.
pub(super) struct FieldsInText {
    /// The names, one after the other.
    names: String,
    fields: Vec<FieldInText>,
    /// Whether each name is greater than the one before.
    is_sorted: bool,
}

struct FieldInText {
    /// Where its name ends in `names`.
    name_end: usize,
    /// Where it begins in the text.
    start: usize,
}

impl FieldsInText {
    /// Begins an object.
    pub(super) fn begin(text: &mut Vec<u8>) -> Self {
        text.push(b'{');
        Self { names: String::new(), fields: Vec::new(), is_sorted: true }
    }

    /// Writes the name of another field; its value must follow.
    pub(super) fn add(&mut self, text: &mut Vec<u8>, name: &str) -> serde_json::Result<()> {
        if let Some(last) = self.fields.len().checked_sub(1) {
            self.is_sorted &= self.name(last) < name;
            text.push(b',');
        }
        self.names.push_str(name);
        self.fields.push(FieldInText { name_end: self.names.len(), start: text.len() });
        serde_json::to_writer(&mut *text, name)?;
        text.push(b':');
        Ok(())
    }

    /// Ends the object: sorts its fields, and removes those that come again later.
    pub(super) fn end(self, text: &mut Vec<u8>) {
        if !self.is_sorted {
            self.sort(text);
        }
        text.push(b'}');
    }

    fn sort(&self, text: &mut Vec<u8>) {
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        // Keeps the order of equal names.
        order.sort_by(|left, right| self.name(*left).cmp(self.name(*right)));
        let first = self.fields[0].start;
        let unsorted = text.split_off(first);
        for (position, field) in order.iter().enumerate() {
            if order.get(position + 1).is_some_and(|next| self.name(*next) == self.name(*field)) {
                continue;
            }
            if text.len() > first {
                text.push(b',');
            }
            // A comma stands between two fields.
            let end = self.fields.get(field + 1).map_or(unsorted.len(), |next| next.start - 1 - first);
            text.extend_from_slice(&unsorted[self.fields[*field].start - first..end]);
        }
    }

    fn name(&self, field: usize) -> &str {
        let start = field.checked_sub(1).map_or(0, |before| self.fields[before].name_end);
        &self.names[start..self.fields[field].name_end]
    }
}
