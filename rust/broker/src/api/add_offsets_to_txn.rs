//! AddOffsetsToTxn, v0–v4: adds the `__consumer_offsets` partition of a group to a transaction.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{Call, Handler, Outcome, fenced_for};
use crate::state::transactions::Now;
use crate::state::transactions::driver::offsets_partition;
use crate::state::transactions::transaction::Identity;

/// First request version whose clients understand PRODUCER_FENCED.
const FIRST_WITH_FENCED: i16 = 2;

impl Handler for AddOffsetsToTxnRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let id = self.transactional_id.as_str();
        let mut added = call.state.check_transaction_coordinator(call.node, id);
        if added.is_ok() {
            let producer = Identity { id: self.producer_id, epoch: self.producer_epoch };
            let partition = offsets_partition(&self.group_id);
            added = call.state.transactions().add(Now::read(), id, producer, [partition]);
            call.state.transaction_began();
        }
        let code = fenced_for(call.version >= FIRST_WITH_FENCED, added.err().unwrap_or(ErrorCode::NONE));
        call.reply::<Self>(&self.error_response(call.version, code))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AddOffsetsToTxnResponse {
        AddOffsetsToTxnResponse { error_code: code.code(), ..AddOffsetsToTxnResponse::default() }
    }
}
