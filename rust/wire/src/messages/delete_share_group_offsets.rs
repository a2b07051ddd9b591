//! DeleteShareGroupOffsets API: deletes the offsets of a share group for topics (KIP-932).

use super::types::Uuid;

request! {
    DeleteShareGroupOffsets = 92, versions 0..=0, flexible 0,
    DeleteShareGroupOffsetsRequest => DeleteShareGroupOffsetsResponse
}

messages! {
    struct DeleteShareGroupOffsetsRequest {
        group_id: String => 0..;
        topics: Vec<DeleteShareGroupOffsetsRequestTopic> => 0..;
    }

    /// A topic for which offsets are deleted.
    struct DeleteShareGroupOffsetsRequestTopic {
        topic_name: String => 0..;
    }

    struct DeleteShareGroupOffsetsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        responses: Vec<DeleteShareGroupOffsetsResponseTopic> => 0..;
    }

    /// The result of deleting the offsets for one topic.
    struct DeleteShareGroupOffsetsResponseTopic {
        topic_name: String => 0..;
        topic_id: Uuid => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
