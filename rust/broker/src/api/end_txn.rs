//! EndTxn, v0–v5. From v5 on, every request bumps the producer epoch (KIP-890).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{EndTxnRequest, EndTxnResponse};

use super::{Call, Handler, Outcome, fenced_for};
use crate::state::transactions::Now;
use crate::state::transactions::transaction::Identity;

/// First request version whose clients understand PRODUCER_FENCED.
const FIRST_WITH_FENCED: i16 = 2;
const FIRST_WITH_BUMPS: i16 = 5;

fn end(call: &Call<'_>, request: &EndTxnRequest) -> Result<Identity, ErrorCode> {
    let id = request.transactional_id.as_str();
    call.state.check_transaction_coordinator(call.node, id)?;
    let producer = Identity { id: request.producer_id, epoch: request.producer_epoch };
    let bumps = call.version >= FIRST_WITH_BUMPS;
    let new_id = || call.state.new_producer_id();
    let ended = call.state.transactions().end(Now::read(), id, producer, request.committed, bumps, &new_id);
    call.state.complete_transactions();
    ended
}

impl Handler for EndTxnRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        match end(call, &self) {
            Ok(producer) => call.reply::<Self>(&EndTxnResponse {
                producer_id: producer.id,
                producer_epoch: producer.epoch,
                ..EndTxnResponse::default()
            }),
            Err(code) => {
                let code = fenced_for(call.version >= FIRST_WITH_FENCED, code);
                call.reply::<Self>(&self.error_response(call.version, code))
            }
        }
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> EndTxnResponse {
        EndTxnResponse { error_code: code.code(), ..EndTxnResponse::default() }
    }
}
