//! Writes the gzip format (RFC 1952): a header, a deflated body, and its checksum and length.
//!
//! The level is the fastest, as in Kubernetes: it shrinks the JSON of lists to a tenth of its size.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params,
};

/// The first bytes: the format, deflate, no flags, no time, the fastest level, an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// The fastest level that still looks for repetitions.
const LEVEL: i32 = 1;
/// A negative number of bits means a body without its own header.
const RAW_WINDOW_BITS: i32 = -15;
const DEFAULT_STRATEGY: i32 = 0;

/// Compresses data piece by piece.
pub(super) struct GzipEncoder {
    compressor: CompressorOxide,
    checksum: u32,
    length: u32,
    has_begun: bool,
}

impl GzipEncoder {
    pub(super) fn new() -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, RAW_WINDOW_BITS, DEFAULT_STRATEGY);
        Self { compressor: CompressorOxide::new(flags), checksum: u32::MAX, length: 0, has_begun: false }
    }

    /// Compresses a piece. Appends the finished output to `made`; the rest waits for more input.
    pub(super) fn write(&mut self, piece: &[u8], made: &mut Vec<u8>) {
        self.begin(made);
        for byte in piece {
            self.checksum =
                (self.checksum >> 8) ^ CHECKSUMS[usize::from(self.checksum.to_le_bytes()[0] ^ byte)];
        }
        // The format counts the length modulo 2^32.
        #[expect(clippy::cast_possible_truncation, reason = "the format wants the lowest 32 bits")]
        let added = piece.len() as u32;
        self.length = self.length.wrapping_add(added);
        self.deflate(piece, TDEFLFlush::None, made);
    }

    /// Appends the remaining output and the trailer.
    pub(super) fn finish(&mut self, made: &mut Vec<u8>) {
        self.begin(made);
        self.deflate(&[], TDEFLFlush::Finish, made);
        made.extend_from_slice(&(!self.checksum).to_le_bytes());
        made.extend_from_slice(&self.length.to_le_bytes());
    }

    fn begin(&mut self, made: &mut Vec<u8>) {
        if !self.has_begun {
            self.has_begun = true;
            made.extend_from_slice(&HEADER);
        }
    }

    fn deflate(&mut self, piece: &[u8], flush: TDEFLFlush, made: &mut Vec<u8>) {
        let add = |bytes: &[u8]| {
            made.extend_from_slice(bytes);
            true
        };
        compress_to_output(&mut self.compressor, piece, flush, add);
    }
}

/// The checksum of each byte (CRC-32, reflected).
static CHECKSUMS: [u32; 256] = checksums();

const fn checksums() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut at: u32 = 0;
    while at < 256 {
        let mut sum = at;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[at as usize] = sum;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compress(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut encoder, mut made) = (GzipEncoder::new(), Vec::new());
        for piece in pieces {
            encoder.write(piece, &mut made);
        }
        encoder.finish(&mut made);
        made
    }

    #[test]
    fn pieces_become_one_text() {
        let long = "abcdefgh".repeat(50_000);
        for pieces in [vec![], vec!["123456789"], vec!["a", "", "b"], vec![&*long, "end", &*long]] {
            let whole = pieces.concat();
            let bytes: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
            let made = compress(&bytes);
            let body = &made[HEADER.len()..made.len() - 8];
            let read = miniz_oxide::inflate::decompress_to_vec(body).unwrap();
            assert_eq!(String::from_utf8(read).unwrap(), whole);
            assert_eq!(made[made.len() - 4..], u32::try_from(whole.len()).unwrap().to_le_bytes());
        }
        assert!(compress(&[long.as_bytes()]).len() < long.len() / 50);
    }

    /// Compares with the value that the standard gives for these nine digits.
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let made = compress(&[b"123456789"]);
        assert_eq!(made[made.len() - 8..made.len() - 4], 0xcbf4_3926_u32.to_le_bytes());
    }
}
