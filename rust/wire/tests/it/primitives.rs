//! Tests of varints, CRC-32C and murmur2 with expected results from other clients' test suites.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports skipped tests")]
use std::path::PathBuf;

use proptest::prelude::*;
use samsarrow_wire::crc::crc32c;
use samsarrow_wire::murmur2::{murmur2, partition};
use samsarrow_wire::varint::*;
use serde_json::Value;

fn cases(file: &str) -> Option<Value> {
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        eprintln!("skipped: ../shared/conformance/{file} is not here (see SAMSARROW_CONFORMANCE)");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

/// Returns empty bytes for null, because librdkafka hashes a null key like an empty key.
fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[test]
fn varints_match_other_clients() {
    let Some(cases) = cases("varints.json") else { return };
    let (valid, invalid) = (cases["valid"].as_array().unwrap(), cases["invalid"].as_array().unwrap());
    for case in valid {
        let (bytes, value) = (unhex(&case["hex"]), &case["value"]);
        let mut out = Vec::new();
        let (size, read) = match case["kind"].as_str().unwrap() {
            "varint" => {
                let value = value.as_i64().unwrap() as i32;
                put_varint(&mut out, value);
                (size_of_varint(value), read_varint(&bytes) == Ok((value, bytes.len())))
            }
            "varlong" => {
                let value = value.as_i64().unwrap();
                put_varlong(&mut out, value);
                (size_of_varlong(value), read_varlong(&bytes) == Ok((value, bytes.len())))
            }
            _ => {
                let value = value.as_i64().unwrap() as u32;
                put_unsigned_varint(&mut out, value);
                (size_of_unsigned_varint(value), read_unsigned_varint(&bytes) == Ok((value, bytes.len())))
            }
        };
        assert!(read, "{case}");
        assert_eq!((&out, size), (&bytes, bytes.len()), "{case}");
        for len in 0..bytes.len() {
            assert!(read_varlong(&bytes[..len]).is_err() && read_varint(&bytes[..len]).is_err(), "{case} cut to {len}");
        }
    }
    for case in invalid {
        let bytes = unhex(&case["hex"]);
        let refused = match case["kind"].as_str().unwrap() {
            "varint" => read_varint(&bytes).is_err(),
            "varlong" => read_varlong(&bytes).is_err(),
            _ => read_unsigned_varint(&bytes).is_err(),
        };
        assert!(refused, "{case}");
    }
    println!("{} valid and {} invalid varints", valid.len(), invalid.len());
}

#[test]
fn checksums_match_other_clients() {
    let Some(cases) = cases("crc32c.json") else { return };
    let cases = cases.as_array().unwrap();
    for case in cases {
        assert_eq!(u64::from(crc32c(&unhex(&case["hex"]))), case["crc32c"].as_u64().unwrap(), "{}", case["name"]);
    }
    println!("{} checksums", cases.len());
}

#[test]
fn hashes_match_other_clients() {
    let Some(cases) = cases("murmur2.json") else { return };
    let (hashes, partitions) = (cases["murmur2"].as_array().unwrap(), cases["partition"].as_array().unwrap());
    for case in hashes {
        assert_eq!(
            u64::from(murmur2(&unhex(&case["key_hex"])) as u32),
            case["murmur2_u32"].as_u64().unwrap(),
            "{case}"
        );
    }
    for case in partitions {
        let count = case["partitions"].as_i64().unwrap() as i32;
        assert_eq!(
            i64::from(partition(&unhex(&case["key_hex"]), count)),
            case["partition"].as_i64().unwrap(),
            "{case}"
        );
    }
    println!("{} hashes, {} partitions", hashes.len(), partitions.len());
}

/// Computes the checksum bit by bit, which is slow but obviously correct.
fn crc32c_by_the_book(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1)))
    })
}

proptest! {
    #[test]
    fn random_checksums_match_bitwise_crc(data in prop::collection::vec(any::<u8>(), 0..5000), from in 0usize..64) {
        let data = data.get(from..).unwrap_or_default();
        prop_assert_eq!(crc32c(data), crc32c_by_the_book(data));
    }

    #[test]
    fn random_varints_round_trip(value in any::<i64>(), shift in 0u32..64) {
        let value = value >> shift;
        let mut out = Vec::new();
        put_varlong(&mut out, value);
        prop_assert_eq!(read_varlong(&out), Ok((value, size_of_varlong(value))));
        out.clear();
        put_varint(&mut out, value as i32);
        prop_assert_eq!(read_varint(&out), Ok((value as i32, size_of_varint(value as i32))));
        out.clear();
        put_unsigned_varint(&mut out, value as u32);
        prop_assert_eq!(read_unsigned_varint(&out), Ok((value as u32, size_of_unsigned_varint(value as u32))));
    }
}
