//! Computes FNV-1a hashes, for values that outlive a process: names, shards and numbers that every release must compute
//! the same way.
//!
//! **Invariant:** the values never change. They are unsuitable for hash maps, and for input chosen by an attacker, who
//! could make two strings collide.

/// Computes the 32-bit FNV-1a hash. Its upper bits are poor for short strings: mix them before using them.
pub fn fnv_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Computes the 64-bit FNV-1a hash. Its upper bits are also poor for short strings.
pub fn fnv_64(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        for (text, short, long) in [
            ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
            ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
        ] {
            assert_eq!((fnv_32(text.as_bytes()), fnv_64(text.as_bytes())), (short, long), "{text:?}");
        }
    }
}
