//! AddOffsetsToTxn: the group whose offsets a transaction is going to commit.
//!
//! 2 may answer PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE (KIP-890).

request! { AddOffsetsToTxn = 25, versions 0..=4, flexible 3, AddOffsetsToTxnRequest => AddOffsetsToTxnResponse }

messages! {
    /// What is asked.
    struct AddOffsetsToTxnRequest {
        transactional_id: String => 0..;
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        group_id: String => 0..;
    }

    /// What is answered.
    struct AddOffsetsToTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
    }
}
