//! Membership by the consumer protocol (KIP-848): the coordinator computes the assignment and sends it in heartbeat
//! responses.
//!
//! A member first revokes partitions and reports the revocation, and receives new partitions only afterwards. So the
//! coordinator never assigns a partition to two members.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::member::{Member, MembershipEnd, millis};
use super::membership::{Owned, Rebalance, RejoinReason};
use super::subscription::Subscription;
use crate::defects::Defect;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// Epoch of a static member that leaves and will return.
const LEAVE_STATIC: i32 = -2;
/// First version of ConsumerGroupHeartbeat with patterns and with member ids chosen by the client.
const CLIENT_MEMBER_IDS: i16 = 1;
/// Heartbeat interval until the coordinator sends another interval.
const INITIAL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum delay before a failed heartbeat is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum time for which a static member waits for a predecessor that did not leave: Kafka's default of
/// `group.consumer.max.session.timeout.ms`. A predecessor that is a member for longer is still running.
const MAX_SESSION_TIMEOUT: Duration = Duration::from_secs(60);

type Reconciliation<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type SubscriptionLookup<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<Option<SubscribedTopics>, MembershipEnd>> + Send + 'a>>;

/// Subscription with the names of its topics.
#[derive(Debug, Clone)]
struct SubscribedTopics {
    subscription: Arc<Subscription>,
    version: u64,
    names: BTreeSet<String>,
}

