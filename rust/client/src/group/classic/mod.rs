//! Membership by the classic protocol: JoinGroup, assignment by the leader, SyncGroup, heartbeats.

mod join;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::LeaveGroupRequest;
use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::sync::lock;
use tokio::time::{sleep, timeout};

use crate::cluster::metadata::Metadata;
use crate::error::Error;
use crate::group::heartbeat::{HeartbeatOutcome, Heartbeater};
use crate::group::member::{Member, MembershipEnd};
use crate::group::membership::{Owned, Rebalance, RejoinReason};
use crate::group::subscription::Subscription;
use crate::group::topic_snapshot::{TopicSnapshot, snapshot};
use crate::retry::Retry;
use crate::types::TopicPartition;

/// Interval at which missing topics are looked up.
const MISSING_TOPICS_REFRESH: Duration = Duration::from_secs(1);
/// First version of LeaveGroup with a list of members, which allows static members to leave (KIP-345).
const LEAVE_WITH_MEMBERS: i16 = 3;

/// State at the time of joining a generation.
struct JoinedGeneration {
    version: u64,
    names: BTreeSet<String>,
    leader: Option<LeaderState>,
}

/// Topics of the group at the time when this member assigned the partitions as the leader.
struct LeaderState {
    names: BTreeSet<String>,
    snapshot: TopicSnapshot,
}

/// Outcome of one attempt to join a generation.
enum GenerationOutcome {
    /// The generation was entered and has ended.
    Entered,
    /// The member did not enter the generation because of this error.
    Missed(Error),
}

/// Runs generations until the membership ends.
pub(super) async fn live(member: &Member) -> MembershipEnd {
    let member = ClassicMember { member, known_racks: Mutex::default() };
    let mut retry: Option<Retry> = None;
    loop {
        match member.generation().await {
            Ok(GenerationOutcome::Entered) => retry = None,
            // The first retry has no delay, because another rebalance often starts during SyncGroup.
            Ok(GenerationOutcome::Missed(error)) => match &mut retry {
                None => retry = Some(Retry::endless(member.cluster.options())),
                Some(retry) => {
                    if let Err(error) = retry.wait(error, || "SyncGroup".into()).await {
                        return MembershipEnd::Fatal(error);
                    }
                }
            },
            Err(end) => return end,
        }
    }
}

/// A member that uses the classic protocol.
struct ClassicMember<'a> {
    member: &'a Member,
    /// Racks of all brokers seen so far.
    known_racks: Mutex<BTreeMap<i32, String>>,
}

impl std::ops::Deref for ClassicMember<'_> {
    type Target = Member;

    fn deref(&self) -> &Member {
        self.member
    }
}

