//! Joining a generation: JoinGroup, the leader's assignment, SyncGroup.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::sync_group::SyncGroupRequestAssignment;
use samsarrow_wire::messages::{JoinGroupRequest, SyncGroupRequest};

use super::{Classic, Joined, Led};
use crate::blocking::blocking;
use crate::cluster::ConnectionKind;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::group::assignor::{self, Members, Subscription, Topics};
use crate::group::member::{End, millis};
use crate::retry::Retry;
use crate::types::TopicPartition;

const PROTOCOL_TYPE: &str = "consumer";

impl Classic<'_> {
    /// Joins and syncs. The inner error is the reason to join again.
    pub(super) async fn join(
        &self,
        names: BTreeSet<String>,
        version: u64,
    ) -> std::result::Result<Result<(Joined, Vec<TopicPartition>)>, End> {
        let mut retry = Retry::endless(self.cluster.options());
        let mut named = false;
        let answer = loop {
            let asked = tokio::select! {
                biased;
                () = self.membership.overdue() => return Err(End::Overdue),
                asked = self.ask_to_join(&names) => asked,
            };
            let answer = match asked {
                Ok((_, answer)) => answer,
                Err(error) => {
                    if error.retriable() {
                        self.trouble("JoinGroup", &error);
                    }
                    retry.again(error, || "JoinGroup".into()).await.map_err(End::Fatal)?;
                    continue;
                }
            };
            let code = ErrorCode::from_i16(answer.error_code);
            match code {
                ErrorCode::NONE => break answer,
                // The coordinator assigns a member id this way; the first time, the request is repeated without a
                // delay.
                ErrorCode::MEMBER_ID_REQUIRED if !std::mem::replace(&mut named, true) => {
                    self.membership.set_member_id(&answer.member_id);
                }
                _ => {
                    if code == ErrorCode::MEMBER_ID_REQUIRED {
                        self.membership.set_member_id(&answer.member_id);
                    }
                    let error = self.refused(code, "JoinGroup")?;
                    tracing::debug!(group = self.coordinator.group(), %error, "trying again");
                    retry.wait(error, || "JoinGroup".into()).await.map_err(End::Fatal)?;
                }
            }
        };
        let (generation, leads) = (answer.generation_id, answer.leader == answer.member_id);
        self.membership.set_member_id(&answer.member_id);
        tracing::info!(
            group = self.coordinator.group(),
            member_id = answer.member_id,
            generation,
            leads,
            protocol = answer.protocol_name.as_deref().unwrap_or_default(),
            "joined"
        );
        let led = if leads { Some(self.lead(&answer).await?) } else { None };
        let (led, assignments) = led.unzip();
        let partitions = self.sync(answer, assignments.unwrap_or_default()).await?;
        Ok(partitions.map(|partitions| (Joined { version, names, led }, partitions)))
    }

    async fn ask_to_join(&self, names: &BTreeSet<String>) -> Result<(i16, JoinGroupResponse)> {
        let identity = self.membership.identity();
        let owned = self.membership.owned();
        let previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (had, since) = match previous {
            Some(previous) if !self.cooperative() => previous,
            _ => (owned.clone(), identity.generation),
        };
        let mut protocols = Vec::with_capacity(self.assignors.len());
        for assignor in &self.assignors {
            let subscription = Subscription {
                topics: names.iter().cloned().collect(),
                user_data: assignor.user_data(&had, since)?,
                owned: owned.clone(),
                generation: Some(identity.generation).filter(|generation| *generation >= 0),
                rack: Some(self.rack.clone()).filter(|rack| !rack.is_empty()),
                instance_id: None,
            };
            protocols.push(JoinGroupRequestProtocol {
                name: assignor.name().to_owned(),
                metadata: subscription.encode(),
                ..Default::default()
            });
        }
        let request = JoinGroupRequest {
            group_id: self.coordinator.group().to_owned(),
            session_timeout_ms: millis(self.options.session_timeout),
            rebalance_timeout_ms: millis(self.options.max_poll_interval),
            member_id: identity.member_id,
            group_instance_id: identity.instance_id,
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols,
            reason: self.membership.take_reason(),
            ..Default::default()
        };
        // The coordinator responds when all members have joined, or after the longest of their poll intervals.
        let limit = self.cluster.options().request_timeout.max(self.options.max_poll_interval + Duration::from_secs(5));
        self.coordinator.with_connections(ConnectionKind::Group).ask(limit, |_| Ok(request)).await
    }

    /// Handles an error code of JoinGroup or SyncGroup: returns the error if the request can be retried, or the end of
    /// the membership.
    fn refused(&self, code: ErrorCode, api: &str) -> std::result::Result<Error, End> {
        let error = Error::server(code, format!("{api} in group {}", self.coordinator.group()));
        match code {
            // A coordinator that is still loading, as no id was sent.
            ErrorCode::UNKNOWN_MEMBER_ID if self.membership.identity().member_id.is_empty() => {}
            ErrorCode::UNKNOWN_MEMBER_ID => return Err(End::Fenced { keep_id: false, error }),
            ErrorCode::ILLEGAL_GENERATION => return Err(End::Fenced { keep_id: true, error }),
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.forget();
                self.cluster.request_refresh();
            }
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::MEMBER_ID_REQUIRED => {}
            ErrorCode::INVALID_SESSION_TIMEOUT => return Err(End::Fatal(self.session_refused(error))),
            code if code.retriable() => {}
            _ => return Err(End::Fatal(error)),
        }
        Ok(error)
    }

    fn session_refused(&self, error: Error) -> Error {
        error.context(format!(
            "session.timeout.ms={} is not between the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms (30000 in Kafka 0.9, 300000 before 2.3): set another",
            self.options.session_timeout.as_millis()
        ))
    }

    /// Assigns partitions to all members, as the leader of the group.
    async fn lead(
        &self,
        answer: &JoinGroupResponse,
    ) -> std::result::Result<(Led, Vec<SyncGroupRequestAssignment>), End> {
        let mut members = Members::new();
        for member in &answer.members {
            let mut subscription = Subscription::decode(member.metadata.clone()).map_err(End::Fatal)?;
            subscription.instance_id.clone_from(&member.group_instance_id);
            members.insert(member.member_id.clone(), subscription);
        }
        let names: BTreeSet<String> = members.values().flat_map(|member| member.topics.iter().cloned()).collect();
        let limit = self.cluster.options().default_api_timeout;
        // The session timeout has been running since the response to JoinGroup, so heartbeats are sent.
        let learn = self.learn(|| self.cluster.learn(&names, limit));
        let metadata = self.alive(Some(answer.generation_id), learn).await??;
        let topics = topics_of(&metadata, &names);
        let seen = self.seen(&metadata, &names);
        // A static leader that returned: all members keep their partitions (KIP-814).
        if answer.skip_assignment {
            return Ok((Led { names, seen }, Vec::new()));
        }
        let protocol = answer.protocol_name.as_deref().unwrap_or_default();
        let assignor = self.assignors.iter().find(|assignor| assignor.name() == protocol).ok_or_else(|| {
            let text = format!("the coordinator chose the assignor {protocol:?}, which this consumer did not offer");
            End::Fatal(Error::protocol("the coordinator", text))
        })?;
        // Custom assignors may take long, so heartbeats continue.
        let assignor = Arc::clone(assignor);
        let assign = blocking(move || assignor.assign(&topics, &members));
        let assigned = self.alive(Some(answer.generation_id), assign).await?;
        let assigned = assigned.and_then(|assigned| assigned).map_err(End::Fatal)?;
        let assignments = assigned.into_iter().map(|(member_id, partitions)| SyncGroupRequestAssignment {
            member_id,
            assignment: assignor::encode_assignment(&partitions, None),
            ..Default::default()
        });
        Ok((Led { names, seen }, assignments.collect()))
    }

    async fn sync(
        &self,
        answer: JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> std::result::Result<Result<Vec<TopicPartition>>, End> {
        let generation = answer.generation_id;
        let request = SyncGroupRequest {
            group_id: self.coordinator.group().to_owned(),
            generation_id: generation,
            member_id: answer.member_id.clone(),
            group_instance_id: self.membership.identity().instance_id,
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: answer.protocol_name,
            assignments,
            ..Default::default()
        };
        let limit = self.cluster.options().request_timeout.max(self.options.max_poll_interval + Duration::from_secs(5));
        let lane = self.coordinator.with_connections(ConnectionKind::Group);
        let asked = tokio::select! {
            biased;
            () = self.membership.overdue() => return Err(End::Overdue),
            asked = lane.ask(limit, |_| Ok(request)) => asked,
        };
        let answered = match asked {
            Ok((_, answered)) => answered,
            Err(error) if error.retriable() => return Ok(Err(error)),
            Err(error) => return Err(End::Fatal(error)),
        };
        let code = ErrorCode::from_i16(answered.error_code);
        if !code.is_none() {
            return self.refused(code, "SyncGroup").map(Err);
        }
        let (partitions, _) = assignor::decode_assignment(answered.assignment).map_err(End::Fatal)?;
        self.membership.joined(&answer.member_id, generation);
        Ok(Ok(partitions))
    }
}

/// Returns the racks of each partition's replicas, as input of assignors.
fn topics_of<'a>(metadata: &Metadata, names: impl IntoIterator<Item = &'a String>) -> Topics {
    let racks = |nodes: &[i32]| nodes.iter().filter_map(|node| metadata.racks.get(node).cloned()).collect();
    let known = names.into_iter().filter_map(|name| Some((name, metadata.topic(name)?)));
    known.map(|(name, topic)| (name.clone(), topic.partitions.iter().map(|p| racks(&p.replicas)).collect())).collect()
}
