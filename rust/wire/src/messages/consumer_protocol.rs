//! What consumers send each other through the coordinator: subscriptions within JoinGroup, assignments within
//! SyncGroup, each behind its version. Coordinators do not look inside.
//!
//! 1 has the partitions that a member owns, for cooperative rebalances (KIP-429); 2 the generation of which it owns
//! them (KIP-792); 3 its rack (KIP-881).

use bytes::{BufMut, Bytes};

use super::types::{Cx, Wire};
use super::{DecodeError, DecodeErrorKind, EncodeError, Message, Out, Reader};

message_of_api!(ConsumerProtocolSubscription, ConsumerProtocolSubscription, 0, 3, 99);
message_of_api!(ConsumerProtocolAssignment, ConsumerProtocolAssignment, 0, 3, 99);
message_of_api!(StickyUserData, StickyUserData, 0, 1, 99);

messages! {
    /// What a member wants and has.
    struct ConsumerProtocolSubscription {
        topics: Vec<String> => 0..;
        user_data: Option<Bytes> => 0..;
        owned_partitions: Vec<TopicPartition> => 1.., [ignorable];
        generation_id: i32 = -1 => 2.., [ignorable];
        rack_id: Option<String> => 3.., [ignorable];
    }

    /// What a member is given.
    struct ConsumerProtocolAssignment {
        assigned_partitions: Vec<TopicPartition> => 0..;
        user_data: Option<Bytes> => 0..;
    }

    /// What Java's "sticky" adds to a subscription as user data, without a version: what the member had before.
    struct StickyUserData {
        previous_assignment: Vec<TopicPartition> => 0..;
        generation: i32 = -1 => 1..;
    }

    /// Partitions of a topic.
    struct TopicPartition {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}

/// The version that we write; Java writes it too since 3.5.
const NEWEST: i16 = 3;

impl ConsumerProtocolSubscription {
    /// Version and subscription.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        with_version(self)
    }

    /// The subscription behind its version, whichever that is.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let (version, body) = split_version("ConsumerProtocolSubscription", bytes)?;
        let error = match Self::decode(version, &mut body.clone()) {
            Ok(subscription) => return Ok(subscription),
            Err(error) => error,
        };
        // Some old clients say 1 and send 0: nothing at all is left where the owned partitions should be.
        let mut input = body;
        match Self::decode(0, &mut input) {
            Ok(subscription) if version == 1 && input.remaining() == 0 => Ok(subscription),
            _ => Err(error),
        }
    }
}

impl ConsumerProtocolAssignment {
    /// Version and assignment.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        with_version(self)
    }

    /// The assignment behind its version, whichever that is.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let (version, mut body) = split_version("ConsumerProtocolAssignment", bytes)?;
        Self::decode(version, &mut body)
    }
}

impl StickyUserData {
    /// Partitions and generation.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let mut out = Out::new();
        self.encode(1, &mut out)?;
        Ok(out.freeze())
    }

    /// The inverse; of members before Kafka 2.3 there is no generation.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let read = |version| Self::decode(version, &mut Reader::new(bytes.clone()));
        read(1).or_else(|_| read(0))
    }
}

fn with_version(message: &impl Message) -> Result<Bytes, EncodeError> {
    let mut out = Out::new();
    out.put_i16(NEWEST);
    message.encode(NEWEST, &mut out)?;
    Ok(out.freeze())
}

/// The version to read with, and a reader behind it. Versions to come only add fields at the end, so they are read as
/// the newest one that is known, and what follows is left.
fn split_version(name: &'static str, bytes: Bytes) -> Result<(i16, Reader), DecodeError> {
    let mut input = Reader::new(bytes);
    let version = i16::read(Cx::PLAIN, &mut input).map_err(|e| e.within(name))?;
    if version < 0 {
        return Err(input.error(DecodeErrorKind::Version { version, min: 0, max: NEWEST }).within(name));
    }
    Ok((version.min(NEWEST), input))
}
