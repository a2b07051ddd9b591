//! ListTransactions API: returns the transactions of a coordinator (KIP-664).
//!
//! v1 adds a filter by duration (KIP-994); v2 adds a filter by a pattern (KIP-1152).

request! { ListTransactions = 66, versions 0..=2, flexible 0, ListTransactionsRequest => ListTransactionsResponse }

messages! {
    /// The request. An empty filter matches all transactions.
    struct ListTransactionsRequest {
        state_filters: Vec<String> => 0..;
        producer_id_filters: Vec<i64> => 0..;
        duration_filter: i64 = -1 => 1..;
        transactional_id_pattern: Option<String> => 2..;
    }

    struct ListTransactionsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        unknown_state_filters: Vec<String> => 0..;
        transaction_states: Vec<TransactionState> => 0..;
    }

    /// A transaction that matches the filters of the request.
    struct TransactionState {
        transactional_id: String => 0..;
        producer_id: i64 => 0..;
        transaction_state: String => 0..;
    }
}
