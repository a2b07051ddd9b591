//! Membership by the classic protocol: JoinGroup, assignment by the leader, SyncGroup, heartbeats.

mod join;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::LeaveGroupRequest;
use samsarrow_wire::messages::leave_group::MemberIdentity;
use tokio::time::{sleep, timeout};

use crate::cluster::metadata::Metadata;
use crate::error::Error;
use crate::group::heartbeat::{Beat, Heart};
use crate::group::member::{End, Member};
use crate::group::membership::{Complaint, Owned, Rebalance};
use crate::group::subscription::Wanted;
use crate::group::topic_snapshot::{Seen, seen};
use crate::retry::Retry;
use crate::types::TopicPartition;

/// Interval at which missing topics are looked up.
const MISSING_TOPICS: Duration = Duration::from_secs(1);
/// First version with a list of members, by which static members can leave too (KIP-345).
const LEAVE_MANY: i16 = 3;

/// State at the time of joining a generation.
struct Joined {
    version: u64,
    names: BTreeSet<String>,
    led: Option<Led>,
}

/// Topics of the group as they were when this member, the leader, assigned them.
struct Led {
    names: BTreeSet<String>,
    seen: Seen,
}

/// Outcome of one attempt to join a generation.
enum Round {
    /// The generation was entered, and is over.
    Entered,
    /// The group continued without this member.
    Missed(Error),
}

/// Runs generations until the membership ends.
pub(super) async fn live(member: &Member) -> End {
    let classic = Classic { member, racks: Mutex::default() };
    let mut retry: Option<Retry> = None;
    loop {
        match classic.generation().await {
            Ok(Round::Entered) => retry = None,
            // The first retry has no delay, because another rebalance often starts during SyncGroup.
            Ok(Round::Missed(error)) => match &mut retry {
                None => retry = Some(Retry::endless(member.cluster.options())),
                Some(retry) => {
                    if let Err(error) = retry.wait(error, || "SyncGroup".into()).await {
                        return End::Fatal(error);
                    }
                }
            },
            Err(end) => return end,
        }
    }
}

/// A member that uses the classic protocol.
struct Classic<'a> {
    member: &'a Member,
    /// Racks of all brokers seen so far.
    racks: Mutex<BTreeMap<i32, String>>,
}

impl std::ops::Deref for Classic<'_> {
    type Target = Member;

    fn deref(&self) -> &Member {
        self.member
    }
}

