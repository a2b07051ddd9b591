//! Metadata, v0–v13.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::metadata::{
    MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use samsarrow_wire::messages::{MetadataRequest, Uuid};

use super::{CLUSTER_OPERATIONS, Call, Outcome, Serve, TOPIC_OPERATIONS};
use crate::state::State;
use crate::state::create::{NewTopic, check_name};
use crate::state::stale::Known;
use crate::state::topic::{NO_LEADER, Topic};

fn describe(state: &State, known: &Known, topic: &Topic) -> MetadataResponseTopic {
    let partition = |(index, partition): (i32, &Arc<_>)| {
        let partition: &crate::state::topic::Partition = partition;
        let held = partition.state();
        let (live, dead): (Vec<i32>, Vec<i32>) = held.replicas.iter().partition(|node| state.is_up(**node));
        let (leader_id, leader_epoch) = known.leader(&topic.name, index, (held.leader, held.leader_epoch));
        let code = if leader_id == NO_LEADER { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE };
        MetadataResponsePartition {
            error_code: code.code(),
            partition_index: index,
            leader_id,
            leader_epoch,
            replica_nodes: held.replicas.clone(),
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

fn failed(asked: &MetadataRequestTopic, code: ErrorCode, version: i16) -> MetadataResponseTopic {
    // Before version 12 the name in the response must not be null.
    let name = if version < 12 { Some(asked.name.clone().unwrap_or_default()) } else { asked.name.clone() };
    MetadataResponseTopic {
        error_code: code.code(),
        name,
        topic_id: asked.topic_id,
        ..MetadataResponseTopic::default()
    }
}

fn one(call: &Call<'_>, known: &Known, asked: &MetadataRequestTopic, create: bool) -> MetadataResponseTopic {
    let state = call.state;
    let Some(name) = &asked.name else {
        return match state.topic_by_id(&asked.topic_id) {
            Some(topic) if known.has(&topic.name) => describe(state, known, &topic),
            _ => failed(asked, ErrorCode::UNKNOWN_TOPIC_ID, call.version),
        };
    };
    if asked.topic_id != Uuid::ZERO && call.version < 12 {
        return failed(asked, ErrorCode::INVALID_REQUEST, call.version);
    }
    if let Some(topic) = state.topic(name).filter(|topic| known.has(&topic.name)) {
        return describe(state, known, &topic);
    }
    if let Err((code, _)) = check_name(name) {
        return failed(asked, code, call.version);
    }
    if !(create && state.options.auto_create_topics && known.is_fresh()) {
        return failed(asked, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, call.version);
    }
    let new = NewTopic { name, partitions: -1, replication_factor: -1, ..NewTopic::default() };
    match state.create_topic(&new) {
        Ok(topic) => describe(state, known, &topic),
        // Another connection has created the topic concurrently.
        Err((ErrorCode::TOPIC_ALREADY_EXISTS, _)) => match state.topic(name) {
            Some(topic) => describe(state, known, &topic),
            None => failed(asked, ErrorCode::LEADER_NOT_AVAILABLE, call.version),
        },
        Err((code, _)) => failed(asked, code, call.version),
    }
}

impl Serve for MetadataRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let state = call.state;
        let known = state.known();
        let create = call.version < 4 || self.allow_auto_topic_creation;
        let topics: Vec<_> = match &self.topics {
            // In version 0, which has no null, an empty list requests all topics.
            Some(asked) if !(asked.is_empty() && call.version == 0) => {
                asked.iter().map(|asked| one(call, &known, asked, create)).collect()
            }
            _ => {
                let topics = state.topics();
                let told = topics.iter().filter(|topic| known.has(&topic.name));
                told.map(|topic| describe(state, &known, topic)).collect()
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

    fn refuse(&self, version: i16, code: ErrorCode) -> MetadataResponse {
        let topics = self.topics.iter().flatten().map(|asked| failed(asked, code, version)).collect();
        let error_code = if version >= 13 { code.code() } else { 0 };
        MetadataResponse { topics, error_code, ..MetadataResponse::default() }
    }
}
