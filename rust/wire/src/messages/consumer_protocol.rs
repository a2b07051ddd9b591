//! Member metadata of the classic protocol: subscriptions in JoinGroup and assignments in SyncGroup. Each is preceded
//! by its version. Coordinators do not decode this data.
//!
//! v1 adds the owned partitions, for cooperative rebalances (KIP-429); v2 adds the generation in which the member owned
//! them (KIP-792); v3 adds the rack (KIP-881).

use bytes::{BufMut, Bytes};

use super::types::{Cx, Wire};
use super::{DecodeError, DecodeErrorKind, EncodeError, Message, MessageBuf, Reader};

message_of_api!(ConsumerProtocolSubscription, ConsumerProtocolSubscription, 0, 3, 99);
message_of_api!(ConsumerProtocolAssignment, ConsumerProtocolAssignment, 0, 3, 99);
message_of_api!(StickyUserData, StickyUserData, 0, 1, 99);

messages! {
    /// The topics that a member subscribes to, and the partitions that it owns.
    struct ConsumerProtocolSubscription {
        topics: Vec<String> => 0..;
        user_data: Option<Bytes> => 0..;
        owned_partitions: Vec<TopicPartition> => 1.., [ignorable];
        generation_id: i32 = -1 => 2.., [ignorable];
        rack_id: Option<String> => 3.., [ignorable];
    }

    /// The partitions assigned to a member.
    struct ConsumerProtocolAssignment {
        assigned_partitions: Vec<TopicPartition> => 0..;
        user_data: Option<Bytes> => 0..;
    }

    /// User data that Java's "sticky" assignor adds to a subscription: the member's previous assignment. It is not
    /// preceded by a version.
    struct StickyUserData {
        previous_assignment: Vec<TopicPartition> => 0..;
        generation: i32 = -1 => 1..;
    }

    /// Partitions of one topic that a member owns or is assigned.
    struct TopicPartition {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}

/// The version that is written. The Java client has written the same version since Kafka 3.5.
const NEWEST: i16 = 3;

impl ConsumerProtocolSubscription {
    /// Encodes the version and the subscription.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        with_version(self)
    }

    /// Decodes the version and a subscription of that version.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let (version, body) = split_version("ConsumerProtocolSubscription", bytes)?;
        let error = match Self::decode(version, &mut body.clone()) {
            Ok(subscription) => return Ok(subscription),
            Err(error) => error,
        };
        // Some old clients write version 1 but send the fields of version 0, without the owned partitions.
        let mut input = body;
        match Self::decode(0, &mut input) {
            Ok(subscription) if version == 1 && input.remaining() == 0 => Ok(subscription),
            _ => Err(error),
        }
    }
}

impl ConsumerProtocolAssignment {
    /// Encodes the version and the assignment.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        with_version(self)
    }

    /// Decodes the version and an assignment of that version.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let (version, mut body) = split_version("ConsumerProtocolAssignment", bytes)?;
        Self::decode(version, &mut body)
    }
}

impl StickyUserData {
    /// Encodes the partitions and the generation.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let mut out = MessageBuf::new();
        self.encode(1, &mut out)?;
        Ok(out.freeze())
    }

    /// Decodes user data. Members before Kafka 2.3 send no generation.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let read = |version| Self::decode(version, &mut Reader::new(bytes.clone()));
        read(1).or_else(|_| read(0))
    }
}

fn with_version(message: &impl Message) -> Result<Bytes, EncodeError> {
    let mut out = MessageBuf::new();
    out.put_i16(NEWEST);
    message.encode(NEWEST, &mut out)?;
    Ok(out.freeze())
}

/// Splits `bytes` into the version and the remaining bytes. Versions later than the newest known version only append
/// fields, so they are decoded as the newest known version and the appended bytes are ignored.
fn split_version(name: &'static str, bytes: Bytes) -> Result<(i16, Reader), DecodeError> {
    let mut input = Reader::new(bytes);
    let version = i16::read(Cx::PLAIN, &mut input).map_err(|e| e.within(name))?;
    if version < 0 {
        return Err(input.error(DecodeErrorKind::Version { version, min: 0, max: NEWEST }).within(name));
    }
    Ok((version.min(NEWEST), input))
}
