//! UnregisterBroker API: removes the registration of a decommissioned broker (KIP-631).

request! { UnregisterBroker = 64, versions 0..=0, flexible 0, UnregisterBrokerRequest => UnregisterBrokerResponse }

messages! {
    struct UnregisterBrokerRequest {
        broker_id: i32 => 0..;
    }

    struct UnregisterBrokerResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