/// Runs one membership until it ends.
pub(super) async fn live(member: &Member) -> MembershipEnd {
    let identity = member.membership.identity();
    if identity.member_id.is_empty() {
        member.membership.set_member_id(&new_id());
    }
    member.join_sent.store(false, Ordering::Release);
    let consumer = ConsumerMember {
        member,
        epoch: JOIN,
        interval: INITIAL_INTERVAL,
        reported: None,
        version: 0,
        topics: None,
        unresolved: None,
        target: None,
        owned_before_revocation: None,
        unnamed_topics: BTreeSet::new(),
    };
    match consumer.run().await {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

enum Never {}

/// One membership, from joining to its end.
struct ConsumerMember<'a> {
    member: &'a Member,
    epoch: i32,
    interval: Duration,
    /// Partitions last reported to the coordinator as owned.
    reported: Option<Owned>,
    /// Version of the subscription that was sent.
    version: u64,
    /// Newest subscription whose topics are known.
    topics: Option<SubscribedTopics>,
    /// Last assignment from the coordinator, if the names of its topics are not known yet.
    unresolved: Option<Assignment>,
    /// Partitions that the coordinator has assigned.
    target: Option<Owned>,
    /// Partitions owned before a revocation, which are reported until the last commits have completed.
    owned_before_revocation: Option<Owned>,
    /// Assigned topics without a known name. Each of these topics is logged once.
    unnamed_topics: BTreeSet<Uuid>,
}

impl<'a> ConsumerMember<'a> {
    async fn run(mut self) -> std::result::Result<Never, MembershipEnd> {
        let membership = &self.member.membership;
        let mut reconciliation: Option<Reconciliation<'a>> = None;
        let mut lookup: Option<SubscriptionLookup<'a>> = None;
        self.heartbeat().await?;
        let mut next = Instant::now() + self.interval;
        loop {
            // A newer assignment replaces an event that the application has not taken yet: heartbeats do not report
            // its partitions, so the coordinator may have assigned them to another member.
            if self.unresolved.is_some()
                && reconciliation.is_some()
                && !Defect::StaleAssignment.is_on()
                && membership.withdraw()
            {
                reconciliation = None;
                self.owned_before_revocation = None;
            }
            if let Some(assignment) = self.unresolved.take_if(|assignment| self.member.knows_topics(assignment)) {
                self.target = Some(self.resolve_names(assignment)?);
            }
            // Heartbeats do not wait for metadata, because it comes from other brokers, which may be slow.
            if self.unresolved.is_some() && lookup.is_none() {
                lookup = Some(Box::pin(look_up_subscription(self.member, true)));
            }
            // Waits for the topic names of a newer assignment, because that may revoke partitions of the current
            // assignment.
            if reconciliation.is_none() && self.unresolved.is_none() {
                reconciliation = self.reconcile();
            }
            let looking_up = lookup.is_some();
            let looked_up = async {
                match lookup.as_mut() {
                    Some(lookup) => lookup.await,
                    None => std::future::pending().await,
                }
            };
            let reconciled = async {
                match reconciliation.as_mut() {
                    Some(reconciliation) => reconciliation.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = reconciled => {
                    reconciliation = None;
                    self.owned_before_revocation = None;
                    membership.finish_revocation();
                }
                reason = membership.rejoin_reason() => {
                    if reason != RejoinReason::RebalanceInProgress {
                        let error = Error::server(ErrorCode::UNKNOWN_MEMBER_ID, "response to a commit");
                        return Err(MembershipEnd::Fenced { keep_id: true, error });
                    }
                }
                topics = looked_up => {
                    lookup = None;
                    self.topics = topics?.or(self.topics.take());
                    // A topic without a name is omitted; the coordinator then sends the assignment again.
                    if let Some(assignment) = self.unresolved.take() {
                        self.target = Some(self.resolve_names(assignment)?);
                    }
                    if self.topics.as_ref().is_some_and(|topics| topics.version == self.version) {
                        continue;
                    }
                }
                () = membership.subscription_changed(self.known_version()), if !looking_up => {
                    lookup = Some(Box::pin(look_up_subscription(self.member, false)));
                    continue;
                }
                () = membership.poll_interval_exceeded() => return Err(MembershipEnd::PollIntervalExceeded),
                () = sleep_until(next) => {}
            }
            // A heartbeat is never cancelled, because the coordinator sends an assignment only once.
            self.heartbeat().await?;
            next = Instant::now() + self.interval;
        }
    }

    /// Starts the next step from the owned partitions to the target assignment, if they differ.
    fn reconcile(&mut self) -> Option<Reconciliation<'a>> {
        let target = self.target.clone()?;
        let owned: Owned = self.member.membership.owned().into_iter().collect();
        let revoked: Vec<TopicPartition> = owned.difference(&target).cloned().collect();
        let new = target.difference(&owned).count();
        if revoked.len() + new > 0 {
            tracing::debug!(
                client_id = self.member.coordinator.client_id(),
                group_id = self.member.coordinator.group(),
                epoch = self.epoch,
                "the coordinator assigns {} partitions to this member: {} stay, {new} are new, {} are revoked",
                target.len(),
                owned.len() - revoked.len(),
                revoked.len()
            );
        }
        let event = if !revoked.is_empty() {
            self.owned_before_revocation = Some(owned);
            Rebalance::Revoked(revoked)
        } else if owned != target {
            Rebalance::Assigned(target.difference(&owned).cloned().collect())
        } else {
            return None;
        };
        let member = self.member;
        Some(Box::pin(async move {
            member.dispatch(|_| Some(event.clone())).await;
            if matches!(event, Rebalance::Revoked(_)) {
                member.flush_commits().await;
            }
        }))
    }

    /// Sends a heartbeat and retries it until the coordinator responds.
    async fn heartbeat(&mut self) -> std::result::Result<(), MembershipEnd> {
        let member = self.member;
        let group = member.coordinator.group();
        let mut backoff = member.cluster.backoff();
        let mut predecessor = Predecessor::default();
        let mut may_hold_instance_id = true;
        loop {
            let owned =
                self.owned_before_revocation.clone().unwrap_or_else(|| member.membership.owned().into_iter().collect());
            let error = match self.send_heartbeat(&owned).await {
                Ok((topics, response)) => {
                    let code = ErrorCode::from_i16(response.error_code);
                    if code.is_none() {
                        self.version = topics.version;
                        self.topics = Some(topics);
                        self.reported = Some(owned);
                        self.apply_response(response);
                        return Ok(());
                    }
                    let text = response.error_message.filter(|text| !text.is_empty());
                    let context = format!("ConsumerGroupHeartbeat in group {group}");
                    let error = Error::explained(code, context, text);
                    match code {
                        ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID => {
                            return Err(MembershipEnd::Fenced { keep_id: true, error });
                        }
                        ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                            member.coordinator.forget();
                            member.cluster.request_refresh();
                        }
                        // Kafka 3.7 to 3.9 know the request but reject it unless the protocol is enabled.
                        ErrorCode::UNSUPPORTED_VERSION => return Err(protocol_unsupported(&error.to_string())),
                        // The coordinator rejects the join of a member that it has accepted before.
                        ErrorCode::UNRELEASED_INSTANCE_ID if may_hold_instance_id => {
                            let released = self.release_instance_id().await;
                            may_hold_instance_id = released.as_ref().is_err_and(Error::retriable);
                            if released.is_ok() {
                                continue;
                            }
                        }
                        ErrorCode::UNRELEASED_INSTANCE_ID if predecessor.may_expire(Instant::now()) => {
                            member.log_instance_in_use(&error);
                        }
                        ErrorCode::UNRELEASED_INSTANCE_ID => return Err(instance_in_use(error)),
                        code if code.retriable() => {}
                        _ => return Err(MembershipEnd::Fatal(error)),
                    }
                    if code != ErrorCode::UNRELEASED_INSTANCE_ID {
                        predecessor = Predecessor::default();
                    }
                    error
                }
                Err(Error::UnsupportedVersion(text)) => return Err(protocol_unsupported(&text)),
                Err(error) if error.retriable() => {
                    // The response may have been lost with the connection, so the next heartbeat contains all fields.
                    self.reported = None;
                    may_hold_instance_id = true;
                    predecessor = Predecessor::default();
                    error
                }
                Err(error) => return Err(MembershipEnd::Fatal(error)),
            };
            if self.epoch == JOIN {
                member.log_join_error("ConsumerGroupHeartbeat", &error);
            } else {
                let client_id = member.coordinator.client_id();
                tracing::debug!(client_id, group_id = group, "a heartbeat failed and is repeated: {error}");
            }
            tokio::time::sleep(backoff.next_delay().min(MAX_RETRY_DELAY)).await;
        }
    }

    /// Releases the `group.instance.id` if this member holds it, because the response to its join was lost or because
    /// it was fenced, instead of waiting until that session ends.
    async fn release_instance_id(&self) -> Result<()> {
        let member = self.member;
        let limit = member.cluster.options().request_timeout;
        let (_, response) = member.coordinator.ask(limit, |_| Ok(leave_request(member))).await?;
        match ErrorCode::from_i16(response.error_code) {
            code if code.is_none() => Ok(()),
            code => Err(Error::server(code, "ConsumerGroupHeartbeat before a join is repeated")),
        }
    }

    /// Returns the version of the newest subscription whose topics are known.
    fn known_version(&self) -> u64 {
        self.topics.as_ref().map_or(self.version, |topics| topics.version)
    }

    async fn send_heartbeat(&self, owned: &Owned) -> Result<(SubscribedTopics, ConsumerGroupHeartbeatResponse)> {
        let member = self.member;
        let topics = match &self.topics {
            Some(topics) if self.epoch != JOIN => topics.clone(),
            // Before joining, there is no membership that could time out while metadata is requested.
            _ => {
                let (subscription, version) = member.membership.current_subscription().await;
                let names = member.subscribed_topics(&subscription, version).await?;
                SubscribedTopics { subscription, version, names }
            }
        };
        let identity = member.membership.identity();
        let full = self.epoch == JOIN || self.reported.is_none();
        let subscription_changed = full || topics.version != self.version;
        let ids = if full || self.reported.as_ref() != Some(owned) { Some(topics_by_id(member, owned)?) } else { None };
        // Brokers that do not support patterns receive the names of the topics that match now.
        let names = Some(topics.names.clone()).filter(|_| subscription_changed);
        let build = |version: i16| {
            // In version 0 the coordinator chooses the member id. Without a response, the member does not know its id
            // and cannot leave.
            if version >= CLIENT_MEMBER_IDS {
                member.join_sent.store(true, Ordering::Release);
            }
            let pattern = topics.subscription.pattern_text().filter(|_| version >= CLIENT_MEMBER_IDS);
            Ok(ConsumerGroupHeartbeatRequest {
                group_id: member.coordinator.group().to_owned(),
                member_id: if version < CLIENT_MEMBER_IDS && self.epoch == JOIN {
                    String::new()
                } else {
                    identity.member_id.clone()
                },
                member_epoch: self.epoch,
                instance_id: identity.instance_id.clone(),
                rack_id: Some(member.rack.clone()).filter(|rack| full && !rack.is_empty()),
                rebalance_timeout_ms: if full { millis(member.options.max_poll_interval) } else { -1 },
                subscribed_topic_names: names.filter(|_| pattern.is_none()).map(|names| names.into_iter().collect()),
                subscribed_topic_regex: pattern.filter(|_| subscription_changed).map(str::to_owned),
                server_assignor: member.options.remote_assignor.clone().filter(|_| full),
                topic_partitions: ids,
                ..Default::default()
            })
        };
        let limit = member.cluster.options().request_timeout;
        let (_, response) = member.coordinator.ask(limit, build).await?;
        Ok((topics, response))
    }

    /// Applies the member epoch, the heartbeat interval and the assignment of a heartbeat response.
    fn apply_response(&mut self, response: ConsumerGroupHeartbeatResponse) {
        let member = self.member;
        let id = response.member_id.filter(|id| !id.is_empty()).unwrap_or(member.membership.identity().member_id);
        if self.epoch != response.member_epoch {
            let (client_id, group_id) = (member.coordinator.client_id(), member.coordinator.group());
            let epoch = response.member_epoch;
            if self.epoch == JOIN {
                tracing::info!(client_id, group_id, member_id = id, epoch, "joined the group");
            } else {
                tracing::debug!(client_id, group_id, member_id = id, "the member epoch is {epoch}");
            }
            self.epoch = response.member_epoch;
            member.log_recovered();
            member.membership.joined(&id, response.member_epoch);
        }
        if response.heartbeat_interval_ms > 0 {
            self.interval = Duration::from_millis(u64::try_from(response.heartbeat_interval_ms).unwrap_or(5000));
        }
        self.unresolved = response.assignment.or(self.unresolved.take());
    }

    /// Returns the assignment by topic name. Topics with an unknown id are omitted; the coordinator sends these topics
    /// again.
    fn resolve_names(&mut self, assignment: Assignment) -> std::result::Result<Owned, MembershipEnd> {
        let metadata = self.member.cluster.metadata();
        // All brokers with this protocol return topic ids, unless `api.version.metadata` selects an older Metadata
        // version.
        if !self.member.knows_topics(&assignment) && metadata.topics().any(|topic| topic.topic_id.is_zero()) {
            let text = "group.protocol=consumer needs the ids of topics, which Metadata has from version 10 (Kafka 2.8) \
                        on: omit api.version.metadata, or set group.protocol to classic";
            return Err(MembershipEnd::Fatal(Error::UnsupportedVersion(text.to_owned())));
        }
        let mut owned = Owned::new();
        let mut unnamed_topics = BTreeSet::new();
        for topic in assignment.topic_partitions {
            match metadata.topic_name(&topic.topic_id) {
                Some(name) => {
                    let name: Arc<str> = name.into();
                    owned.extend(topic.partitions.into_iter().map(|p| TopicPartition::new(Arc::clone(&name), p)));
                }
                None => {
                    let topic_id = topic.topic_id;
                    if unnamed_topics.insert(topic_id) && !self.unnamed_topics.contains(&topic_id) {
                        let (client_id, group_id) =
                            (self.member.coordinator.client_id(), self.member.coordinator.group());
                        tracing::warn!(
                            client_id,
                            group_id,
                            "the coordinator assigned a topic that the metadata does not have yet (id {topic_id:?})"
                        );
                    }
                    // Makes the next heartbeat contain all fields, so that the coordinator sends the assignment again.
                    self.reported = None;
                }
            }
        }
        self.unnamed_topics = unnamed_topics;
        Ok(owned)
    }
}

