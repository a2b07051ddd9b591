//! Dispatch of requests: checks the authentication state, applies injected faults, and calls the handler of the API.

use std::sync::Mutex;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame::{self, RequestHeader};
use samsarrow_wire::messages::{self, ApiKey, Reader, Request};
use samsarrow_wire::sync::lock;

use super::version_profile::{Profile, Unsupported};
use super::{Call, Handler, Outcome, api_versions};
use crate::fault::{Fault, RequestInfo};
use crate::history::Received;
use crate::security::{Admission, Session, Stream};
use crate::state::State;

/// Declares the supported APIs and routes each request to its handler.
macro_rules! supported_apis {
    ($($request:ident: $versions:expr;)*) => {
        /// Supported APIs, each with its minimum and maximum version.
        pub(crate) const SUPPORTED_APIS: &[(ApiKey, i16, i16)] =
            &[$((<messages::$request as Request>::KEY, *$versions.start(), *$versions.end()),)*];

        async fn route(call: &Call<'_>, header: &RequestHeader, key: ApiKey, body: Bytes) -> Outcome {
            $(if key == <messages::$request as Request>::KEY {
                return decode_and_handle::<messages::$request>(call, header, key, body).await;
            })*
            Outcome::Close(format!("{} is not served", key.name()))
        }
    };
}

supported_apis! {
    ProduceRequest: 0..=13;
    FetchRequest: 0..=18;
    ListOffsetsRequest: 0..=11;
    MetadataRequest: 0..=13;
    OffsetCommitRequest: 0..=10;
    OffsetFetchRequest: 0..=10;
    FindCoordinatorRequest: 0..=6;
    JoinGroupRequest: 0..=9;
    HeartbeatRequest: 0..=4;
    LeaveGroupRequest: 0..=5;
    SyncGroupRequest: 0..=5;
    DescribeGroupsRequest: 0..=6;
    ListGroupsRequest: 0..=5;
    DeleteGroupsRequest: 0..=3;
    OffsetDeleteRequest: 0..=0;
    ConsumerGroupHeartbeatRequest: 0..=1;
    ConsumerGroupDescribeRequest: 0..=1;
    SaslHandshakeRequest: 0..=1;
    ApiVersionsRequest: 0..=5;
    CreateTopicsRequest: 0..=7;
    DeleteTopicsRequest: 0..=6;
    InitProducerIdRequest: 0..=6;
    OffsetForLeaderEpochRequest: 0..=4;
    AddPartitionsToTxnRequest: 0..=5;
    AddOffsetsToTxnRequest: 0..=4;
    EndTxnRequest: 0..=5;
    WriteTxnMarkersRequest: 0..=2;
    SaslAuthenticateRequest: 0..=2;
    TxnOffsetCommitRequest: 0..=6;
    DescribeProducersRequest: 0..=0;
    DescribeTransactionsRequest: 0..=0;
    ListTransactionsRequest: 0..=2;
    GetTelemetrySubscriptionsRequest: 0..=0;
    PushTelemetryRequest: 0..=0;
    DescribeClusterRequest: 0..=2;
    DescribeTopicPartitionsRequest: 0..=0;
    DeleteRecordsRequest: 0..=2;
    CreatePartitionsRequest: 0..=3;
    DescribeConfigsRequest: 0..=4;
    IncrementalAlterConfigsRequest: 0..=1;
    ListConfigResourcesRequest: 0..=1;
    DescribeClientQuotasRequest: 0..=1;
    AlterClientQuotasRequest: 0..=1;
    ElectLeadersRequest: 0..=2;
    DescribeLogDirsRequest: 0..=5;
    AlterPartitionReassignmentsRequest: 0..=1;
    ListPartitionReassignmentsRequest: 0..=0;
    DescribeQuorumRequest: 0..=2;
    ShareGroupHeartbeatRequest: 1..=1;
    ShareGroupDescribeRequest: 1..=1;
    ShareFetchRequest: 1..=2;
    ShareAcknowledgeRequest: 1..=2;
    StreamsGroupDescribeRequest: 0..=1;
    UpdateFeaturesRequest: 0..=2;
    AlterReplicaLogDirsRequest: 0..=2;
    DescribeAclsRequest: 0..=3;
    CreateAclsRequest: 0..=3;
    DeleteAclsRequest: 0..=3;
    DescribeUserScramCredentialsRequest: 0..=0;
    AlterUserScramCredentialsRequest: 0..=0;
    CreateDelegationTokenRequest: 0..=3;
    RenewDelegationTokenRequest: 0..=2;
    ExpireDelegationTokenRequest: 0..=2;
    DescribeDelegationTokenRequest: 0..=3;
    DescribeShareGroupOffsetsRequest: 0..=1;
    AlterShareGroupOffsetsRequest: 0..=0;
    DeleteShareGroupOffsetsRequest: 0..=0;
}

