//! Metadata, v0–v13.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::{
    MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use samsarrow_wire::messages::{MetadataRequest, Uuid};

use super::{CLUSTER_OPERATIONS, Call, Handler, Outcome, TOPIC_OPERATIONS};
use crate::state::State;
use crate::state::stale_metadata::MetadataView;
use crate::state::topic::{NO_LEADER, Topic};
use crate::state::topic_creation::{NewTopic, check_topic_name};

fn describe(state: &State, view: &MetadataView, topic: &Topic) -> MetadataResponseTopic {
    let partition = |(index, partition): (i32, &Arc<_>)| {
        let partition: &crate::state::topic::Partition = partition;
        let partition_state = partition.state();
        let (live, dead): (Vec<i32>, Vec<i32>) = partition_state.replicas.iter().partition(|node| state.is_up(**node));
        let (leader_id, leader_epoch) =
            view.leader(topic, index, (partition_state.leader, partition_state.leader_epoch));
        let code = if leader_id == NO_LEADER { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE };
        MetadataResponsePartition {
            error_code: code.code(),
            partition_index: index,
            leader_id,
            leader_epoch,
            replica_nodes: partition_state.replicas.clone(),
            isr_nodes: live,
            offline_replicas: dead,
            ..MetadataResponsePartition::default()
        }
    };
    MetadataResponseTopic {
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        partitions: topic.partitions().map(partition).collect(),
        ..MetadataResponseTopic::default()
    }
}

fn failed(requested: &MetadataRequestTopic, code: ErrorCode, version: i16) -> MetadataResponseTopic {
    // Before version 12 the topic name in the response is not nullable.
    let name = if version < 12 { Some(requested.name.clone().unwrap_or_default()) } else { requested.name.clone() };
    MetadataResponseTopic {
        error_code: code.code(),
        name,
        topic_id: requested.topic_id,
        ..MetadataResponseTopic::default()
    }
}

fn describe_or_create(
    call: &Call<'_>,
    view: &MetadataView,
    requested: &MetadataRequestTopic,
    create: bool,
) -> MetadataResponseTopic {
    let state = call.state;
    let Some(name) = &requested.name else {
        return match state.topic_by_id(&requested.topic_id) {
            Some(topic) if view.has(&topic.name) => describe(state, view, &topic),
            _ => failed(requested, ErrorCode::UNKNOWN_TOPIC_ID, call.version),
        };
    };
    if requested.topic_id != Uuid::ZERO && call.version < 12 {
        return failed(requested, ErrorCode::INVALID_REQUEST, call.version);
    }
    if let Some(topic) = state.topic(name).filter(|topic| view.has(&topic.name)) {
        return describe(state, view, &topic);
    }
    if let Err((code, _)) = check_topic_name(name) {
        return failed(requested, code, call.version);
    }
    if !(create && state.options.auto_create_topics && view.is_fresh()) {
        return failed(requested, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, call.version);
    }
    let new = NewTopic { name, partitions: -1, replication_factor: -1, ..NewTopic::default() };
    match state.create_topic(&new) {
        Ok(topic) => describe(state, view, &topic),
        // Another connection has just created the topic.
        Err((ErrorCode::TOPIC_ALREADY_EXISTS, _)) => match state.topic(name) {
            Some(topic) => describe(state, view, &topic),
            None => failed(requested, ErrorCode::LEADER_NOT_AVAILABLE, call.version),
        },
        Err((code, _)) => failed(requested, code, call.version),
    }
}

impl Handler for MetadataRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let state = call.state;
        let view = state.metadata_view();
        let create = call.version < 4 || self.allow_auto_topic_creation;
        let topics: Vec<_> = match &self.topics {
            // An empty list requests all topics in version 0, where the list is not nullable.
            Some(requested) if !(requested.is_empty() && call.version == 0) => {
                requested.iter().map(|requested| describe_or_create(call, &view, requested, create)).collect()
            }
            _ => {
                let topics = state.topics();
                let included = topics.iter().filter(|topic| view.has(&topic.name));
                included.map(|topic| describe(state, &view, topic)).collect()
            }
        };
        let topics = topics.into_iter().map(|mut topic: MetadataResponseTopic| {
            if self.include_topic_authorized_operations && topic.error_code == 0 {
                topic.topic_authorized_operations = TOPIC_OPERATIONS;
            }
            topic
        });
        let broker = |(id, node): (i32, &crate::state::Node)| MetadataResponseBroker {
            node_id: id,
            host: node.host.clone(),
            port: node.port.into(),
            ..MetadataResponseBroker::default()
        };
        call.reply::<Self>(&MetadataResponse {
            brokers: state.live_nodes().map(broker).collect(),
            cluster_id: Some(state.cluster_id.clone()),
            controller_id: state.controller(),
            topics: topics.collect(),
            cluster_authorized_operations: match self.include_cluster_authorized_operations {
                true => CLUSTER_OPERATIONS,
                false => MetadataResponse::default().cluster_authorized_operations,
            },
            ..MetadataResponse::default()
        })
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> MetadataResponse {
        let topics = self.topics.iter().flatten().map(|requested| failed(requested, code, version)).collect();
        let error_code = if version >= 13 { code.code() } else { 0 };
        MetadataResponse { topics, error_code, ..MetadataResponse::default() }
    }
}
