//! ShareAcknowledge, v1–v2 (KIP-932): acknowledges records, and closes share sessions.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_acknowledge::{
    PartitionData, ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse,
};
use samsarrow_wire::messages::{ShareAcknowledgeRequest, Uuid};

use super::share_requests::{Acknowledgements, Leaders, ShareCaller, acknowledgements, code_and_message};
use super::{Call, Handler, Outcome};
use crate::state::groups::share::{FINAL_EPOCH, INITIAL_EPOCH};
use crate::state::topic_creation::Rejection;

impl Handler for ShareAcknowledgeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let response = respond(call, &self).unwrap_or_else(|(code, message)| ShareAcknowledgeResponse {
            error_message: Some(message),
            ..self.error_response(call.version, code)
        });
        call.reply::<Self>(&response)
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ShareAcknowledgeResponse {
        ShareAcknowledgeResponse { error_code: code.code(), ..ShareAcknowledgeResponse::default() }
    }
}

fn respond(call: &Call<'_>, request: &ShareAcknowledgeRequest) -> Result<ShareAcknowledgeResponse, Rejection> {
    let caller = ShareCaller::new(call, request.group_id.as_deref(), request.member_id.as_deref())?;
    let epoch = request.share_session_epoch;
    let used = match epoch {
        INITIAL_EPOCH => Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH),
        FINAL_EPOCH if call.state.has_share_session(&caller.key) => Ok(()),
        FINAL_EPOCH => Err(ErrorCode::SHARE_SESSION_NOT_FOUND),
        epoch => call.state.use_share_session(&caller.key, epoch),
    };
    used.map_err(|code| (code, code.description().to_owned()))?;
    let mut acks = Acknowledgements::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let of_partition = acks.entry((topic.topic_id.0, partition.partition_index)).or_default();
            of_partition.extend(acknowledgements(&partition.acknowledgement_batches));
        }
    }
    let outcomes = caller.acknowledge(call, &acks, request.is_renew_ack);
    if epoch == FINAL_EPOCH {
        call.state.close_share_session(&caller.key);
    }
    let mut leaders = Leaders::default();
    let mut topics: BTreeMap<[u8; 16], Vec<PartitionData>> = BTreeMap::new();
    for (key, outcome) in outcomes {
        let (error_code, error_message) = code_and_message(outcome);
        topics.entry(key.0).or_default().push(PartitionData {
            partition_index: key.1,
            error_code,
            error_message,
            current_leader: leaders.current(call, key, error_code),
            ..PartitionData::default()
        });
    }
    let topic = |(id, partitions)| ShareAcknowledgeTopicResponse {
        topic_id: Uuid(id),
        partitions,
        ..ShareAcknowledgeTopicResponse::default()
    };
    Ok(ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: caller.lock_timeout_ms(),
        responses: topics.into_iter().map(topic).collect(),
        node_endpoints: leaders.endpoints(call),
        ..ShareAcknowledgeResponse::default()
    })
}