/// Time since the coordinator rejects joins without interruption, because it has a member with the same
/// `group.instance.id`. A coordinator that takes over begins all sessions again, so errors of other kinds interrupt it.
#[derive(Default)]
struct Predecessor(Option<Instant>);

impl Predecessor {
    /// Returns true if the session of the other member may still expire, so that it need not be running.
    fn may_expire(&mut self, now: Instant) -> bool {
        now - *self.0.get_or_insert(now) < MAX_SESSION_TIMEOUT
    }
}

impl Member {
    /// Logs a warning, once, that the previous member with this `group.instance.id` did not leave.
    fn log_instance_in_use(&self, error: &Error) {
        if !self.join_error_logged.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                client_id = self.coordinator.client_id(),
                group_id = self.coordinator.group(),
                instance_id = self.options.instance_id,
                %error,
                "the previous member with this group.instance.id did not leave: this one joins when that session \
                 ends, after the broker's group.consumer.session.timeout.ms at the latest (45 s by default)"
            );
        }
    }

    /// Returns true if the metadata has a name for every topic of an assignment.
    fn knows_topics(&self, assignment: &Assignment) -> bool {
        let metadata = self.cluster.metadata();
        assignment.topic_partitions.iter().all(|topic| metadata.topic_name(&topic.topic_id).is_some())
    }
}

