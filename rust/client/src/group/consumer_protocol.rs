//! Membership by the consumer protocol (KIP-848): the coordinator computes the assignment and sends it in heartbeat
//! responses.
//!
//! A member first revokes partitions and reports that, and only then receives new ones: the coordinator ensures that no
//! partition is assigned twice.

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

use super::member::{End, Member, millis};
use super::membership::{Complaint, Owned, Rebalance};
use super::subscription::Wanted;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// Epoch of a static member that leaves and will return.
const LEAVE_FOR_NOW: i32 = -2;
/// First version with client-side member ids and patterns.
const OWN_IDS: i16 = 1;
/// Heartbeat interval until the coordinator has sent one.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum delay before a failed heartbeat is retried.
const AGAIN: Duration = Duration::from_millis(500);
/// Maximum wait of a static member for a predecessor that did not leave: Kafka's default of
/// `group.consumer.max.session.timeout.ms`. A predecessor that is still a member after that is running.
const SESSION: Duration = Duration::from_secs(60);

type Handing<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type Lookup<'a> = Pin<Box<dyn Future<Output = std::result::Result<Option<Topics>, End>> + Send + 'a>>;

/// Subscription with the names of its topics.
#[derive(Debug, Clone)]
struct Topics {
    wanted: Arc<Wanted>,
    version: u64,
    names: BTreeSet<String>,
}

