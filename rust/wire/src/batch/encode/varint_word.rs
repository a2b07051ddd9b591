//! Varints encoded in registers.

/// A varint encoded in a register. Storing bytes one by one and then loading them as a word would stall the processor.
#[derive(Clone, Copy)]
pub(super) struct VarintWord {
    bytes: u64,
    /// The ninth and tenth byte of the encoding.
    more: u16,
    size: u32,
}

impl VarintWord {
    pub(super) const NONE: VarintWord = VarintWord { bytes: 0, more: 0, size: 0 };
    pub(super) const ZERO: VarintWord = VarintWord { bytes: 0, more: 0, size: 1 };

    #[inline(always)]
    pub(super) fn new(raw: u64) -> VarintWord {
        if raw < 1 << 7 {
            return VarintWord { bytes: raw, more: 0, size: 1 };
        }
        if raw < 1 << 14 {
            let bytes = (raw & 0x7f) | 0x80 | (raw >> 7) << 8;
            return VarintWord { bytes, more: 0, size: 2 };
        }
        if raw < 1 << 21 {
            let bytes = (raw & 0x7f) | 0x80 | (((raw >> 7) & 0x7f) | 0x80) << 8 | (raw >> 14) << 16;
            return VarintWord { bytes, more: 0, size: 3 };
        }
        VarintWord::long(raw)
    }

    #[cold]
    #[inline(never)]
    fn long(mut raw: u64) -> VarintWord {
        let (mut bytes, mut size) = (0u128, 0);
        while raw >= 0x80 {
            bytes |= u128::from(raw as u8 | 0x80) << (8 * size);
            size += 1;
            raw >>= 7;
        }
        bytes |= u128::from(raw) << (8 * size);
        VarintWord { bytes: bytes as u64, more: (bytes >> 64) as u16, size: size + 1 }
    }

    /// Returns the number of encoded bytes.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        self.size as usize
    }

    /// Concatenates two varints with at most 8 bytes in total.
    #[inline(always)]
    pub(super) fn then(self, next: VarintWord) -> VarintWord {
        VarintWord { bytes: self.bytes | next.bytes << ((8 * self.size) & 63), more: 0, size: self.size + next.size }
    }

    /// Returns the first eight bytes of the encoding.
    #[inline(always)]
    pub(super) fn low(self) -> u64 {
        self.bytes
    }

    /// Encodes the length of a bytes field; `None` is encoded as the length of a null field.
    #[inline(always)]
    pub(super) fn of_len(len: Option<usize>) -> VarintWord {
        len.map_or(VarintWord { bytes: 1, more: 0, size: 1 }, |len| VarintWord::new((len as u64) << 1))
    }
}

/// Appends varints. The copies have a fixed size, and the output is then truncated to the encoded size. This is faster
/// than copies of a variable size.
#[inline(always)]
pub(super) fn write_varints<const N: usize>(out: &mut Vec<u8>, parts: &[VarintWord; N]) {
    let size: u32 = parts.iter().map(|part| part.size).sum();
    let end = out.len() + size as usize;
    if size <= 8 {
        let (mut word, mut shift) = (0, 0);
        for part in parts {
            word |= part.bytes << shift;
            shift = (shift + 8 * part.size) & 63;
        }
        out.extend_from_slice(&u64::to_le_bytes(word));
    } else {
        for part in parts {
            let start = out.len();
            out.extend_from_slice(&part.bytes.to_le_bytes());
            out.extend_from_slice(&part.more.to_le_bytes());
            out.truncate(start + part.size as usize);
        }
    }
    out.truncate(end);
}

/// Appends two varints of up to 8 bytes each in one copy.
#[inline(always)]
pub(super) fn write_word(out: &mut Vec<u8>, first: VarintWord, second: VarintWord) {
    let end = out.len() + first.size() + second.size();
    let word = u128::from(first.bytes) | u128::from(second.bytes) << ((8 * first.size) & 127);
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

#[inline(always)]
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1) as u64 ^ (value >> 63) as u64
}
