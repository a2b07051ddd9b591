//! Encoding of subscriptions, assignments and the sticky assignors' user data.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use samsarrow_wire::messages::consumer_protocol::TopicPartition as WireTopicPartition;
use samsarrow_wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, EncodeError, StickyUserData};

use super::Subscription;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

impl Subscription {
    /// Encodes the subscription for JoinGroup. Like in Java, topics are sorted by name, and partitions by topic and
    /// number.
    pub fn encode(&self) -> Bytes {
        let mut topics: Vec<String> = self.topics.iter().filter(|topic| is_encodable(topic)).cloned().collect();
        topics.sort_unstable();
        let message = ConsumerProtocolSubscription {
            topics,
            user_data: self.user_data.clone(),
            owned_partitions: by_topic(&self.owned),
            generation_id: self.generation.unwrap_or(-1),
            rack_id: self.rack.clone().filter(|rack| is_encodable(rack)),
            ..ConsumerProtocolSubscription::default()
        };
        bytes(message.to_bytes())
    }

    /// Decodes the subscription of a member. The instance id is not part of the encoding.
    pub fn decode(bytes: Bytes) -> Result<Subscription> {
        let message = ConsumerProtocolSubscription::from_bytes(bytes)
            .map_err(|error| Error::corrupt(format!("the subscription of a member cannot be read: {error}")))?;
        Ok(Subscription {
            topics: message.topics,
            user_data: message.user_data,
            owned: flatten(message.owned_partitions),
            generation: Some(message.generation_id).filter(|generation| *generation >= 0),
            rack: message.rack_id.filter(|rack| !rack.is_empty()),
            instance_id: None,
        })
    }
}

/// Encodes an assignment for SyncGroup.
pub fn encode_assignment(partitions: &[TopicPartition], user_data: Option<Bytes>) -> Bytes {
    let assigned_partitions = by_topic(partitions);
    bytes(ConsumerProtocolAssignment { assigned_partitions, user_data, ..Default::default() }.to_bytes())
}

/// Decodes the partitions and user data of an assignment. Empty bytes are decoded as an empty assignment.
pub fn decode_assignment(bytes: Bytes) -> Result<(Vec<TopicPartition>, Option<Bytes>)> {
    if bytes.is_empty() {
        return Ok((Vec::new(), None));
    }
    let message = ConsumerProtocolAssignment::from_bytes(bytes)
        .map_err(|error| Error::corrupt(format!("the assignment from the group's leader cannot be read: {error}")))?;
    Ok((flatten(message.assigned_partitions), message.user_data))
}

/// Encodes the user data of "sticky": the previous partitions and their generation. Owned partitions in the
/// subscription do not suffice, because eager members own none when they join.
pub(super) fn encode_previous(partitions: &[TopicPartition], generation: i32) -> Bytes {
    bytes(StickyUserData { previous_assignment: by_topic(partitions), generation, ..Default::default() }.to_bytes())
}

/// Decodes user data of "sticky", in which the generation is optional. Returns `None` for invalid data.
pub(super) fn decode_previous(bytes: &Bytes) -> Option<(Vec<TopicPartition>, Option<i32>)> {
    let data = StickyUserData::from_bytes(bytes).ok()?;
    Some((flatten(data.previous_assignment), Some(data.generation).filter(|generation| *generation >= 0)))
}

/// Encodes the user data of "cooperative-sticky", for leaders that do not read the generation of the subscription.
pub(super) fn encode_generation(generation: i32) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

/// Decodes user data of "cooperative-sticky".
pub(super) fn decode_generation(mut bytes: &[u8]) -> Option<i32> {
    bytes.try_get_i32().ok()
}

/// Returns true if a name is short enough to be encoded. Longer names are invalid and are omitted.
fn is_encodable(name: &str) -> bool {
    i16::try_from(name.len()).is_ok()
}

/// Groups partitions by topic. Topics and partition numbers are sorted.
fn by_topic(partitions: &[TopicPartition]) -> Vec<WireTopicPartition> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions.iter().filter(|partition| is_encodable(&partition.topic)) {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let wire_topic_partition = |(topic, mut partitions): (&str, Vec<i32>)| {
        partitions.sort_unstable();
        WireTopicPartition { topic: topic.to_owned(), partitions, ..WireTopicPartition::default() }
    };
    topics.into_iter().map(wire_topic_partition).collect()
}

fn flatten(topics: Vec<WireTopicPartition>) -> Vec<TopicPartition> {
    let partitions = |topic: WireTopicPartition| {
        let name: Arc<str> = topic.topic.into();
        topic.partitions.into_iter().map(move |partition| TopicPartition::new(Arc::clone(&name), partition))
    };
    topics.into_iter().flat_map(partitions).collect()
}

/// Returns the encoded bytes. Encoding can fail only for more than two billion elements, because long names are
/// omitted.
fn bytes(encoded: std::result::Result<Bytes, EncodeError>) -> Bytes {
    encoded.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(list: &[(&str, i32)]) -> Vec<TopicPartition> {
        list.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect()
    }

    #[test]
    fn subscription_round_trip() {
        let full = Subscription {
            topics: vec!["a".into(), "b".into()],
            user_data: Some(Bytes::from_static(b"u")),
            owned: partitions(&[("a", 0), ("a", 3), ("b", 1)]),
            generation: Some(4),
            rack: Some("r".into()),
            instance_id: None,
        };
        assert_eq!(Subscription::decode(full.encode()), Ok(full.clone()));
        let empty = Subscription::default();
        assert_eq!(Subscription::decode(empty.encode()), Ok(empty));
        // The instance id is not encoded.
        let with_instance_id = Subscription { instance_id: Some("i".into()), ..full.clone() };
        assert_eq!(Subscription::decode(with_instance_id.encode()), Ok(full));
    }

    #[test]
    fn decodes_missing_generation_and_rack() {
        let explicit = Subscription { generation: Some(-1), rack: Some(String::new()), ..Subscription::default() };
        assert_eq!(Subscription::decode(explicit.encode()), Ok(Subscription::default()));
    }

    #[test]
    fn omits_topic_names_that_are_too_long() {
        let topics = vec!["a".into(), "x".repeat(40_000)];
        let subscription = Subscription { topics, ..Subscription::default() };
        assert_eq!(Subscription::decode(subscription.encode()).unwrap().topics, ["a"]);
    }

    #[test]
    fn assignment_round_trip_is_sorted() {
        let encoded = encode_assignment(&partitions(&[("b", 1), ("a", 2), ("b", 0)]), None);
        assert_eq!(decode_assignment(encoded), Ok((partitions(&[("a", 2), ("b", 0), ("b", 1)]), None)));
        assert_eq!(decode_assignment(Bytes::new()), Ok((Vec::new(), None)));
        let error = decode_assignment(Bytes::from_static(b"\0\x01\0\0")).unwrap_err();
        assert_eq!(error.name(), "CorruptRecordError");
        assert!(error.to_string().contains("assignment"), "{error}");
    }

    #[test]
    fn sticky_user_data_round_trip() {
        let owned = partitions(&[("a", 2), ("b", 0)]);
        assert_eq!(decode_previous(&encode_previous(&owned, 5)), Some((owned, Some(5))));
        assert_eq!(decode_previous(&Bytes::from_static(b"\0\0\0\0")), Some((Vec::new(), None)));
        assert_eq!(decode_previous(&Bytes::from_static(b"junk")), None);
        assert_eq!(decode_generation(&encode_generation(5)), Some(5));
        assert_eq!(decode_generation(b"abc"), None);
    }
}
