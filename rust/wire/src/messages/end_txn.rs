//! EndTxn API: commits or aborts a transaction.
//!
//! v2 may return PRODUCER_FENCED; v4 may return TRANSACTION_ABORTABLE; v5 bumps the producer epoch at the end of each
//! transaction and returns it (KIP-890).

request! { EndTxn = 26, versions 0..=5, flexible 3, EndTxnRequest => EndTxnResponse }

messages! {
    struct EndTxnRequest {
        transactional_id: String => 0..;
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        committed: bool => 0..;
    }

    struct EndTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        producer_id: i64 = -1 => 5.., [ignorable];
        producer_epoch: i16 = -1 => 5.., [ignorable];
    }
}