impl ClassicMember<'_> {
    fn heartbeater(&self, joined: Option<i32>) -> Heartbeater<'_> {
        Heartbeater {
            cluster: &self.cluster,
            coordinator: &self.coordinator,
            membership: &self.membership,
            joined,
            interval: self.options.heartbeat_interval,
            session_timeout: self.options.session_timeout,
        }
    }

    /// Returns true if members keep their partitions during a rebalance, which requires that every assignor supports it
    /// (KIP-429).
    fn cooperative(&self) -> bool {
        self.assignors.iter().all(|assignor| assignor.cooperative())
    }

    /// Runs one generation, from revoking partitions to the next rebalance.
    async fn generation(&self) -> std::result::Result<GenerationOutcome, MembershipEnd> {
        let (subscription, version) = self.membership.current_subscription().await;
        let names = self
            .with_heartbeats(None, self.retry_metadata(|| self.subscribed_topics(&subscription, version)))
            .await??;
        self.revoke_before_join(&names).await?;
        let (joined, assigned) = match self.join(names, version).await? {
            Ok(joined) => joined,
            Err(error) => {
                self.log_rejoin(&error);
                return Ok(GenerationOutcome::Missed(error));
            }
        };
        self.log_recovered();
        // A static member that returns with another subscription gets its old assignment (KIP-345). The next JoinGroup
        // has a generation, so its metadata differs and the coordinator starts a rebalance.
        let (assigned, foreign): (Vec<_>, Vec<_>) =
            assigned.into_iter().partition(|tp| joined.names.contains(&*tp.topic));
        let rejoin = self.apply(assigned).await?;
        if let Some(tp) = foreign.first() {
            let error = Error::State(format!("the coordinator assigned {tp}, whose topic is not subscribed"));
            self.log_rejoin(&error);
            return Ok(GenerationOutcome::Missed(error));
        }
        if rejoin {
            let reason = "revoked partitions are assigned to other members";
            self.log_rejoin(&reason);
            return Ok(GenerationOutcome::Entered);
        }
        let wait = async {
            tokio::select! {
                () = self.membership.subscription_changed(joined.version) => Ok("the subscription changed"),
                () = self.topics_changed(&subscription, &joined) => Ok("topics or partitions changed"),
                reason = self.membership.rejoin_reason() => match reason {
                    RejoinReason::RebalanceInProgress => Ok("a commit was rejected because the group rebalances"),
                    RejoinReason::IllegalGeneration => Err(fenced_by_commit(true, ErrorCode::ILLEGAL_GENERATION)),
                    RejoinReason::UnknownMember => Err(fenced_by_commit(false, ErrorCode::UNKNOWN_MEMBER_ID)),
                },
                () = self.membership.poll_interval_exceeded() => Err(MembershipEnd::PollIntervalExceeded),
            }
        };
        let reason = match self.heartbeater(None).run_until(true, wait).await? {
            HeartbeatOutcome::Completed(reason) => reason?,
            HeartbeatOutcome::RebalanceStarted => "the coordinator started a rebalance",
        };
        self.log_rejoin(&reason);
        Ok(GenerationOutcome::Entered)
    }

    fn log_rejoin(&self, reason: &dyn std::fmt::Display) {
        let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
        tracing::info!(client_id, group_id, "joining the group again: {reason}");
    }

    async fn topics_changed(&self, subscription: &Subscription, joined: &JoinedGeneration) {
        let mut changes = self.cluster.watch();
        loop {
            let metadata = changes.borrow_and_update().clone();
            let names = subscription.topic_names(&metadata, self.options.exclude_internal_topics);
            let leader = joined.leader.as_ref();
            if names != joined.names
                || leader.is_some_and(|leader| leader.snapshot != self.topic_snapshot(&metadata, &leader.names))
            {
                return;
            }
            // Missing topics are looked up until they exist, except topics with an invalid name, which can never exist.
            let invalid = |name: &str| metadata.topic_error(name) == Some(ErrorCode::INVALID_TOPIC_EXCEPTION);
            let is_missing = |name: &String| metadata.topic(name).is_none() && !invalid(name);
            let missing = |names: &BTreeSet<String>| names.iter().any(is_missing);
            let any_missing = missing(&names) || leader.is_some_and(|leader| missing(&leader.names));
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep(MISSING_TOPICS_REFRESH), if any_missing => self.cluster.request_refresh(),
            }
        }
    }

    /// Revokes partitions before the next generation forms.
    async fn revoke_before_join(&self, names: &BTreeSet<String>) -> std::result::Result<(), MembershipEnd> {
        let cooperative = self.cooperative();
        let to_revoke = move |owned: &Owned| {
            let to_revoke: Vec<_> =
                owned.iter().filter(|tp| !cooperative || !names.contains(&*tp.topic)).cloned().collect();
            (!to_revoke.is_empty()).then_some(Rebalance::Revoked(to_revoke))
        };
        self.dispatch(to_revoke).await?;
        self.membership.set_joining();
        // After JoinGroup the coordinator rejects commits of the previous generation.
        self.with_heartbeats(None, self.flush_commits()).await?;
        self.membership.finish_revocation();
        Ok(())
    }

    /// Dispatches a rebalance event while heartbeats continue. Fails if the application does not poll in time.
    async fn dispatch(&self, make: impl Fn(&Owned) -> Option<Rebalance>) -> std::result::Result<(), MembershipEnd> {
        self.with_heartbeats(None, self.member.dispatch(make)).await
    }

    /// Runs `work` while sending heartbeats, with the generation `joined` if it is known. Fails if the application does not
    /// poll in time.
    async fn with_heartbeats<T>(
        &self,
        joined: Option<i32>,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, MembershipEnd> {
        let work = async {
            tokio::select! {
                biased;
                output = work => Ok(output),
                () = self.membership.poll_interval_exceeded() => Err(MembershipEnd::PollIntervalExceeded),
            }
        };
        // No session exists before the first generation.
        if joined.is_none() && self.membership.identity().generation < 0 {
            return work.await;
        }
        match self.heartbeater(joined).run_until(false, work).await? {
            HeartbeatOutcome::Completed(output) => output,
            HeartbeatOutcome::RebalanceStarted => Err(MembershipEnd::Fatal(Error::protocol(
                "the membership",
                "a rebalance ended a wait that ignores rebalances",
            ))),
        }
    }

    /// Applies an assignment. Returns true if the member must rejoin so that revoked partitions are reassigned.
    async fn apply(&self, assigned: Vec<TopicPartition>) -> std::result::Result<bool, MembershipEnd> {
        let assigned: BTreeSet<TopicPartition> = assigned.into_iter().collect();
        let revoked: Vec<_> = self.membership.owned().into_iter().filter(|tp| !assigned.contains(tp)).collect();
        let rejoin = !revoked.is_empty();
        if rejoin {
            self.dispatch(|_| Some(Rebalance::Revoked(revoked.clone()))).await?;
        }
        let generation = self.membership.identity().generation;
        *lock(&self.previous) = Some((assigned.iter().cloned().collect(), generation));
        let new = |owned: &Owned| {
            Some(Rebalance::Assigned(assigned.iter().filter(|tp| !owned.contains(*tp)).cloned().collect()))
        };
        self.dispatch(new).await?;
        Ok(rejoin)
    }

    fn topic_snapshot(&self, metadata: &Metadata, names: &BTreeSet<String>) -> TopicSnapshot {
        snapshot(&mut lock(&self.known_racks), &self.rack, metadata, names)
    }
}

/// Sends LeaveGroup. A static member does not leave and keeps its session for `session.timeout.ms` (KIP-345).
pub(super) async fn leave(member: &Member, reason: &str) {
    let identity = member.membership.identity();
    if identity.member_id.is_empty() || identity.instance_id.is_some() {
        return;
    }
    let group_id = member.coordinator.group().to_owned();
    let build = move |version| {
        let mut request = LeaveGroupRequest { group_id, ..Default::default() };
        if version >= LEAVE_WITH_MEMBERS {
            let reason = Some(reason.to_owned());
            request.members.push(MemberIdentity { member_id: identity.member_id, reason, ..Default::default() });
        } else {
            request.member_id = identity.member_id;
        }
        Ok(request)
    };
    let limit = member.cluster.options().request_timeout;
    match timeout(limit, member.coordinator.ask::<LeaveGroupRequest>(limit, build)).await {
        Ok(Ok(_)) => member.log_left(reason),
        Ok(Err(error)) => member.log_not_left(&error),
        Err(_) => {}
    }
}

/// Returns the end of a membership that was detected by the response to a commit.
fn fenced_by_commit(keep_id: bool, code: ErrorCode) -> MembershipEnd {
    MembershipEnd::Fenced { keep_id, error: Error::server(code, "response to a commit") }
}
