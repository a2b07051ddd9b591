//! DeleteTopics API: deletes topics by name or by id.
//!
//! v0 was removed in Kafka 4.0; v5 adds error messages, and brokers may throttle it (KIP-599). Up to v5, `topic_names`
//! has the names of the topics; from v6 on, `topics` has their names or ids (KIP-516).

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

    /// The result of deleting one topic.
    struct DeletableTopicResult {
        name: Option<String> => 0.., nullable 6..;
        topic_id: Uuid => 6.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 5.., [ignorable];
    }
}
