//! AddOffsetsToTxn API: adds a consumer group to a transaction before its offsets are committed.
//!
//! v2 may return PRODUCER_FENCED; v4 may return TRANSACTION_ABORTABLE (KIP-890).

request! { AddOffsetsToTxn = 25, versions 0..=4, flexible 3, AddOffsetsToTxnRequest => AddOffsetsToTxnResponse }

messages! {
    struct AddOffsetsToTxnRequest {
        transactional_id: String => 0..;
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        group_id: String => 0..;
    }

    struct AddOffsetsToTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
    }
}