/// Handles one request frame and returns its outcome.
pub(crate) async fn dispatch(
    node: i32,
    frame: Bytes,
    state: &State,
    (stream, connection): (&Stream, u64),
    session: &Mutex<Session>,
) -> Outcome {
    let (header, body) = match frame::decode_request_header(frame.clone()) {
        Ok(read) => read,
        // The header of an unknown version may have another format, but its first fields are the same in every format.
        Err(error) => match first_fields(&frame) {
            Some(header) => (header, Bytes::new()),
            None => return Outcome::Close(format!("could not read a request header: {error}")),
        },
    };
    if !Profile::new(state.kafka(node)).can_read_header(&header) {
        return Outcome::Close(format!("API {} without a client id", header.api_key));
    }
    let version = header.api_version;
    let client_id = header.client_id.as_deref().unwrap_or_default();
    let throttle_ms = AtomicI32::new(0);
    let call = Call {
        state,
        node,
        version,
        correlation_id: header.correlation_id,
        client_id,
        stream,
        connection,
        received: Received::now(),
        session,
        allowed: true,
        throttle_ms: &throttle_ms,
    };
    let key = ApiKey::from_i16(header.api_key);
    match key.filter(|key| call.profile().accepts(*key, version) && call.state.offers(*key)) {
        Some(key) => {
            call.state.count(key);
            let admission = lock(session).admit(key, &state.security);
            if let Admission::Close(reason) = admission {
                return Outcome::Close(format!("{} v{version}: {reason}", key.name()));
            }
            let call = Call { allowed: admission == Admission::Granted, ..call };
            let outcome = route(&call, &header, key, body).await;
            let throttle = Duration::from_millis(u64::try_from(call.throttle_ms()).unwrap_or(0));
            if call.profile().mutes_after_response() {
                lock(session).mute(throttle);
            } else {
                tokio::time::sleep(throttle).await;
            }
            match outcome {
                Outcome::Reply(chunks) if lock(session).is_closing() => {
                    Outcome::Last(chunks, "the login failed".to_owned())
                }
                outcome => outcome,
            }
        }
        None => match call.profile().unsupported(key) {
            Unsupported::ApiVersions(range) => api_versions::unsupported(&call, range),
            Unsupported::Ignore => Outcome::Silent,
            Unsupported::Close => Outcome::Close(format!("API {} v{version} is not served", header.api_key)),
        },
    }
}

fn first_fields(frame: &[u8]) -> Option<RequestHeader> {
    let api_key = i16::from_be_bytes(frame.get(..2)?.try_into().ok()?);
    let api_version = i16::from_be_bytes(frame.get(2..4)?.try_into().ok()?);
    let correlation_id = i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?);
    Some(RequestHeader { api_key, api_version, correlation_id, client_id: None })
}

/// Decodes the request, applies an injected fault if any, and calls the handler.
async fn decode_and_handle<R: Handler>(call: &Call<'_>, header: &RequestHeader, key: ApiKey, body: Bytes) -> Outcome {
    let mut fault = call.state.faults.fault_for(key, || RequestInfo {
        node: call.node,
        api_key: key,
        api_version: call.version,
        correlation_id: call.correlation_id,
        client_id: header.client_id.clone(),
        body: body.clone(),
    });
    let request = match R::decode(call.version, &mut Reader::new(body)) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(format!("could not read {} v{}: {error}", key.name(), call.version)),
    };
    if !call.allowed {
        lock(call.session).fail(&call.state.security);
        return match request.expects_response() {
            true => call.reply::<R>(&request.error_response(call.version, ErrorCode::ILLEGAL_SASL_STATE)),
            false => Outcome::Close(format!("{} in the middle of a login", key.name())),
        };
    }
    if matches!(fault, Some(Fault::Error(_) | Fault::Answer(_))) && is_login(key) {
        // If the fault makes a login request fail, the session ends too.
        lock(call.session).fail(&call.state.security);
    }
    while let Some(Fault::Late(time, then)) = fault {
        tokio::time::sleep(time).await;
        fault = Some(*then);
    }
    if let Some(code) = call.profile().switched_off(key) {
        return call.reply::<R>(&request.error_response(call.version, code));
    }
    match fault {
        None => request.handle(call).await,
        Some(Fault::Throttle(time)) => {
            call.throttle(time);
            request.handle(call).await
        }
        Some(Fault::Error(code)) if !request.expects_response() => {
            Outcome::Close(format!("an injected fault returns {}, but the request expects no response", code.name()))
        }
        Some(Fault::Error(code)) => call.reply::<R>(&request.error_response(call.version, code)),
        Some(Fault::Delay(time) | Fault::Late(time, _)) => {
            tokio::time::sleep(time).await;
            request.handle(call).await
        }
        Some(Fault::DropBefore) => {
            Outcome::Close("an injected fault closed the connection before the request was handled".to_owned())
        }
        Some(Fault::DropAfter) => {
            request.handle(call).await;
            Outcome::Close("an injected fault closed the connection after the request was handled".to_owned())
        }
        Some(Fault::Answer(code)) => {
            // The response is encoded afterwards, because it contains the throttle time of the request.
            let response = request.error_response(call.version, code);
            match request.handle(call).await {
                Outcome::Reply(_) => call.reply::<R>(&response),
                other => other,
            }
        }
        Some(Fault::Garbage) => match request.handle(call).await {
            Outcome::Reply(_) => Outcome::Reply(vec![garbage(call.correlation_id)]),
            other => other,
        },
    }
}

fn is_login(key: ApiKey) -> bool {
    matches!(key, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
}

/// Returns a response whose header is valid but whose body cannot be decoded, because every length in the body is out
/// of range.
fn garbage(correlation_id: i32) -> Bytes {
    const BODY: [u8; 32] = [0x7f; 32];
    let mut frame = BytesMut::with_capacity(40);
    frame.extend_from_slice(&36_i32.to_be_bytes());
    frame.extend_from_slice(&correlation_id.to_be_bytes());
    frame.extend_from_slice(&BODY);
    frame.freeze()
}
