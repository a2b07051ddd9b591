//! Tests of all four kinds of varints: round trips, truncation, and arbitrary bytes.

use proptest::prelude::*;
use samsarrow_wire::varint::*;

/// Returns the decoded number and its length in bytes.
fn read(kind: &str, input: &[u8]) -> Result<(i128, usize), VarintError> {
    Ok(match kind {
        "varint" => read_varint(input).map(|(value, len)| (value.into(), len))?,
        "varlong" => read_varlong(input).map(|(value, len)| (value.into(), len))?,
        "unsignedVarint" => read_unsigned_varint(input).map(|(value, len)| (value.into(), len))?,
        "unsignedVarlong" => read_unsigned_varlong(input).map(|(value, len)| (value.into(), len))?,
        other => panic!("kind {other}"),
    })
}

fn written(kind: &str, value: i128) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let size = match kind {
        "varint" => {
            let value = value.try_into().unwrap();
            put_varint(&mut out, value);
            size_of_varint(value)
        }
        "varlong" => {
            let value = value.try_into().unwrap();
            put_varlong(&mut out, value);
            size_of_varlong(value)
        }
        "unsignedVarint" => {
            let value = value.try_into().unwrap();
            put_unsigned_varint(&mut out, value);
            size_of_unsigned_varint(value)
        }
        "unsignedVarlong" => {
            let value = value.try_into().unwrap();
            put_unsigned_varlong(&mut out, value);
            size_of_unsigned_varlong(value)
        }
        other => panic!("kind {other}"),
    };
    (out, size)
}

const KINDS: [&str; 4] = ["varint", "varlong", "unsignedVarint", "unsignedVarlong"];

fn narrowed(kind: &str, value: i64) -> i128 {
    match kind {
        "varint" => (value as i32).into(),
        "varlong" => value.into(),
        "unsignedVarint" => (value as u32).into(),
        _ => (value as u64).into(),
    }
}

proptest! {
    #[test]
    fn round_trip(value in any::<i64>(), shift in 0u32..64, tail in prop::collection::vec(any::<u8>(), 0..3)) {
        for kind in KINDS {
            let value = narrowed(kind, value >> shift);
            let (mut out, size) = written(kind, value);
            prop_assert_eq!(out.len(), size);
            for len in 0..size {
                prop_assert_eq!(read(kind, &out[..len]), Err(VarintError));
            }
            out.extend_from_slice(&tail);
            prop_assert_eq!(read(kind, &out), Ok((value, size)));
        }
    }

    #[test]
    fn arbitrary_varints_are_read_within_bounds(input in prop::collection::vec(any::<u8>(), 0..12)) {
        for kind in KINDS {
            if let Ok((value, len)) = read(kind, &input) {
                prop_assert!(len <= input.len());
                prop_assert!(written(kind, value).0.len() <= len);
            }
        }
    }
}