/// Runs one membership until it ends.
pub(super) async fn live(member: &Member) -> End {
    let identity = member.membership.identity();
    if identity.member_id.is_empty() {
        member.membership.set_member_id(&new_id());
    }
    member.join_sent.store(false, Ordering::Release);
    let life = Life {
        member,
        epoch: JOIN,
        interval: FIRST_INTERVAL,
        told: None,
        version: 0,
        topics: None,
        assigned: None,
        target: None,
        before: None,
        strangers: BTreeSet::new(),
    };
    match life.run().await {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

enum Never {}

/// One membership, from joining to its end.
struct Life<'a> {
    member: &'a Member,
    epoch: i32,
    interval: Duration,
    /// Partitions last reported to the coordinator as owned.
    told: Option<Owned>,
    /// Version of the subscription that was sent.
    version: u64,
    /// Newest subscription whose topics are known.
    topics: Option<Topics>,
    /// Last assignment of the coordinator, until the names of its topics are known.
    assigned: Option<Assignment>,
    /// Partitions that the coordinator has assigned.
    target: Option<Owned>,
    /// Partitions owned before a revocation, which are reported until the last commits have completed.
    before: Option<Owned>,
    /// Assigned topics without a known name, each of which is logged once.
    strangers: BTreeSet<Uuid>,
}

impl<'a> Life<'a> {
    async fn run(mut self) -> std::result::Result<Never, End> {
        let membership = &self.member.membership;
        let mut handing: Option<Handing<'a>> = None;
        let mut lookup: Option<Lookup<'a>> = None;
        self.beat().await?;
        let mut next = Instant::now() + self.interval;
        loop {
            if let Some(assignment) = self.assigned.take_if(|assignment| self.member.can_name(assignment)) {
                self.target = Some(self.named(assignment)?);
            }
            // Metadata comes from other brokers, which may be slow: heartbeats do not wait for it.
            if self.assigned.is_some() && lookup.is_none() {
                lookup = Some(Box::pin(look_up(self.member, true)));
            }
            // Waits for the names of a newer assignment, which may revoke partitions of this one.
            if handing.is_none() && self.assigned.is_none() {
                handing = self.reconcile();
            }
            let looks = lookup.is_some();
            let looked = async {
                match lookup.as_mut() {
                    Some(lookup) => lookup.await,
                    None => std::future::pending().await,
                }
            };
            let handed = async {
                match handing.as_mut() {
                    Some(handing) => handing.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = handed => {
                    handing = None;
                    self.before = None;
                    membership.gave_up();
                }
                complaint = membership.complaint() => {
                    if complaint != Complaint::Rejoin {
                        let error = Error::server(ErrorCode::UNKNOWN_MEMBER_ID, "what the coordinator answered to a commit");
                        return Err(End::Fenced { keep_id: true, error });
                    }
                }
                topics = looked => {
                    lookup = None;
                    self.topics = topics?.or(self.topics.take());
                    // A topic without a name is omitted; the coordinator then sends the assignment again.
                    if let Some(assignment) = self.assigned.take() {
                        self.target = Some(self.named(assignment)?);
                    }
                    if self.topics.as_ref().is_some_and(|topics| topics.version == self.version) {
                        continue;
                    }
                }
                () = membership.other_wish(self.known_version()), if !looks => {
                    lookup = Some(Box::pin(look_up(self.member, false)));
                    continue;
                }
                () = membership.overdue() => return Err(End::Overdue),
                () = sleep_until(next) => {}
            }
            // A heartbeat is never cancelled: the coordinator sends an assignment only once.
            self.beat().await?;
            next = Instant::now() + self.interval;
        }
    }

    /// Starts the next step from the owned partitions to the target assignment, if they differ.
    fn reconcile(&mut self) -> Option<Handing<'a>> {
        let target = self.target.clone()?;
        let owned: Owned = self.member.membership.owned().into_iter().collect();
        let gone: Vec<TopicPartition> = owned.difference(&target).cloned().collect();
        let new = target.difference(&owned).count();
        if gone.len() + new > 0 {
            let group = self.member.coordinator.group();
            let why = "the coordinator assigned partitions again";
            tracing::info!(group, why, epoch = self.epoch, owned = owned.len(), revoked = gone.len(), new, "rebalance");
        }
        let event = if !gone.is_empty() {
            self.before = Some(owned);
            Rebalance::Revoked(gone)
        } else if owned != target {
            Rebalance::Assigned(target.difference(&owned).cloned().collect())
        } else {
            return None;
        };
        let member = self.member;
        Some(Box::pin(async move {
            member.hand(|_| Some(event.clone())).await;
            if matches!(event, Rebalance::Revoked(_)) {
                member.settle().await;
            }
        }))
    }

    /// Sends a heartbeat and retries it until the coordinator responds.
    async fn beat(&mut self) -> std::result::Result<(), End> {
        let member = self.member;
        let group = member.coordinator.group();
        let mut backoff = member.cluster.backoff();
        let began = Instant::now();
        loop {
            let owned = self.before.clone().unwrap_or_else(|| member.membership.owned().into_iter().collect());
            let error = match self.ask(&owned).await {
                Ok((topics, answer)) => {
                    let code = ErrorCode::from_i16(answer.error_code);
                    if code.is_none() {
                        self.version = topics.version;
                        self.topics = Some(topics);
                        self.told = Some(owned);
                        self.heed(answer);
                        return Ok(());
                    }
                    let text = answer.error_message.filter(|text| !text.is_empty());
                    let context = match text {
                        Some(text) => format!("ConsumerGroupHeartbeat in group {group} ({text})"),
                        None => format!("ConsumerGroupHeartbeat in group {group}"),
                    };
                    let error = Error::server(code, context);
                    match code {
                        ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID => {
                            return Err(End::Fenced { keep_id: true, error });
                        }
                        ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                            member.coordinator.forget();
                            member.cluster.request_refresh();
                        }
                        // Kafka 3.7 to 3.9 know the request but reject it unless the protocol is enabled.
                        ErrorCode::UNSUPPORTED_VERSION => return Err(classic_only(&error.to_string())),
                        ErrorCode::UNRELEASED_INSTANCE_ID if began.elapsed() < SESSION => {
                            member.wait_for_instance(&error);
                        }
                        ErrorCode::UNRELEASED_INSTANCE_ID => return Err(still_runs(error)),
                        code if code.retriable() => {}
                        _ => return Err(End::Fatal(error)),
                    }
                    error
                }
                Err(Error::UnsupportedVersion(text)) => return Err(classic_only(&text)),
                Err(error) if error.retriable() => {
                    // The response may have been lost with the connection: the next heartbeat is a full one.
                    self.told = None;
                    error
                }
                Err(error) => return Err(End::Fatal(error)),
            };
            if self.epoch == JOIN {
                member.trouble("ConsumerGroupHeartbeat", &error);
            } else {
                tracing::debug!(group, %error, "no heartbeat got through");
            }
            tokio::time::sleep(backoff.next_delay().min(AGAIN)).await;
        }
    }

    /// Returns the version of the newest subscription whose topics are known.
    fn known_version(&self) -> u64 {
        self.topics.as_ref().map_or(self.version, |topics| topics.version)
    }

    async fn ask(&self, owned: &Owned) -> Result<(Topics, ConsumerGroupHeartbeatResponse)> {
        let member = self.member;
        let topics = match &self.topics {
            Some(topics) if self.epoch != JOIN => topics.clone(),
            // Before joining, waiting for metadata cannot cost the membership.
            _ => {
                let (wanted, version) = member.membership.wish().await;
                let names = member.names(&wanted, version).await?;
                Topics { wanted, version, names }
            }
        };
        let identity = member.membership.identity();
        let all = self.epoch == JOIN || self.told.is_none();
        let new_wish = all || topics.version != self.version;
        let ids = if all || self.told.as_ref() != Some(owned) { Some(by_id(member, owned)?) } else { None };
        // Brokers that do not support patterns get the names that match now.
        let names = Some(topics.names.clone()).filter(|_| new_wish);
        let build = |api: i16| {
            // In version 0 the coordinator chooses the id, so a member without a response cannot leave.
            if api >= OWN_IDS {
                member.join_sent.store(true, Ordering::Release);
            }
            let pattern = topics.wanted.given_pattern().filter(|_| api >= OWN_IDS);
            Ok(ConsumerGroupHeartbeatRequest {
                group_id: member.coordinator.group().to_owned(),
                member_id: if api < OWN_IDS && self.epoch == JOIN { String::new() } else { identity.member_id.clone() },
                member_epoch: self.epoch,
                instance_id: identity.instance_id.clone(),
                rack_id: Some(member.rack.clone()).filter(|rack| all && !rack.is_empty()),
                rebalance_timeout_ms: if all { millis(member.options.max_poll_interval) } else { -1 },
                subscribed_topic_names: names.filter(|_| pattern.is_none()).map(|names| names.into_iter().collect()),
                subscribed_topic_regex: pattern.filter(|_| new_wish).map(str::to_owned),
                server_assignor: member.options.remote_assignor.clone().filter(|_| all),
                topic_partitions: ids,
                ..Default::default()
            })
        };
        let limit = member.cluster.options().request_timeout;
        let (_, answer) = member.coordinator.ask(limit, build).await?;
        Ok((topics, answer))
    }

    /// Applies a heartbeat response.
    fn heed(&mut self, answer: ConsumerGroupHeartbeatResponse) {
        let member = self.member;
        let id = answer.member_id.filter(|id| !id.is_empty()).unwrap_or(member.membership.identity().member_id);
        if self.epoch != answer.member_epoch {
            tracing::info!(group = member.coordinator.group(), member_id = id, epoch = answer.member_epoch, "epoch");
            self.epoch = answer.member_epoch;
            member.well();
            member.membership.joined(&id, answer.member_epoch);
        }
        if answer.heartbeat_interval_ms > 0 {
            self.interval = Duration::from_millis(u64::try_from(answer.heartbeat_interval_ms).unwrap_or(5000));
        }
        self.assigned = answer.assignment.or(self.assigned.take());
    }

    /// Returns the assignment by topic name. Topics with an unknown id are omitted; the coordinator sends them again.
    fn named(&mut self, assignment: Assignment) -> std::result::Result<Owned, End> {
        let metadata = self.member.cluster.metadata();
        // All brokers with this protocol support topic ids, in Metadata versions that have them.
        if !self.member.can_name(&assignment) && metadata.topics().any(|topic| topic.topic_id.is_zero()) {
            let text = "group.protocol=consumer needs the ids of topics, which Metadata has from version 10 (Kafka 2.8) \
                        on: omit api.version.metadata, or set group.protocol to classic";
            return Err(End::Fatal(Error::UnsupportedVersion(text.to_owned())));
        }
        let mut named = Owned::new();
        let mut strangers = BTreeSet::new();
        for topic in assignment.topic_partitions {
            match metadata.topic_name(&topic.topic_id) {
                Some(name) => {
                    let name: Arc<str> = name.into();
                    named.extend(topic.partitions.into_iter().map(|p| TopicPartition::new(Arc::clone(&name), p)));
                }
                None => {
                    let topic_id = topic.topic_id;
                    if strangers.insert(topic_id) && !self.strangers.contains(&topic_id) {
                        tracing::warn!(?topic_id, "assigned a topic that the metadata does not have");
                    }
                    // Makes the next heartbeat a full one.
                    self.told = None;
                }
            }
        }
        self.strangers = strangers;
        Ok(named)
    }
}

