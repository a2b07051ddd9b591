//! Search for bytes that end a run of plain text, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns the number of bytes before the first quote, backslash or control character below 0x20: all bytes if there is
/// none.
#[inline]
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    words.len() * 8 + tail.iter().position(is_special).unwrap_or(tail.len())
}

/// Returns a word whose lowest set bit is in the first special byte, in the order of memory. Higher bits may be set for
/// other bytes, because a subtraction borrows from the next byte only after a match.
#[inline]
fn special(word: u64) -> u64 {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expected(bytes: &[u8]) -> usize {
        bytes.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\').unwrap_or(bytes.len())
    }

    #[test]
    fn finds_each_byte_at_each_position() {
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                for around in [b'a', 0x20, 0x7f, 0x80, 0xff, b'!', b'#', b'['] {
                    let mut bytes = [around; 20];
                    bytes[at] = byte;
                    assert_eq!(plain_prefix(&bytes), expected(&bytes), "{byte} at {at} among {around}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_search_byte_by_byte(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(plain_prefix(&bytes), expected(&bytes));
        }
    }
}
