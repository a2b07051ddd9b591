//! StreamsGroupDescribe API: returns groups of Kafka Streams, their topologies and members (KIP-1071).
//!
//! v1 adds the description of the topology (KIP-1331) and the task assignor (KIP-1357).

request! {
    StreamsGroupDescribe = 89, versions 0..=1, flexible 0,
    StreamsGroupDescribeRequest => StreamsGroupDescribeResponse
}

messages! {
    struct StreamsGroupDescribeRequest {
        group_ids: Vec<String> => 0..;
        include_authorized_operations: bool => 0..;
        include_topology_description: bool => 1..;
    }

    struct StreamsGroupDescribeResponse {
        throttle_time_ms: i32 => 0..;
        groups: Vec<DescribedGroup> => 0..;
    }

    /// A described group of Kafka Streams.
    struct DescribedGroup {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        group_id: String => 0..;
        group_state: String => 0..;
        group_epoch: i32 => 0..;
        assignment_epoch: i32 => 0..;
        topology: Option<Topology> => 0..;
        members: Vec<Member> => 0..;
        authorized_operations: i32 = -2147483648 => 0..;
        topology_description: Option<TopologyDescription> => 1..;
        topology_description_status: i8 => 1..;
        assignor_name: Option<String> => 1.., [ignorable];
    }

    /// The topology of a group.
    struct Topology {
        epoch: i32 => 0..;
        subtopologies: Option<Vec<Subtopology>> => 0..;
    }

    /// A subtopology and its topics.
    struct Subtopology {
        subtopology_id: String => 0..;
        source_topics: Vec<String> => 0..;
        repartition_sink_topics: Vec<String> => 0..;
        state_changelog_topics: Vec<TopicInfo> => 0..;
        repartition_source_topics: Vec<TopicInfo> => 0..;
    }

    /// An internal topic that the subtopology needs.
    struct TopicInfo {
        name: String => 0..;
        partitions: i32 => 0..;
        replication_factor: i16 => 0..;
        topic_configs: Vec<KeyValue> => 0..;
    }

    /// A topic configuration or a client tag, with its value.
    struct KeyValue {
        key: String => 0..;
        value: String => 0..;
    }

    /// A member of a Streams group.
    struct Member {
        member_id: String => 0..;
        member_epoch: i32 => 0..;
        instance_id: Option<String> => 0..;
        rack_id: Option<String> => 0..;
        client_id: String => 0..;
        client_host: String => 0..;
        topology_epoch: i32 => 0..;
        process_id: String => 0..;
        user_endpoint: Option<Endpoint> => 0..;
        client_tags: Vec<KeyValue> => 0..;
        task_offsets: Vec<TaskOffset> => 0..;
        task_end_offsets: Vec<TaskOffset> => 0..;
        assignment: Assignment => 0..;
        target_assignment: Assignment => 0..;
        is_classic: bool => 0..;
    }

    /// The endpoint at which a member serves interactive queries.
    struct Endpoint {
        host: String => 0..;
        port: u16 => 0..;
    }

    /// The offset of one task of a member.
    struct TaskOffset {
        subtopology_id: String => 0..;
        partition: i32 => 0..;
        offset: i64 => 0..;
    }

    /// The tasks assigned to a member.
    struct Assignment {
        active_tasks: Vec<TaskIds> => 0..;
        standby_tasks: Vec<TaskIds> => 0..;
        warmup_tasks: Vec<TaskIds> => 0..;
    }

    /// The description of a topology, as its application has sent it.
    struct TopologyDescription {
        subtopologies: Vec<TopologyDescriptionSubtopology> => 1..;
        global_stores: Vec<TopologyDescriptionGlobalStore> => 1..;
    }

    /// A subtopology and its nodes.
    struct TopologyDescriptionSubtopology {
        subtopology_id: String => 1..;
        nodes: Vec<TopologyDescriptionNode> => 1..;
    }

    /// A node of a subtopology: a source (1), a processor (2) or a sink (3).
    struct TopologyDescriptionNode {
        name: String => 1..;
        node_type: i8 => 1..;
        source_topics: Vec<String> => 1..;
        sink_topic: Option<String> => 1..;
        stores: Vec<String> => 1..;
        successors: Vec<String> => 1..;
    }

    /// A global store: its source, and the processor that fills it.
    struct TopologyDescriptionGlobalStore {
        source: TopologyDescriptionNode => 1..;
        processor: TopologyDescriptionNode => 1..;
    }

    /// The tasks of one subtopology.
    struct TaskIds {
        subtopology_id: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}