impl Member {
    /// Logs a warning, once, that the previous member with this `group.instance.id` did not leave.
    fn wait_for_instance(&self, error: &Error) {
        if !self.troubled.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                group = self.coordinator.group(),
                instance_id = self.options.instance_id,
                %error,
                "the member before with this group.instance.id did not leave: this one joins when that one's session \
                 ends, after the broker's group.consumer.session.timeout.ms at the latest (45 s by default)"
            );
        }
    }

    /// Returns true if the metadata has a name for every topic of an assignment.
    fn can_name(&self, assignment: &Assignment) -> bool {
        let metadata = self.cluster.metadata();
        assignment.topic_partitions.iter().all(|topic| metadata.topic_name(&topic.topic_id).is_some())
    }
}

/// Looks up the subscribed topics, and if `refresh` is set those of an assignment. Returns `None` if no broker
/// responded.
async fn look_up(member: &Member, unnamed: bool) -> std::result::Result<Option<Topics>, End> {
    let (wanted, version) = member.membership.wish().await;
    let looked = async {
        let names = member.names(&wanted, version).await?;
        if unnamed {
            member.cluster.refresh(member.cluster.options().request_timeout).await?;
        }
        Ok(names)
    };
    match looked.await {
        Ok(names) => Ok(Some(Topics { wanted, version, names })),
        Err(error) if Error::retriable(&error) => {
            tracing::debug!(%error, "no metadata of what is wanted or assigned");
            tokio::time::sleep(AGAIN).await;
            Ok(None)
        }
        Err(error) => Err(End::Fatal(error)),
    }
}