impl Classic<'_> {
    fn heart(&self, joined: Option<i32>) -> Heart<'_> {
        Heart {
            cluster: &self.cluster,
            coordinator: &self.coordinator,
            membership: &self.membership,
            joined,
            interval: self.options.heartbeat_interval,
            session_timeout: self.options.session_timeout,
        }
    }

    /// Returns true if partitions are kept during a rebalance, which every assignor must support (KIP-429).
    fn cooperative(&self) -> bool {
        self.assignors.iter().all(|assignor| assignor.cooperative())
    }

    /// Runs one generation, from revoking partitions to the next rebalance.
    async fn generation(&self) -> std::result::Result<Round, End> {
        let (wanted, version) = self.membership.wish().await;
        let names = self.alive(None, self.learn(|| self.names(&wanted, version))).await??;
        self.prepare(&names).await?;
        let (joined, assigned) = match self.join(names, version).await? {
            Ok(joined) => joined,
            Err(error) => {
                tracing::info!(group = self.coordinator.group(), why = %error, "joining again");
                return Ok(Round::Missed(error));
            }
        };
        self.well();
        let again = self.apply(assigned).await?;
        if again {
            let why = "what was given up goes to others";
            tracing::info!(group = self.coordinator.group(), why, "joining again");
            return Ok(Round::Entered);
        }
        let wait = async {
            tokio::select! {
                () = self.membership.other_wish(joined.version) => Ok("another subscription"),
                () = self.topics_change(&wanted, &joined) => Ok("topics or partitions that came or went"),
                complaint = self.membership.complaint() => match complaint {
                    Complaint::Rejoin => Ok("the coordinator's answer to a commit"),
                    Complaint::Stale => Err(fenced(true, ErrorCode::ILLEGAL_GENERATION)),
                    Complaint::Fenced => Err(fenced(false, ErrorCode::UNKNOWN_MEMBER_ID)),
                },
                () = self.membership.overdue() => Err(End::Overdue),
            }
        };
        let why = match self.heart(None).beating(true, wait).await? {
            Beat::Done(why) => why?,
            Beat::Rebalance => "the coordinator's answer to a heartbeat",
        };
        tracing::info!(group = self.coordinator.group(), why, "joining again");
        Ok(Round::Entered)
    }

    async fn topics_change(&self, wanted: &Wanted, joined: &Joined) {
        let mut changes = self.cluster.watch();
        loop {
            let metadata = changes.borrow_and_update().clone();
            let names = wanted.names(&metadata, self.options.exclude_internal_topics);
            let led = joined.led.as_ref();
            if names != joined.names || led.is_some_and(|led| led.seen != self.seen(&metadata, &led.names)) {
                return;
            }
            // Missing topics are looked up until they exist. A topic with an invalid name never will.
            let invalid = |name: &str| metadata.topic_error(name) == Some(ErrorCode::INVALID_TOPIC_EXCEPTION);
            let is_missing = |name: &String| metadata.topic(name).is_none() && !invalid(name);
            let missing = |names: &BTreeSet<String>| names.iter().any(is_missing);
            let look = missing(&names) || led.is_some_and(|led| missing(&led.names));
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep(MISSING_TOPICS), if look => self.cluster.request_refresh(),
            }
        }
    }

    /// Revokes partitions before the next generation forms.
    async fn prepare(&self, names: &BTreeSet<String>) -> std::result::Result<(), End> {
        let cooperative = self.cooperative();
        let gone = move |owned: &Owned| {
            let gone: Vec<_> = owned.iter().filter(|tp| !cooperative || !names.contains(&*tp.topic)).cloned().collect();
            (!gone.is_empty()).then_some(Rebalance::Revoked(gone))
        };
        self.hand(gone).await?;
        self.membership.joining();
        // After JoinGroup the coordinator rejects commits of the previous generation.
        self.alive(None, self.settle()).await?;
        self.membership.gave_up();
        Ok(())
    }

    /// Dispatches a rebalance event while heartbeats continue. Fails if the application does not poll in time.
    async fn hand(&self, make: impl Fn(&Owned) -> Option<Rebalance>) -> std::result::Result<(), End> {
        self.alive(None, self.member.hand(make)).await
    }

    /// Runs `work` while sending heartbeats, with the generation `joined` if given. Fails if the application does not
    /// poll in time.
    async fn alive<T>(&self, joined: Option<i32>, work: impl Future<Output = T>) -> std::result::Result<T, End> {
        let work = async {
            tokio::select! {
                biased;
                done = work => Ok(done),
                () = self.membership.overdue() => Err(End::Overdue),
            }
        };
        // No session exists before the first generation.
        if joined.is_none() && self.membership.identity().generation < 0 {
            return work.await;
        }
        match self.heart(joined).beating(false, work).await? {
            Beat::Done(done) => done,
            Beat::Rebalance => {
                Err(End::Fatal(Error::protocol("the membership", "a rebalance ended a wait that does not heed it")))
            }
        }
    }

    /// Applies an assignment. Returns true if the member must rejoin so that revoked partitions are reassigned.
    async fn apply(&self, assigned: Vec<TopicPartition>) -> std::result::Result<bool, End> {
        let assigned: BTreeSet<TopicPartition> = assigned.into_iter().collect();
        let revoked: Vec<_> = self.membership.owned().into_iter().filter(|tp| !assigned.contains(tp)).collect();
        let group = self.coordinator.group();
        tracing::info!(group, assigned = assigned.len(), revoked = revoked.len(), "assigned");
        let again = !revoked.is_empty();
        if again {
            self.hand(|_| Some(Rebalance::Revoked(revoked.clone()))).await?;
        }
        let generation = self.membership.identity().generation;
        *self.previous.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((assigned.iter().cloned().collect(), generation));
        let new = |owned: &Owned| {
            Some(Rebalance::Assigned(assigned.iter().filter(|tp| !owned.contains(*tp)).cloned().collect()))
        };
        self.hand(new).await?;
        Ok(again)
    }

    fn seen(&self, metadata: &Metadata, names: &BTreeSet<String>) -> Seen {
        seen(&mut self.racks.lock().unwrap_or_else(PoisonError::into_inner), &self.rack, metadata, names)
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
        if version >= LEAVE_MANY {
            let reason = Some(reason.to_owned());
            request.members.push(MemberIdentity { member_id: identity.member_id, reason, ..Default::default() });
        } else {
            request.member_id = identity.member_id;
        }
        Ok(request)
    };
    let limit = member.cluster.options().request_timeout;
    match timeout(limit, member.coordinator.ask::<LeaveGroupRequest>(limit, build)).await {
        Ok(Ok(_)) => tracing::info!(group = member.coordinator.group(), reason, "left"),
        Ok(Err(error)) => tracing::debug!(%error, "LeaveGroup failed: the session will end by itself"),
        Err(_) => {}
    }
}

/// Returns the end of a membership that a commit detected.
fn fenced(keep_id: bool, code: ErrorCode) -> End {
    End::Fenced { keep_id, error: Error::server(code, "what the coordinator answered to a commit") }
}
