use proptest::prelude::*;

use crate::polynomial::times_x;
use crate::{CASTAGNOLI, IEEE, crc32, crc32c, table};

/// Computes the checksum by its definition, bit by bit.
fn bit_by_bit<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
    data.iter().fold(register, |register, byte| {
        (0..8).fold(register ^ u32::from(*byte), |register, _| times_x(POLYNOMIAL, register))
    })
}

/// Compares `update` with the definition, for all lengths around the sizes of vectors and blocks, and for all
/// alignments.
pub(crate) fn same_as_bit_by_bit<const POLYNOMIAL: u32>(update: impl Fn(u32, &[u8]) -> u32) {
    let mut random = 1u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    })
    .take(60_000)
    .collect();
    let mut expected = !0;
    for (len, byte) in bytes.iter().enumerate() {
        // The block sizes are 104 and 192 bytes, multiplied by 2, 16 and 120.
        let at_an_edge = [104, 192, 1_664, 3_072, 12_480, 23_040].iter().any(|block| len % block < 2);
        if len < 1_200 || at_an_edge {
            assert_eq!(update(!0, &bytes[..len]), expected, "{len} bytes");
        }
        expected = bit_by_bit::<POLYNOMIAL>(expected, &[*byte]);
    }
    for start in 0..64 {
        let data = &bytes[start..start + 20_000];
        assert_eq!(update(start as u32, data), bit_by_bit::<POLYNOMIAL>(start as u32, data), "from byte {start}");
    }
}

#[test]
fn published_values() {
    // https://reveng.sourceforge.io/crc-catalogue/17plus.htm
    assert_eq!((crc32c(b"123456789"), crc32(b"123456789")), (0xe306_9283, 0xcbf4_3926));
    assert_eq!((crc32c(b""), crc32(b"")), (0, 0));
    // RFC 3720, B.4.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
}

#[test]
fn table_matches_the_definition() {
    same_as_bit_by_bit::<CASTAGNOLI>(table::update::<CASTAGNOLI>);
    same_as_bit_by_bit::<IEEE>(table::update::<IEEE>);
}

#[test]
fn update_matches_the_definition() {
    same_as_bit_by_bit::<CASTAGNOLI>(crate::update::<CASTAGNOLI>);
    same_as_bit_by_bit::<IEEE>(crate::update::<IEEE>);
}

proptest! {
    #[test]
    fn agrees_with_other_crates(data in proptest::collection::vec(any::<u8>(), 0..5_000)) {
        prop_assert_eq!(crc32c(&data), ::crc32c::crc32c(&data));
        prop_assert_eq!(crc32(&data), crc_fast::crc32_iso_hdlc(&data));
    }
}