fn by_id(member: &Member, owned: &Owned) -> Result<Vec<TopicPartitions>> {
    let metadata = member.cluster.metadata();
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for tp in owned {
        // A deleted topic has no id and is no longer owned.
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
pub(super) async fn leave(member: &Member) {
    let identity = member.membership.identity();
    if identity.generation < 0 && !member.join_sent.load(Ordering::Acquire) {
        return;
    }
    let request = ConsumerGroupHeartbeatRequest {
        group_id: member.coordinator.group().to_owned(),
        member_id: identity.member_id,
        member_epoch: if identity.instance_id.is_some() { LEAVE_FOR_NOW } else { LEAVE },
        instance_id: identity.instance_id,
        rebalance_timeout_ms: -1,
        ..Default::default()
    };
    let limit = member.cluster.options().request_timeout;
    match timeout(limit, member.coordinator.ask(limit, |_| Ok(request))).await {
        Ok(Ok(_)) => tracing::info!(group = member.coordinator.group(), "left"),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the group coordinator was not reached: the session will end by itself")
        }
        Err(_) => {}
    }
}

/// Returns a random member id in Kafka's format.
fn new_id() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..22).map(|_| char::from(*fastrand::choice(DIGITS).unwrap_or(&b'A'))).collect()
}

/// Returns the error of a static member whose `group.instance.id` is still in use after the session timeout.
fn still_runs(error: Error) -> End {
    End::Fatal(error.context("another consumer runs with this group.instance.id: give each one its own"))
}

/// Returns the error of a broker that does not support this protocol.
fn classic_only(text: &str) -> End {
    End::Fatal(Error::UnsupportedVersion(format!("{text}: brokers before Kafka 4.0 need group.protocol=classic")))
}
