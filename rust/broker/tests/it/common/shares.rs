//! Client side of a share group member, with raw requests.

use samsarrow_broker::Broker;
use samsarrow_wire::messages::share_acknowledge::{AcknowledgePartition, AcknowledgeTopic};
use samsarrow_wire::messages::share_fetch::{AcknowledgementBatch, FetchPartition, FetchTopic, PartitionData};
use samsarrow_wire::messages::{
    MetadataRequest, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, Uuid, metadata,
};

use super::Client;

pub(crate) const GROUP: &str = "shares";

/// Acknowledgement of a range: first offset, last offset, types.
pub(crate) type Ack = (i64, i64, Vec<i8>);
/// Acquired range: first offset, last offset, delivery count.
pub(crate) type Acquired = (i64, i64, i16);

/// A member with a connection to node 0, which reads topic `t`.
pub(crate) struct Member {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) epoch: i32,
    pub(crate) session_epoch: i32,
    pub(crate) topic: Uuid,
    /// Acquire mode: 0 for a soft record limit, 1 for a strict one.
    pub(crate) mode: i8,
    pub(crate) max_records: i32,
    pub(crate) max_wait_ms: i32,
}

/// Returns the id of a topic.
pub(crate) async fn topic_id(client: &mut Client, topic: &str) -> Uuid {
    let topics = vec![metadata::MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() }];
    let request = MetadataRequest { topics: Some(topics), ..Default::default() };
    client.call(12, &request).await.topics.remove(0).topic_id
}

impl Member {
    pub(crate) async fn new(broker: &Broker, id: &str) -> Member {
        let mut client = Client::connect(broker, 0).await;
        let topic = topic_id(&mut client, "t").await;
        Member {
            client,
            id: id.to_owned(),
            epoch: 0,
            session_epoch: 0,
            topic,
            mode: 0,
            max_records: 500,
            max_wait_ms: 0,
        }
    }

    pub(crate) async fn heartbeat(&mut self, topics: Option<&[&str]>) -> ShareGroupHeartbeatResponse {
        let request = ShareGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            subscribed_topic_names: topics.map(|topics| topics.iter().map(|&topic| topic.to_owned()).collect()),
            ..Default::default()
        };
        let response = self.client.call(1, &request).await;
        if response.error_code == 0 {
            self.epoch = response.member_epoch;
        }
        response
    }

    pub(crate) fn fetch_request(&self, acks: &[Ack]) -> ShareFetchRequest {
        let partition = FetchPartition { acknowledgement_batches: batches(acks), ..Default::default() };
        ShareFetchRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.session_epoch,
            max_wait_ms: self.max_wait_ms,
            min_bytes: 1,
            max_bytes: 50 << 20,
            max_records: self.max_records,
            batch_size: self.max_records,
            share_acquire_mode: self.mode,
            topics: vec![FetchTopic { topic_id: self.topic, partitions: vec![partition], ..Default::default() }],
            ..Default::default()
        }
    }

    pub(crate) async fn send(&mut self, request: &ShareFetchRequest) -> ShareFetchResponse {
        let response = self.client.call(2, request).await;
        self.session_epoch += 1;
        response
    }

    /// Sends acknowledgements, and returns the partition's response.
    pub(crate) async fn fetch(&mut self, acks: &[Ack]) -> PartitionData {
        let mut response = self.send(&self.fetch_request(acks)).await;
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        match response.responses.pop() {
            Some(mut topic) => topic.partitions.remove(0),
            None => PartitionData::default(),
        }
    }

    /// Returns the acquired ranges of a fetch without acknowledgements.
    pub(crate) async fn acquire(&mut self) -> Vec<Acquired> {
        let partition = self.fetch(&[]).await;
        assert_eq!(partition.error_code, 0);
        partition.acquired_records.iter().map(|r| (r.first_offset, r.last_offset, r.delivery_count)).collect()
    }

    pub(crate) fn acknowledge_request(&self, acks: &[Ack]) -> ShareAcknowledgeRequest {
        let partition = AcknowledgePartition { acknowledgement_batches: batches(acks), ..Default::default() };
        ShareAcknowledgeRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.id.clone()),
            share_session_epoch: self.session_epoch,
            topics: vec![AcknowledgeTopic { topic_id: self.topic, partitions: vec![partition], ..Default::default() }],
            ..Default::default()
        }
    }

    pub(crate) async fn acknowledge(&mut self, acks: &[Ack]) -> ShareAcknowledgeResponse {
        let response = self.client.call(2, &self.acknowledge_request(acks)).await;
        self.session_epoch += 1;
        response
    }

    /// Closes the session.
    pub(crate) async fn close(&mut self) -> i16 {
        self.session_epoch = -1;
        let request = ShareAcknowledgeRequest { topics: Vec::new(), ..self.acknowledge_request(&[]) };
        self.client.call(2, &request).await.error_code
    }
}

fn batches(acks: &[Ack]) -> Vec<AcknowledgementBatch> {
    let batch = |(first, last, types): &Ack| AcknowledgementBatch {
        first_offset: *first,
        last_offset: *last,
        acknowledge_types: types.clone(),
        ..Default::default()
    };
    acks.iter().map(batch).collect()
}
