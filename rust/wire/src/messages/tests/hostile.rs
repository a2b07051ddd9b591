//! Tests with invalid bytes: decoding must return an error or another message, must not panic, and must not use more
//! memory than the limit.

use super::*;
use crate::messages::find_coordinator::Coordinator;

/// Messages are decoded front to back, so a prefix is always incomplete.
#[test]
fn rejects_truncated_messages() {
    struct Prefixes(usize);
    impl Check for Prefixes {
        fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, flexible: i16, versions: RangeInclusive<i16>) {
            for version in versions {
                for seed in 0..4 {
                    let bytes = sample::<M>(version, flexible, seed).bytes(version);
                    for end in 0..bytes.len() {
                        let result = M::from_bytes_exact(version, &bytes.slice(..end));
                        let error = result.expect_err(&format!("{api:?} {kind:?} v{version} {seed}: {end} bytes"));
                        assert!(error.at <= end, "{error}");
                        assert_eq!(error.message, Some((api.name(), version)));
                        assert!(!error.field.is_empty(), "{error}");
                        self.0 += 1;
                    }
                }
            }
        }
    }
    let mut check = Prefixes(0);
    check_all(&mut check);
    eprintln!("{} prefixes were errors", check.0);
    assert!(check.0 > 50_000, "only {} prefixes", check.0);
}

/// A mutated message may still be valid. It must then be encodable.
#[test]
fn single_byte_mutations_are_errors_or_valid() {
    struct Mutations {
        errors: usize,
        messages: usize,
    }
    impl Check for Mutations {
        fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, flexible: i16, versions: RangeInclusive<i16>) {
            for version in versions {
                let mut random = Random::new(version as u64);
                for seed in 0..8 {
                    let bytes = sample::<M>(version, flexible, seed).bytes(version);
                    for _ in 0..60.min(bytes.len() * 255) {
                        let mut mutated = bytes.to_vec();
                        let at = random.below(mutated.len() as u64) as usize;
                        mutated[at] ^= 1 + random.below(255) as u8;
                        match M::from_bytes_exact(version, &mutated.into()) {
                            Err(_) => self.errors += 1,
                            Ok(message) => {
                                let back = M::from_bytes_exact(version, &message.bytes(version));
                                assert_eq!(back.as_ref(), Ok(&message), "{api:?} {kind:?} v{version}");
                                self.messages += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    let mut check = Mutations { errors: 0, messages: 0 };
    check_all(&mut check);
    eprintln!("{} mutations were errors, {} other messages", check.errors, check.messages);
    assert!(check.errors + check.messages > 100_000 && check.errors > 10_000 && check.messages > 10_000);
}

#[test]
fn rejects_count_beyond_remaining_bytes() {
    let classic = |count: i32| Bytes::from(count.to_be_bytes().to_vec());
    let error = MetadataRequest::from_bytes_exact(1, &classic(i32::MAX)).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Count { count: i64::from(i32::MAX), left: 0 });
    let error = MetadataRequest::from_bytes_exact(1, &classic(-2)).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Length(-2));
    let compact = Bytes::from_static(b"\xff\xff\xff\xff\x0f\0");
    let error = MetadataRequest::from_bytes_exact(9, &compact).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Count { count: 0xffff_fffe, left: 1 });
    let text = Bytes::from_static(b"\x7f\xff");
    let error = HeartbeatRequest::from_bytes_exact(0, &text).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Truncated { needed: 0x7fff, left: 0 });
    // An empty group id, a generation, an empty member id, a null instance id, and the number of tagged fields.
    let tags = Bytes::from_static(b"\x01\0\0\0\0\x01\0\xff\xff\xff\xff\x0f");
    let error = HeartbeatRequest::from_bytes_exact(4, &tags).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Count { count: 0xffff_ffff, left: 0 });
}

/// A key has one byte on the wire and 24 in memory, so even a valid count could turn a small frame into a large
/// message. The memory limit must prevent this.
#[test]
fn memory_is_bounded_by_frame_length() {
    let request =
        |keys: usize| FindCoordinatorRequest { coordinator_keys: vec![String::new(); keys], ..Default::default() };
    let few = request(10_000).bytes(4);
    assert_eq!(FindCoordinatorRequest::from_bytes_exact(4, &few).unwrap().coordinator_keys.len(), 10_000);
    let many = request(1_000_000).bytes(4);
    let error = FindCoordinatorRequest::from_bytes_exact(4, &many).unwrap_err();
    assert!(matches!(error.kind, DecodeErrorKind::Memory { .. }), "{error}");
    // The same number of keys with realistic contents is accepted.
    let key = Coordinator { key: "a group".into(), host: "broker-1.example.com".into(), ..Default::default() };
    let response = FindCoordinatorResponse { coordinators: vec![key; 100_000], ..Default::default() };
    assert_eq!(FindCoordinatorResponse::from_bytes_exact(4, &response.bytes(4)), Ok(response));
}

#[test]
fn varints_have_32_bits() {
    let varint = |bytes: &'static [u8]| Reader::new(Bytes::from_static(bytes)).unsigned_varint();
    assert_eq!(varint(b"\xff\xff\xff\xff\x0f"), Ok(u32::MAX));
    assert_eq!(varint(b"\x80\x80\x80\x80\x08"), Ok(1 << 31));
    for bad in [&b"\xff\xff\xff\xff\x10"[..], b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x00"] {
        assert_eq!(varint(bad).unwrap_err().kind, DecodeErrorKind::Varint);
    }
    assert_eq!(varint(b"\x80").unwrap_err().kind, DecodeErrorKind::Truncated { needed: 1, left: 0 });
}

#[test]
fn a_tagged_field_must_fill_its_bytes() {
    let response = ApiVersionsResponse { finalized_features_epoch: 3, ..Default::default() };
    let mut bytes = response.bytes(3).to_vec();
    // The bytes end with one tagged field, whose tag is 1 and whose length is 8.
    let length = bytes.len() - 9;
    assert_eq!(bytes[length - 2..=length], [1, 1, 8]);
    bytes[length] = 9;
    bytes.push(0);
    let error = ApiVersionsResponse::from_bytes_exact(3, &bytes.into()).unwrap_err();
    let expected = "ApiVersions version 3, ApiVersionsResponse.finalized_features_epoch at byte 18: \
                  1 bytes are left over after the message";
    assert_eq!(error.to_string(), expected);
}
