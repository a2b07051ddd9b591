//! InitProducerId, v0–v6, for idempotent and transactional producers.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::InitProducerIdRequest;
use samsarrow_wire::messages::init_producer_id::InitProducerIdResponse;

use super::{Call, Handler, Outcome, fenced_for};
use crate::state::transactions::transaction::Identity;
use crate::state::transactions::{Init, Now};

/// First request version whose clients understand PRODUCER_FENCED (KIP-588).
const FIRST_WITH_FENCED: i16 = 4;

fn init(call: &Call<'_>, request: &InitProducerIdRequest) -> Result<Identity, ErrorCode> {
    let was = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => None,
        (-1, _) | (_, -1) => return Err(ErrorCode::INVALID_REQUEST),
        (id, epoch) => Some(Identity { id, epoch }),
    };
    let new_id = || call.state.new_producer_id();
    let Some(transactional_id) = &request.transactional_id else {
        // A non-transactional producer always gets a new id with epoch 0, even if it requests an epoch bump, as in
        // Kafka.
        return Ok(Identity { id: new_id(), epoch: 0 });
    };
    call.state.check_transaction_coordinator(call.node, transactional_id)?;
    if request.enable2_pc {
        // Kafka returns this error if two-phase commit is not allowed (KIP-939). This broker never allows it.
        return Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    }
    if request.keep_prepared_txn {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let init = Init { transactional_id, timeout_ms: request.transaction_timeout_ms, was };
    let started = call.state.transactions().init(Now::read(), &init, &new_id);
    call.state.complete_transactions();
    started
}

impl Handler for InitProducerIdRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        match init(call, &self) {
            Ok(producer) => call.reply::<Self>(&InitProducerIdResponse {
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                ..InitProducerIdResponse::default()
            }),
            Err(code) => {
                let code = fenced_for(call.version >= FIRST_WITH_FENCED, code);
                call.reply::<Self>(&self.error_response(call.version, code))
            }
        }
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> InitProducerIdResponse {
        InitProducerIdResponse { error_code: code.code(), producer_epoch: -1, ..InitProducerIdResponse::default() }
    }
}
