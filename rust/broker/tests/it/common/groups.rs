//! Clients that act as group members, each with its own connection.

use std::time::{Duration, Instant};

use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, GroupOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use samsarrow_wire::messages::sync_group::{SyncGroupRequestAssignment, SyncGroupResponse};
use samsarrow_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest, SyncGroupRequest,
};

use super::{Client, TIMEOUT};

pub(crate) const GROUP: &str = "g";

/// Returns options without a minimum session timeout, so that tests need not wait long for sessions to expire.
pub(crate) fn short_sessions() -> GroupOptions {
    GroupOptions { min_session_timeout: Duration::ZERO, ..GroupOptions::default() }
}

pub(crate) async fn broker_with(brokers: usize, groups: GroupOptions) -> Broker {
    let topics = vec![("t".to_owned(), 2)];
    Broker::start(BrokerOptions { brokers, topics, groups, ..BrokerOptions::default() }).await.unwrap()
}

/// Waits until the group has the given state.
pub(crate) async fn wait_until_state(broker: &Broker, state: &str) {
    let began = Instant::now();
    while broker.group_state(GROUP) != Some(state) {
        assert!(began.elapsed() < TIMEOUT, "{:?} instead of {state}", broker.group_state(GROUP));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Client side of a group member.
pub(crate) struct Member {
    pub(crate) client: Client,
    pub(crate) version: i16,
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) session: Duration,
    pub(crate) rebalance: Duration,
    /// Metadata for all protocols of the member. By default each protocol has a generated text.
    pub(crate) metadata: Option<Bytes>,
}

impl Member {
    pub(crate) async fn new(broker: &Broker) -> Member {
        let node = broker.coordinator(GROUP).unwrap().try_into().unwrap();
        Member {
            client: Client::connect(broker, node).await,
            version: 9,
            id: String::new(),
            instance: None,
            generation: -1,
            protocols: vec!["range"],
            session: Duration::from_secs(10),
            rebalance: Duration::from_secs(10),
            metadata: None,
        }
    }

    pub(crate) async fn named(broker: &Broker, instance: &str) -> Member {
        Member { instance: Some(instance.to_owned()), ..Member::new(broker).await }
    }

    pub(crate) fn join_request(&self) -> JoinGroupRequest {
        let protocol = |name: &&str| JoinGroupRequestProtocol {
            name: (*name).to_owned(),
            metadata: self.metadata.clone().unwrap_or_else(|| format!("{name} of {}", self.id).into()),
            ..Default::default()
        };
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap();
        JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: millis(self.session),
            rebalance_timeout_ms: millis(self.rebalance),
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: self.protocols.iter().map(protocol).collect(),
            ..Default::default()
        }
    }

    pub(crate) async fn send_join(&mut self) {
        let request = self.join_request();
        self.client.send(self.version, &request).await;
    }

    pub(crate) async fn joined(&mut self) -> JoinGroupResponse {
        let response = self.client.receive::<JoinGroupRequest>(self.version).await;
        if matches!(ErrorCode::from_i16(response.error_code), ErrorCode::NONE | ErrorCode::MEMBER_ID_REQUIRED) {
            self.id.clone_from(&response.member_id);
            self.generation = response.generation_id;
        }
        response
    }

    /// Sends JoinGroup. If the version requires a member id, first obtains one with another JoinGroup request.
    pub(crate) async fn enter(&mut self) {
        if self.version >= 4 && self.instance.is_none() && self.id.is_empty() {
            self.send_join().await;
            let response = self.joined().await;
            assert_eq!(response.error_code, ErrorCode::MEMBER_ID_REQUIRED.code());
            assert!(response.member_id.starts_with("test-"), "{}", response.member_id);
        }
        self.send_join().await;
    }

    pub(crate) async fn join(&mut self) -> JoinGroupResponse {
        self.enter().await;
        self.joined().await
    }

    pub(crate) fn sync_request(&self, assigned: &[(&str, &'static str)]) -> SyncGroupRequest {
        let assignment_for = |(id, assignment): &(&str, &'static str)| SyncGroupRequestAssignment {
            member_id: (*id).to_owned(),
            assignment: Bytes::from_static(assignment.as_bytes()),
            ..Default::default()
        };
        SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some(self.protocols[0].to_owned()),
            assignments: assigned.iter().map(assignment_for).collect(),
            ..Default::default()
        }
    }

    pub(crate) async fn send_sync(&mut self, assigned: &[(&str, &'static str)]) {
        let request = self.sync_request(assigned);
        self.client.send(self.version.min(5), &request).await;
    }

    pub(crate) async fn synced(&mut self) -> SyncGroupResponse {
        self.client.receive::<SyncGroupRequest>(self.version.min(5)).await
    }

    /// Sends SyncGroup and returns the error code and the assignment.
    pub(crate) async fn sync(&mut self, assigned: &[(&str, &'static str)]) -> (ErrorCode, String) {
        self.send_sync(assigned).await;
        let response = self.synced().await;
        (ErrorCode::from_i16(response.error_code), String::from_utf8(response.assignment.to_vec()).unwrap())
    }

    /// Joins an empty group, becomes its leader, and assigns `assignment` to itself.
    pub(crate) async fn join_as_leader(&mut self, assignment: &'static str) {
        let response = self.join().await;
        assert_eq!((response.error_code, &response.leader), (0, &self.id));
        let id = self.id.clone();
        assert_eq!(self.sync(&[(&id, assignment)]).await, (ErrorCode::NONE, assignment.to_owned()));
    }

    pub(crate) async fn heartbeat(&mut self) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            ..Default::default()
        };
        ErrorCode::from_i16(self.client.call(self.version.min(4), &request).await.error_code)
    }

    pub(crate) async fn leave(&mut self) -> LeaveGroupResponse {
        let mut request = LeaveGroupRequest { group_id: GROUP.to_owned(), ..Default::default() };
        if self.version < 3 {
            request.member_id.clone_from(&self.id);
        } else {
            request.members = vec![identity(&self.id, self.instance.as_deref())];
        }
        self.client.call(self.version.min(5), &request).await
    }

    pub(crate) async fn commit(&mut self, offset: i64) -> ErrorCode {
        let mut request = commit_request(GROUP);
        request.topics[0].partitions[0].committed_offset = offset;
        request.generation_id_or_member_epoch = self.generation;
        request.member_id.clone_from(&self.id);
        request.group_instance_id.clone_from(&self.instance);
        let response = self.client.call(8, &request).await;
        ErrorCode::from_i16(response.topics[0].partitions[0].error_code)
    }
}

/// Returns a commit of offset 0 for partition 0 of topic `t`, without a member id.
pub(crate) fn commit_request(group: &str) -> OffsetCommitRequest {
    let partitions = vec![OffsetCommitRequestPartition::default()];
    let topic = OffsetCommitRequestTopic { name: "t".to_owned(), partitions, ..Default::default() };
    OffsetCommitRequest { group_id: group.to_owned(), topics: vec![topic], ..Default::default() }
}

pub(crate) fn identity(id: &str, instance: Option<&str>) -> MemberIdentity {
    MemberIdentity {
        member_id: id.to_owned(),
        group_instance_id: instance.map(str::to_owned),
        ..MemberIdentity::default()
    }
}