/// Looks up the subscribed topics. With `refresh`, also refreshes the metadata, which then names the topics of an
/// assignment. Returns `None` if no broker responded.
async fn look_up_subscription(
    member: &Member,
    refresh: bool,
) -> std::result::Result<Option<SubscribedTopics>, MembershipEnd> {
    let (subscription, version) = member.membership.current_subscription().await;
    let looked_up = async {
        let names = member.subscribed_topics(&subscription, version).await?;
        if refresh {
            member.cluster.refresh(member.cluster.options().request_timeout).await?;
        }
        Ok(names)
    };
    match looked_up.await {
        Ok(names) => Ok(Some(SubscribedTopics { subscription, version, names })),
        Err(error) if Error::retriable(&error) => {
            let (client_id, group_id) = (member.coordinator.client_id(), member.coordinator.group());
            tracing::debug!(client_id, group_id, "no metadata of subscribed or assigned topics yet: {error}");
            tokio::time::sleep(MAX_RETRY_DELAY).await;
            Ok(None)
        }
        Err(error) => Err(MembershipEnd::Fatal(error)),
    }
}

fn topics_by_id(member: &Member, owned: &Owned) -> Result<Vec<TopicPartitions>> {
    let metadata = member.cluster.metadata();
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for tp in owned {
        // Partitions of a deleted topic, which has no id, are not reported as owned.
        if let Some(topic) = metadata.topic(&tp.topic) {
            topics.entry(topic.topic_id).or_default().push(tp.partition);
        }
    }
    Ok(topics
        .into_iter()
        .map(|(topic_id, partitions)| TopicPartitions { topic_id, partitions, ..Default::default() })
        .collect())
}

