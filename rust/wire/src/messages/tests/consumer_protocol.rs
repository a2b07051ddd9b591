//! Tests of subscriptions in JoinGroup and assignments in SyncGroup.

use kafka_protocol::messages as theirs;
use proptest::prelude::*;

use super::oracle::agree;
use super::*;
use crate::messages::consumer_protocol::TopicPartition;

fn owned(topic: &str, partitions: &[i32]) -> TopicPartition {
    TopicPartition { topic: topic.into(), partitions: partitions.into(), ..Default::default() }
}

fn subscription() -> ConsumerProtocolSubscription {
    ConsumerProtocolSubscription {
        topics: vec!["t".into()],
        user_data: Some(Bytes::from_static(b"u")),
        owned_partitions: vec![owned("t", &[5])],
        generation_id: 7,
        rack_id: Some("r".into()),
        ..Default::default()
    }
}

const V0: &[u8] = b"\0\0\0\x01\0\x01t\0\0\0\x01u";
const OWNED: &[u8] = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x05";

fn of_parts(parts: &[&[u8]]) -> Result<ConsumerProtocolSubscription, DecodeError> {
    ConsumerProtocolSubscription::from_bytes(parts.concat().into())
}

#[test]
fn kafka_protocol_agrees_on_consumer_protocol() {
    // Subscriptions and assignments are no messages of an API; the API key only labels failures.
    type Subscription = ConsumerProtocolSubscription;
    type Assignment = ConsumerProtocolAssignment;
    assert_eq!(agree::<Subscription, theirs::ConsumerProtocolSubscription>(ApiKey::JoinGroup, 99, 3), 4);
    assert_eq!(agree::<Assignment, theirs::ConsumerProtocolAssignment>(ApiKey::SyncGroup, 99, 3), 4);
}

#[test]
fn decodes_every_subscription_version() {
    let newest = subscription();
    assert_eq!(newest.to_bytes().unwrap(), [b"\0\x03", V0, OWNED, b"\0\0\0\x07\0\x01r"].concat());
    assert_eq!(of_parts(&[b"\0\x03", V0, OWNED, b"\0\0\0\x07\0\x01r"]).as_ref(), Ok(&newest));
    let v2 = ConsumerProtocolSubscription { rack_id: None, ..newest.clone() };
    assert_eq!(of_parts(&[b"\0\x02", V0, OWNED, b"\0\0\0\x07"]).as_ref(), Ok(&v2));
    let v1 = ConsumerProtocolSubscription { generation_id: -1, ..v2 };
    assert_eq!(of_parts(&[b"\0\x01", V0, OWNED]).as_ref(), Ok(&v1));
    let v0 = ConsumerProtocolSubscription { owned_partitions: Vec::new(), ..v1 };
    assert_eq!(of_parts(&[b"\0\0", V0]).as_ref(), Ok(&v0));
    // Some clients write version 1 but send the fields of version 0.
    assert_eq!(of_parts(&[b"\0\x01", V0]).as_ref(), Ok(&v0));
    assert!(of_parts(&[b"\0\x02", V0]).is_err() && of_parts(&[b"\0\x01", V0, b"\0"]).is_err());
}

#[test]
fn decodes_known_fields_of_newer_versions() {
    let newer = of_parts(&[b"\0\x09", V0, OWNED, b"\0\0\0\x07\0\x01r", b"what is to come"]);
    assert_eq!(newer, Ok(subscription()));
    let assignment = ConsumerProtocolAssignment { assigned_partitions: vec![owned("t", &[5])], ..Default::default() };
    let bytes = [b"\x7f\xff", OWNED, b"\xff\xff\xff\xff", b"more"].concat();
    assert_eq!(ConsumerProtocolAssignment::from_bytes(bytes.into()).as_ref(), Ok(&assignment));
    assert_eq!(assignment.to_bytes().unwrap(), [b"\0\x03", OWNED, b"\xff\xff\xff\xff"].concat());
}

#[test]
fn sticky_user_data_has_generation_since_2_3() {
    let data = StickyUserData { previous_assignment: vec![owned("t", &[5])], generation: 7, ..Default::default() };
    let bytes = Bytes::from([OWNED, b"\0\0\0\x07"].concat());
    assert_eq!(data.to_bytes().unwrap(), bytes);
    assert_eq!(StickyUserData::from_bytes(&bytes).as_ref(), Ok(&data));
    let old = StickyUserData { generation: -1, ..data };
    assert_eq!(StickyUserData::from_bytes(&Bytes::from_static(OWNED)), Ok(old));
    assert!(StickyUserData::from_bytes(&bytes.slice(..9)).is_err());
}

#[test]
fn rejects_invalid_subscriptions() {
    let error = of_parts(&[b"\xff\xff", V0]).unwrap_err();
    let expected = "ConsumerProtocolSubscription at byte 2: version -1 is unknown, 0 to 3 are known";
    assert_eq!(error.to_string(), expected);
    let bytes = subscription().to_bytes().unwrap();
    for end in 0..bytes.len() {
        let error = ConsumerProtocolSubscription::from_bytes(bytes.slice(..end)).unwrap_err();
        assert!(error.at <= end && !error.field.is_empty(), "{error}");
    }
    let error = of_parts(&[b"\0\0\x7f\xff\xff\xff"]).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Count { count: 0x7fff_ffff, left: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn subscriptions_and_assignments_round_trip(seed in any::<u64>()) {
        let subscription: ConsumerProtocolSubscription = sample(3, 99, seed);
        let back = ConsumerProtocolSubscription::from_bytes(subscription.to_bytes().unwrap());
        prop_assert_eq!(back.as_ref(), Ok(&subscription));
        let json = ConsumerProtocolSubscription::from_json(3, &subscription.to_json(3));
        prop_assert_eq!(json, Ok(subscription));
        let assignment: ConsumerProtocolAssignment = sample(3, 99, seed);
        let back = ConsumerProtocolAssignment::from_bytes(assignment.to_bytes().unwrap());
        prop_assert_eq!(back, Ok(assignment));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..60)) {
        let _ = ConsumerProtocolSubscription::from_bytes(bytes.clone().into());
        let _ = ConsumerProtocolAssignment::from_bytes(bytes.into());
    }
}
