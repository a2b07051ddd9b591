//! DeleteTopics API.
//!
//! v0 was removed in Kafka 4.0; v5 has error messages and may be throttled (KIP-599); v6 has names or ids in `topics`
//! (KIP-516), earlier versions have names in `topic_names`.

use super::types::Uuid;

request! { DeleteTopics = 20, versions 0..=6, flexible 4, DeleteTopicsRequest => DeleteTopicsResponse }

messages! {
    struct DeleteTopicsRequest {
        topics: Vec<DeleteTopicState> => 6..;
        topic_names: Vec<String> => 0..=5, [ignorable];
        timeout_ms: i32 => 0..;
    }

    /// A topic to delete, by name or by id.
    struct DeleteTopicState {
        name: Option<String> => 6..;
        topic_id: Uuid => 6..;
    }

    struct DeleteTopicsResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        responses: Vec<DeletableTopicResult> => 0..;
    }

    /// The result for one topic.
    struct DeletableTopicResult {
        name: Option<String> => 0.., nullable 6..;
        topic_id: Uuid => 6.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 5.., [ignorable];
    }
}
