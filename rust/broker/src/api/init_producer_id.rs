//! InitProducerId, v0–v6, for idempotent producers; transactions are not served.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::InitProducerIdRequest;
use samsarrow_wire::messages::init_producer_id::InitProducerIdResponse;

use super::{Call, Outcome, Serve};

impl Serve for InitProducerIdRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if self.transactional_id.is_some() {
            return call.reply::<Self>(&self.refuse(call.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        // A producer that asks for a new epoch gets a new id with epoch 0, as Kafka does without transactions.
        call.reply::<Self>(&InitProducerIdResponse {
            producer_id: call.state.new_producer_id(),
            ..InitProducerIdResponse::default()
        })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> InitProducerIdResponse {
        InitProducerIdResponse { error_code: code.code(), producer_epoch: -1, ..InitProducerIdResponse::default() }
    }
}
