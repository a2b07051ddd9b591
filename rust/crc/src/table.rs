//! Table-driven implementation that processes eight bytes at a time. It is used for short data, and on processors
//! without the required instructions.

use crate::polynomial::{CASTAGNOLI, IEEE, times_x};

/// Table `n` has the register for each byte that is followed by `n` more bytes.
type Tables = [[u32; 256]; 8];

static OF_CASTAGNOLI: Tables = tables(CASTAGNOLI);
static OF_IEEE: Tables = tables(IEEE);

#[allow(clippy::indexing_slicing, reason = "constants")]
const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut table = 0;
        while table < 8 {
            let mut bit = 0;
            while bit < 8 {
                register = times_x(polynomial, register);
                bit += 1;
            }
            tables[table][byte] = register;
            table += 1;
        }
        byte += 1;
    }
    tables
}

pub(crate) fn update<const POLYNOMIAL: u32>(mut register: u32, data: &[u8]) -> u32 {
    let tables = if POLYNOMIAL == CASTAGNOLI { &OF_CASTAGNOLI } else { &OF_IEEE };
    let [last, ..] = tables;
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(register);
        register = 0;
        for (byte, table) in mixed.to_le_bytes().into_iter().zip(tables.iter().rev()) {
            register ^= table[usize::from(byte)];
        }
    }
    for byte in rest {
        register = last[usize::from(register as u8 ^ byte)] ^ (register >> 8);
    }
    register
}
