//! DeleteTopics.

use super::types::Uuid;

request! { DeleteTopics = 20, versions 0..=6, flexible 4, DeleteTopicsRequest => DeleteTopicsResponse }

messages! {
    /// The request as a whole.
    struct DeleteTopicsRequest {
        topics: Vec<DeleteTopicState> => 6..;
        topic_names: Vec<String> => 0..=5, [ignorable];
        timeout_ms: i32 => 0..;
    }

    /// A delete topic state.
    struct DeleteTopicState {
        name: Option<String> => 6..;
        topic_id: Uuid => 6..;
    }

    /// The response as a whole.
    struct DeleteTopicsResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        responses: Vec<DeletableTopicResult> => 0..;
    }

    /// A deletable topic result.
    struct DeletableTopicResult {
        name: Option<String> => 0.., nullable 6..;
        topic_id: Uuid => 6.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 5.., [ignorable];
    }
}
