//! Joining a generation: JoinGroup, the leader's assignment, SyncGroup.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::sync_group::SyncGroupRequestAssignment;
use samsarrow_wire::messages::{JoinGroupRequest, SyncGroupRequest};
use samsarrow_wire::sync::lock;

use super::{ClassicMember, JoinedGeneration, LeaderState};
use crate::blocking::blocking;
use crate::cluster::ConnectionKind;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::group::assignor::{self, Assignor, Members, Subscription, Topics};
use crate::group::member::{MembershipEnd, millis};
use crate::retry::Retry;
use crate::types::{TopicPartition, join_limited};

const PROTOCOL_TYPE: &str = "consumer";

impl ClassicMember<'_> {
    /// Joins a generation and receives its assignment. The inner error is the reason to join again.
    pub(super) async fn join(
        &self,
        names: BTreeSet<String>,
        version: u64,
    ) -> std::result::Result<Result<(JoinedGeneration, Vec<TopicPartition>)>, MembershipEnd> {
        let mut retry = Retry::endless(self.cluster.options());
        let mut has_member_id = false;
        let response = loop {
            let result = match self.join_protocols(&names).await? {
                Ok(protocols) => tokio::select! {
                    biased;
                    () = self.membership.poll_interval_exceeded() => return Err(MembershipEnd::PollIntervalExceeded),
                    result = self.send_join_group(protocols) => result,
                },
                Err(error) => Err(error),
            };
            let response = match result {
                Ok((_, response)) => response,
                Err(error) => {
                    if error.retriable() {
                        self.log_join_error("JoinGroup", &error);
                    }
                    retry.again(error, || "JoinGroup".into()).await.map_err(MembershipEnd::Fatal)?;
                    continue;
                }
            };
            let code = ErrorCode::from_i16(response.error_code);
            match code {
                ErrorCode::NONE => break response,
                // The coordinator has assigned a member id. The first time, the request is repeated without a delay.
                ErrorCode::MEMBER_ID_REQUIRED if !std::mem::replace(&mut has_member_id, true) => {
                    self.membership.set_member_id(&response.member_id);
                }
                _ => {
                    if code == ErrorCode::MEMBER_ID_REQUIRED {
                        self.membership.set_member_id(&response.member_id);
                    }
                    let error = self.check_error(code, "JoinGroup")?;
                    let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
                    tracing::debug!(client_id, group_id, "the group cannot be joined yet: {error}");
                    retry.wait(error, || "JoinGroup".into()).await.map_err(MembershipEnd::Fatal)?;
                }
            }
        };
        let (generation, is_leader) = (response.generation_id, response.leader == response.member_id);
        self.membership.set_member_id(&response.member_id);
        tracing::info!(
            client_id = self.coordinator.client_id(),
            group_id = self.coordinator.group(),
            member_id = response.member_id,
            assignor = response.protocol_name.as_deref().unwrap_or_default(),
            "joined generation {generation} of the group{}",
            if is_leader { " as its leader" } else { "" }
        );
        let leader = if is_leader { Some(self.assign_as_leader(&response).await?) } else { None };
        let (leader, assignments) = leader.unzip();
        let partitions = self.sync(response, assignments.unwrap_or_default()).await?;
        Ok(partitions.map(|partitions| (JoinedGeneration { version, names, leader }, partitions)))
    }

    /// Returns the subscription for JoinGroup, as each assignor encodes it.
    ///
    /// Custom assignors may take long, so they run on a thread for blocking work and heartbeats continue.
    async fn join_protocols(
        &self,
        names: &BTreeSet<String>,
    ) -> std::result::Result<Result<Vec<JoinGroupRequestProtocol>>, MembershipEnd> {
        let generation = self.membership.identity().generation;
        let owned = self.membership.owned();
        let previous = lock(&self.previous).clone();
        let (previous_partitions, previous_generation) = match previous {
            Some(previous) if !self.cooperative() => previous,
            _ => (owned.clone(), generation),
        };
        let topics: Vec<String> = names.iter().cloned().collect();
        let rack = Some(self.rack.clone()).filter(|rack| !rack.is_empty());
        let assignors = self.assignors.clone();
        let encode = move || {
            let protocol = |assignor: &Arc<dyn Assignor>| {
                let subscription = Subscription {
                    topics: topics.clone(),
                    user_data: assignor.user_data(&previous_partitions, previous_generation)?,
                    owned: owned.clone(),
                    generation: Some(generation).filter(|generation| *generation >= 0),
                    rack: rack.clone(),
                    instance_id: None,
                };
                Ok(JoinGroupRequestProtocol {
                    name: assignor.name().to_owned(),
                    metadata: subscription.encode(),
                    ..Default::default()
                })
            };
            assignors.iter().map(protocol).collect()
        };
        let protocols = self.with_heartbeats(None, blocking(encode)).await?;
        Ok(protocols.and_then(|protocols| protocols))
    }

    async fn send_join_group(&self, protocols: Vec<JoinGroupRequestProtocol>) -> Result<(i16, JoinGroupResponse)> {
        let identity = self.membership.identity();
        tracing::debug!(
            client_id = self.coordinator.client_id(),
            group_id = self.coordinator.group(),
            member_id = identity.member_id,
            "joining the group"
        );
        let request = JoinGroupRequest {
            group_id: self.coordinator.group().to_owned(),
            session_timeout_ms: millis(self.options.session_timeout),
            rebalance_timeout_ms: millis(self.options.max_poll_interval),
            member_id: identity.member_id,
            group_instance_id: identity.instance_id,
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols,
            reason: self.membership.take_join_reason(),
            ..Default::default()
        };
        // The coordinator responds when all members have joined, or after the longest of their poll intervals.
        let limit = self.cluster.options().request_timeout.max(self.options.max_poll_interval + Duration::from_secs(5));
        self.coordinator.with_connections(ConnectionKind::Group).ask(limit, |_| Ok(request)).await
    }

    /// Handles an error code of JoinGroup or SyncGroup: returns the error if the request can be retried, or the end of
    /// the membership.
    fn check_error(&self, code: ErrorCode, api: &str) -> std::result::Result<Error, MembershipEnd> {
        let error = Error::server(code, format!("{api} in group {}", self.coordinator.group()));
        match code {
            // No member id was sent, so the coordinator is still loading the group.
            ErrorCode::UNKNOWN_MEMBER_ID if self.membership.identity().member_id.is_empty() => {}
            ErrorCode::UNKNOWN_MEMBER_ID => return Err(MembershipEnd::Fenced { keep_id: false, error }),
            ErrorCode::ILLEGAL_GENERATION => return Err(MembershipEnd::Fenced { keep_id: true, error }),
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.forget();
                self.cluster.request_refresh();
            }
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::MEMBER_ID_REQUIRED => {}
            ErrorCode::INVALID_SESSION_TIMEOUT => {
                return Err(MembershipEnd::Fatal(self.session_timeout_rejected(error)));
            }
            code if code.retriable() => {}
            _ => return Err(MembershipEnd::Fatal(error)),
        }
        Ok(error)
    }

    fn session_timeout_rejected(&self, error: Error) -> Error {
        error.context(format!(
            "session.timeout.ms={} is not between the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms (30000 in Kafka 0.9, 300000 before 2.3): set another",
            self.options.session_timeout.as_millis()
        ))
    }

    /// Assigns partitions to all members, as the leader of the group.
    async fn assign_as_leader(
        &self,
        response: &JoinGroupResponse,
    ) -> std::result::Result<(LeaderState, Vec<SyncGroupRequestAssignment>), MembershipEnd> {
        let mut members = Members::new();
        for member in &response.members {
            let mut subscription = Subscription::decode(member.metadata.clone()).map_err(MembershipEnd::Fatal)?;
            subscription.instance_id.clone_from(&member.group_instance_id);
            members.insert(member.member_id.clone(), subscription);
        }
        let names: BTreeSet<String> = members.values().flat_map(|member| member.topics.iter().cloned()).collect();
        let limit = self.cluster.options().default_api_timeout;
        // The session timeout has been running since the response to JoinGroup, so heartbeats are sent.
        let metadata_lookup = self.retry_metadata(|| self.cluster.learn(&names, limit));
        let metadata = self.with_heartbeats(Some(response.generation_id), metadata_lookup).await??;
        let topics = assignor_topics(&metadata, &names);
        let snapshot = self.topic_snapshot(&metadata, &names);
        // A static leader has returned, so all members keep their partitions (KIP-814).
        if response.skip_assignment {
            return Ok((LeaderState { names, snapshot }, Vec::new()));
        }
        let protocol = response.protocol_name.as_deref().unwrap_or_default();
        let assignor = self.assignors.iter().find(|assignor| assignor.name() == protocol).ok_or_else(|| {
            let text = format!("the coordinator chose the assignor {protocol:?}, which this consumer did not offer");
            MembershipEnd::Fatal(Error::protocol("the coordinator", text))
        })?;
        // Custom assignors may take long, so heartbeats continue.
        let assignor = Arc::clone(assignor);
        let assign = blocking(move || assignor.assign(&topics, &members));
        let assigned = self.with_heartbeats(Some(response.generation_id), assign).await?;
        let assigned = assigned.and_then(|assigned| assigned).map_err(MembershipEnd::Fatal)?;
        tracing::debug!(
            client_id = self.coordinator.client_id(),
            group_id = self.coordinator.group(),
            assignor = protocol,
            "assigned {} partitions to {} members",
            assigned.values().map(Vec::len).sum::<usize>(),
            assigned.len()
        );
        let assignments = assigned.into_iter().map(|(member_id, partitions)| SyncGroupRequestAssignment {
            member_id,
            assignment: assignor::encode_assignment(&partitions, None),
            ..Default::default()
        });
        Ok((LeaderState { names, snapshot }, assignments.collect()))
    }

    async fn sync(
        &self,
        joined: JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> std::result::Result<Result<Vec<TopicPartition>>, MembershipEnd> {
        let generation = joined.generation_id;
        let request = SyncGroupRequest {
            group_id: self.coordinator.group().to_owned(),
            generation_id: generation,
            member_id: joined.member_id.clone(),
            group_instance_id: self.membership.identity().instance_id,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: joined.protocol_name,
            assignments,
            ..Default::default()
        };
        let limit = self.cluster.options().request_timeout.max(self.options.max_poll_interval + Duration::from_secs(5));
        let connections = self.coordinator.with_connections(ConnectionKind::Group);
        let result = tokio::select! {
            biased;
            () = self.membership.poll_interval_exceeded() => return Err(MembershipEnd::PollIntervalExceeded),
            result = connections.ask(limit, |_| Ok(request)) => result,
        };
        let response = match result {
            Ok((_, response)) => response,
            Err(error) if error.retriable() => return Ok(Err(error)),
            Err(error) => return Err(MembershipEnd::Fatal(error)),
        };
        let code = ErrorCode::from_i16(response.error_code);
        if !code.is_none() {
            return self.check_error(code, "SyncGroup").map(Err);
        }
        let (partitions, _) = assignor::decode_assignment(response.assignment).map_err(MembershipEnd::Fatal)?;
        self.membership.joined(&joined.member_id, generation);
        tracing::debug!(
            client_id = self.coordinator.client_id(),
            group_id = self.coordinator.group(),
            "generation {generation} assigns {} partitions to this member: {}",
            partitions.len(),
            join_limited(&partitions)
        );
        Ok(Ok(partitions))
    }
}

/// Returns the racks of each partition's replicas, as input of assignors.
fn assignor_topics<'a>(metadata: &Metadata, names: impl IntoIterator<Item = &'a String>) -> Topics {
    let racks = |nodes: &[i32]| nodes.iter().filter_map(|node| metadata.racks.get(node).cloned()).collect();
    let known = names.into_iter().filter_map(|name| Some((name, metadata.topic(name)?)));
    known.map(|(name, topic)| (name.clone(), topic.partitions.iter().map(|p| racks(&p.replicas)).collect())).collect()
}
