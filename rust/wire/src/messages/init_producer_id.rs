//! InitProducerId API: returns the id and epoch of an idempotent or transactional producer.
//!
//! v3 can bump the epoch of the given producer id (KIP-360); v4 may return PRODUCER_FENCED (KIP-588); v6 adds two-phase
//! commit (KIP-939).

request! { InitProducerId = 22, versions 0..=6, flexible 2, InitProducerIdRequest => InitProducerIdResponse }

messages! {
    struct InitProducerIdRequest {
        transactional_id: Option<String> => 0..;
        transaction_timeout_ms: i32 => 0..;
        producer_id: i64 = -1 => 3..;
        producer_epoch: i16 = -1 => 3..;
        enable2_pc: bool => 6..;
        keep_prepared_txn: bool => 6..;
    }

    struct InitProducerIdResponse {
        throttle_time_ms: i32 => 0.., [ignorable];
        error_code: i16 => 0..;
        producer_id: i64 = -1 => 0..;
        producer_epoch: i16 => 0..;
        ongoing_txn_producer_id: i64 = -1 => 6..;
        ongoing_txn_producer_epoch: i16 = -1 => 6..;
    }
}
