//! Table of all messages in all versions, for tests that cover every message.
use std::fmt::Debug;

use bytes::Bytes;

use crate::frame;
use crate::messages::arbitrary::{Arbitrary, Random};
use crate::messages::types::Cx;
use crate::messages::{self, ApiKey, DecodeError, EncodeError, Message, MessageBuf, Reader, Request};

/// A message of an API in one version.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub api: ApiKey,
    /// True for the response, false for the request.
    pub response: bool,
    pub version: i16,
    sample: fn(i16, u64) -> Result<Bytes, EncodeError>,
    decode: fn(i16, Bytes) -> Result<RoundTrip, DecodeError>,
    frame: fn(i16, Bytes) -> Result<(), DecodeError>,
}

/// Result of decoding a message and encoding it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundTrip {
    /// The message was equal after encoding and decoding it again.
    Same,
    /// The message could not be encoded or decoded again, or was different afterwards.
    Different(String),
}

impl Format {
    /// Encodes a message of this format with random contents.
    pub fn sample(&self, seed: u64) -> Result<Bytes, EncodeError> {
        (self.sample)(self.version, seed)
    }

    /// Decodes `body`, encodes the message, and decodes it again. Fails if the message does not use all bytes of
    /// `body`.
    pub fn decode(&self, body: Bytes) -> Result<RoundTrip, DecodeError> {
        (self.decode)(self.version, body)
    }

    /// Decodes the header and the message of a frame, which is given without its length prefix.
    pub fn decode_frame(&self, bytes: Bytes) -> Result<(), DecodeError> {
        (self.frame)(self.version, bytes)
    }
}

fn sample<M: Message + Arbitrary, const FLEXIBLE: i16>(version: i16, seed: u64) -> Result<Bytes, EncodeError> {
    let cx = Cx { version, flexible: version >= FLEXIBLE };
    let mut out = MessageBuf::new();
    M::arbitrary(cx, false, &mut Random::new(seed)).encode(version, &mut out)?;
    Ok(out.freeze())
}

fn decode_exact<M: Message>(version: i16, body: Bytes) -> Result<M, DecodeError> {
    let mut input = Reader::new(body);
    let message = M::decode(version, &mut input)?;
    input.finish()?;
    Ok(message)
}

fn decode<M: Message + PartialEq + Debug>(version: i16, body: Bytes) -> Result<RoundTrip, DecodeError> {
    let message: M = decode_exact(version, body)?;
    let mut out = MessageBuf::new();
    if let Err(error) = message.encode(version, &mut out) {
        return Ok(RoundTrip::Different(format!("{message:?} cannot be encoded: {error}")));
    }
    Ok(match decode_exact::<M>(version, out.freeze()) {
        Ok(decoded) if decoded == message => RoundTrip::Same,
        Ok(decoded) => RoundTrip::Different(format!("{message:?} came back as {decoded:?}")),
        Err(error) => RoundTrip::Different(format!("{message:?} did not come back: {error}")),
    })
}

fn request_frame<R: Request>(version: i16, bytes: Bytes) -> Result<(), DecodeError> {
    let (_, body) = frame::decode_request_header(bytes)?;
    decode_exact::<R>(version, body).map(|_| ())
}

fn response_frame<R: Request>(version: i16, bytes: Bytes) -> Result<(), DecodeError> {
    frame::decode_response::<R>(version, bytes).map(|_| ())
}

macro_rules! formats {
    ($($request:ident),* $(,)?) => {
        /// Returns all formats.
        pub fn formats() -> Vec<Format> {
            let mut all = Vec::new();
            $(for version in messages::$request::MIN_VERSION..=messages::$request::MAX_VERSION {
                const FLEXIBLE: i16 = messages::$request::FLEXIBLE;
                type Response = <messages::$request as Request>::Response;
                all.push(Format {
                    api: messages::$request::KEY,
                    response: false,
                    version,
                    sample: sample::<messages::$request, FLEXIBLE>,
                    decode: decode::<messages::$request>,
                    frame: request_frame::<messages::$request>,
                });
                all.push(Format {
                    api: messages::$request::KEY,
                    response: true,
                    version,
                    sample: sample::<Response, FLEXIBLE>,
                    decode: decode::<Response>,
                    frame: response_frame::<messages::$request>,
                });
            })*
            all
        }
    };
}

formats! {
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SaslHandshakeRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    InitProducerIdRequest,
    OffsetForLeaderEpochRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribeRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    WriteTxnMarkersRequest,
    TxnOffsetCommitRequest,
    SaslAuthenticateRequest,
    DescribeAclsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    CreateDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    DescribeUserScramCredentialsRequest,
    AlterUserScramCredentialsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    DescribeClientQuotasRequest,
    AlterClientQuotasRequest,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
    DescribeClusterRequest,
    UnregisterBrokerRequest,
    ListConfigResourcesRequest,
    DescribeTopicPartitionsRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
    ShareFetchRequest,
    ShareAcknowledgeRequest,
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    StreamsGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    UnregisterControllerRequest,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if an API is missing in the table.
    #[test]
    fn every_api_is_in_the_table() {
        for api in ApiKey::ALL {
            let of_api: Vec<_> = formats().into_iter().filter(|format| format.api == *api).collect();
            assert!(of_api.iter().any(|format| format.response) && of_api.iter().any(|format| !format.response));
            for format in of_api {
                let bytes = format.sample(7).unwrap();
                assert_eq!(format.decode(bytes), Ok(RoundTrip::Same), "{format:?}");
            }
        }
    }
}
