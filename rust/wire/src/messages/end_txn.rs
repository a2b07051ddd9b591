//! EndTxn: a transaction is committed or aborted.
//!
//! 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE; 5 raises the epoch with every end and answers it (KIP-890).

request! { EndTxn = 26, versions 0..=5, flexible 3, EndTxnRequest => EndTxnResponse }

messages! {
    /// What is asked.
    struct EndTxnRequest {
        transactional_id: String => 0..;
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        committed: bool => 0..;
    }

    /// What is answered.
    struct EndTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        producer_id: i64 = -1 => 5.., [ignorable];
        producer_epoch: i16 = -1 => 5.., [ignorable];
    }
}
