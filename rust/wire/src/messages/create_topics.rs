//! CreateTopics API: creates topics with their configurations.
//!
//! v0 and v1 were removed in Kafka 4.0; v1 adds validate_only; v4 accepts -1 for the broker's default number of
//! partitions and replicas (KIP-464); v5 returns the topic configuration (KIP-525); brokers may throttle v6 and later
//! (KIP-599); v7 returns topic ids.

use super::types::Uuid;

request! { CreateTopics = 19, versions 0..=7, flexible 5, CreateTopicsRequest => CreateTopicsResponse }

messages! {
    struct CreateTopicsRequest {
        topics: Vec<CreatableTopic> => 0..;
        timeout_ms: i32 = 60000 => 0..;
        validate_only: bool => 1..;
    }

    /// A topic to create.
    struct CreatableTopic {
        name: String => 0..;
        num_partitions: i32 => 0..;
        replication_factor: i16 => 0..;
        assignments: Vec<CreatableReplicaAssignment> => 0..;
        configs: Vec<CreatableTopicConfig> => 0..;
    }

    /// The broker ids of the replicas of one partition.
    struct CreatableReplicaAssignment {
        partition_index: i32 => 0..;
        broker_ids: Vec<i32> => 0..;
    }

    /// A configuration of the topic to create.
    struct CreatableTopicConfig {
        name: String => 0..;
        value: Option<String> => 0..;
    }

    struct CreateTopicsResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<CreatableTopicResult> => 0..;
    }

    /// The result of creating one topic.
    struct CreatableTopicResult {
        name: String => 0..;
        topic_id: Uuid => 7.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 1.., [ignorable];
        topic_config_error_code: i16 => 5.., tag 0, [ignorable];
        num_partitions: i32 = -1 => 5.., [ignorable];
        replication_factor: i16 = -1 => 5.., [ignorable];
        configs: Option<Vec<CreatableTopicConfigs>> => 5.., [ignorable];
    }

    /// A configuration of the created topic.
    struct CreatableTopicConfigs {
        name: String => 5..;
        value: Option<String> => 5..;
        read_only: bool => 5..;
        config_source: i8 = -1 => 5.., [ignorable];
        is_sensitive: bool => 5..;
    }
}