/// Leaves the group; a static member announces that it will return.
pub(super) async fn leave(member: &Member, reason: &str) {
    let identity = member.membership.identity();
    if identity.generation < 0 && !member.join_sent.load(Ordering::Acquire) {
        return;
    }
    let limit = member.cluster.options().request_timeout;
    match timeout(limit, member.coordinator.ask(limit, |_| Ok(leave_request(member)))).await {
        Ok(Ok(_)) => member.log_left(reason),
        Ok(Err(error)) => member.log_not_left(&error),
        Err(_) => {}
    }
}

/// Returns the heartbeat that makes the member leave.
fn leave_request(member: &Member) -> ConsumerGroupHeartbeatRequest {
    let identity = member.membership.identity();
    ConsumerGroupHeartbeatRequest {
        group_id: member.coordinator.group().to_owned(),
        member_id: identity.member_id,
        member_epoch: if identity.instance_id.is_some() { LEAVE_STATIC } else { LEAVE },
        instance_id: identity.instance_id,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

/// Returns a random member id in Kafka's format.
pub(crate) fn new_id() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..22).map(|_| char::from(*fastrand::choice(DIGITS).unwrap_or(&b'A'))).collect()
}

/// Returns the error for a static member whose `group.instance.id` is still in use after the session timeout.
fn instance_in_use(error: Error) -> MembershipEnd {
    MembershipEnd::Fatal(
        error.context("another consumer runs with this group.instance.id: set a different one for each consumer"),
    )
}

/// Returns the error for a broker that does not support this protocol.
fn protocol_unsupported(text: &str) -> MembershipEnd {
    MembershipEnd::Fatal(Error::UnsupportedVersion(format!(
        "{text}: brokers before Kafka 4.0 need group.protocol=classic"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_of_a_predecessor_expires_after_an_uninterrupted_minute() {
        let start = Instant::now();
        let second = |second| start + Duration::from_secs(second);
        let mut predecessor = Predecessor::default();
        assert!(predecessor.may_expire(second(0)) && predecessor.may_expire(second(59)));
        assert!(!predecessor.may_expire(second(60)));
        // Another coordinator has taken over.
        predecessor = Predecessor::default();
        assert!(predecessor.may_expire(second(61)) && predecessor.may_expire(second(120)));
        assert!(!predecessor.may_expire(second(121)));
    }
}
