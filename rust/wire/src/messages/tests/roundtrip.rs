//! Tests of round trips through the wire format and JSON.

use super::*;
use crate::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use proptest::prelude::*;

struct RoundTrip(u64);

impl Check for RoundTrip {
    fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, flexible: i16, versions: RangeInclusive<i16>) {
        for version in versions {
            let message: M = sample(version, flexible, self.0);
            let bytes = message.bytes(version);
            let back =
                M::from_bytes_exact(version, &bytes).unwrap_or_else(|e| panic!("{api:?} {kind:?} v{version}: {e}"));
            assert_eq!(back, message, "{api:?} {kind:?} v{version}");
            let json = message.to_json(version);
            assert_eq!(M::from_json(version, &json).as_ref(), Ok(&message), "{api:?} {kind:?} v{version}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn all_messages_round_trip_in_all_versions(seed in any::<u64>()) {
        check_all(&mut RoundTrip(seed));
    }
}

/// A default must be encodable in all versions, because callers build requests before they know the version.
#[test]
fn defaults_are_encodable_in_all_versions() {
    struct Defaults(usize, usize);
    impl Check for Defaults {
        fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, _: i16, versions: RangeInclusive<i16>) {
            for version in versions {
                match M::default().encode(version, &mut MessageBuf::new()) {
                    Ok(()) => {
                        let bytes = M::default().bytes(version);
                        assert_eq!(
                            M::from_bytes_exact(version, &bytes).unwrap(),
                            M::default(),
                            "{api:?} {kind:?} v{version}"
                        );
                        self.0 += 1;
                    }
                    // Some defaults are null, which old versions do not allow.
                    Err(EncodeError::Null { .. }) => self.1 += 1,
                    Err(error) => panic!("{api:?} {kind:?} v{version}: {error}"),
                }
            }
        }
    }
    let mut check = Defaults(0, 0);
    check_all(&mut check);
    assert!(check.0 > 200 && check.1 < 20, "{} sent, {} null", check.0, check.1);
}

fn commit(timestamp: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition { commit_timestamp: timestamp, ..Default::default() };
    let topic = OffsetCommitRequestTopic { partitions: vec![partition], ..Default::default() };
    OffsetCommitRequest { topics: vec![topic], ..Default::default() }
}

#[test]
fn rejects_value_of_field_absent_in_version() {
    let encode = |request: OffsetCommitRequest, version| request.encode(version, &mut MessageBuf::new());
    assert_eq!(encode(commit(5), 1), Ok(()));
    for version in [0, 2, 10] {
        let field = "OffsetCommitRequestPartition.commit_timestamp";
        assert_eq!(encode(commit(5), version), Err(EncodeError::FieldAbsent { field, version }));
        assert_eq!(encode(commit(-1), version), Ok(()));
    }
    // member_id is ignorable, so version 0 omits it.
    assert_eq!(encode(OffsetCommitRequest { member_id: "m".into(), ..Default::default() }, 0), Ok(()));
}

#[test]
fn rejects_too_long_strings_in_all_versions() {
    let encode = |length: usize, version| {
        let metadata = Some("x".repeat(length));
        let partition = OffsetCommitRequestPartition { committed_metadata: metadata, ..Default::default() };
        let topic = OffsetCommitRequestTopic { partitions: vec![partition], ..Default::default() };
        let request = OffsetCommitRequest { topics: vec![topic], ..Default::default() };
        request.encode(version, &mut MessageBuf::new())
    };
    // Version 8 is the first with compact strings.
    for version in [1, 7, 8, OffsetCommitRequest::MAX_VERSION] {
        assert_eq!(encode(32_767, version), Ok(()));
        let text = encode(32_768, version).unwrap_err().to_string();
        assert!(text.contains("OffsetCommitRequestPartition.committed_metadata has 32768 bytes"), "{text}");
    }
}

#[test]
fn rejects_null_in_non_nullable_versions() {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let error = request.encode(0, &mut MessageBuf::new()).unwrap_err();
    assert_eq!(error.to_string(), "MetadataRequest.topics cannot be null in version 0");
    let error = MetadataRequest::from_bytes_exact(0, &Bytes::from_static(&[255; 4])).unwrap_err();
    assert_eq!(error.to_string(), "Metadata version 0, MetadataRequest.topics at byte 4: null is not allowed here");
    assert_eq!(MetadataRequest::from_bytes_exact(1, &Bytes::from_static(&[255; 4])).unwrap(), request);
}

#[test]
fn rejects_unknown_versions() {
    for version in [-1, 11, i16::MAX] {
        let error = commit(-1).encode(version, &mut MessageBuf::new()).unwrap_err();
        assert_eq!(error.to_string(), format!("OffsetCommit has versions 0 to 10, not {version}"));
        let error = OffsetCommitRequest::from_bytes_exact(version, &Bytes::new()).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Version { version, min: 0, max: 10 });
    }
}

#[test]
fn unknown_tagged_fields_are_preserved_in_order() {
    let tags = vec![(7, Bytes::from_static(b"seven")), (300, Bytes::new())];
    let request = HeartbeatRequest { unknown_tagged_fields: tags.clone(), ..Default::default() };
    let bytes = request.bytes(4);
    assert_eq!(HeartbeatRequest::from_bytes_exact(4, &bytes).unwrap().unknown_tagged_fields, tags);
    // An empty group id, a generation, an empty member id, a null instance id, and two tagged fields: tag 7 with five
    // bytes, and tag 300 with none.
    assert_eq!(&bytes[..], b"\x01\0\0\0\0\x01\0\x02\x07\x05seven\xac\x02\0");
}

#[test]
fn rejects_json_of_other_messages() {
    let refused = |text: &str| {
        let json = serde_json::from_str(text).unwrap();
        OffsetCommitRequest::from_json(10, &json).unwrap_err().to_string()
    };
    assert_eq!(refused(r#"{"groupID": "g"}"#), "OffsetCommitRequest: there is no field groupID");
    assert_eq!(refused(r#"{"groupId": null}"#), "OffsetCommitRequest.group_id: expected text, found null");
    assert_eq!(refused("[]"), "OffsetCommitRequest: expected an object, found []");
    let topic = |id: &str| format!(r#"{{"topics": [{{"topicId": "{id}"}}]}}"#);
    assert!(refused(&topic("AAAA")).starts_with("OffsetCommitRequestTopic.topic_id: expected a UUID"));
    let json = serde_json::from_str(&topic("AAAAAAAAAAAAAAAAAAAAAQ")).unwrap();
    let id = OffsetCommitRequest::from_json(10, &json).unwrap().topics[0].topic_id;
    assert_eq!(id.0, 1u128.to_be_bytes());
}
