//! Reads and writes the wire format: tags, varints and lengths. It is independent of the messages.

/// The value of one field on the wire.
pub(super) enum WireValue<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
}

/// Reads the fields of a message.
pub(super) struct WireReader<'a>(pub(super) &'a [u8]);

impl<'a> WireReader<'a> {
    /// Returns whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next field with its number; `None` if the bytes are malformed.
    pub(super) fn field(&mut self) -> Option<(u32, WireValue<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let field = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireValue::Bytes(self.take(length)?)
            }
            // The API has no fixed 32-bit numbers; their bytes are skipped like an unknown field's.
            5 => WireValue::Fixed64(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((number, field))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends a number.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
}

/// Appends a numeric field.
pub(super) fn put_number(bytes: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(bytes, u64::from(number) << 3);
    put_varint(bytes, value);
}

/// Appends a field of eight bytes.
pub(super) fn put_fixed64(bytes: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(bytes, u64::from(number) << 3 | 1);
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field of bytes: a string, a message or raw bytes.
pub(super) fn put_bytes(bytes: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_length(bytes, number, value.len());
    bytes.extend_from_slice(value);
}

/// Appends the beginning of a field of bytes, of which this many follow.
pub(super) fn put_length(bytes: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(bytes, u64::from(number) << 3 | 2);
    put_varint(bytes, length as u64);
}
