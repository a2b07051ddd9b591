//! The classic protocol: join, let a member assign, sync, stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::messages::sync_group::SyncGroupRequestAssignment;
use samsarrow_wire::messages::{JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest};
use tokio::time::{sleep, timeout};

use super::assignor::{self, Members, Subscription, Topics};
use super::heart::{Beat, Heart};
use super::member::{End, Member, millis};
use super::membership::{Complaint, Owned, Rebalance};
use super::seen::{Seen, seen};
use super::wanted::Wanted;
use crate::cluster::Lane;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::retry::Retry;
use crate::types::{TopicPartition, some_of};

/// How often topics that do not exist are looked for.
const MISSING_TOPICS: Duration = Duration::from_secs(1);
const PROTOCOL_TYPE: &str = "consumer";
/// From this version on a static member can leave too, and several at once (KIP-345).
const LEAVE_MANY: i16 = 3;

/// What came of a rebalance.
struct Joined {
    version: u64,
    names: BTreeSet<String>,
    led: Option<Led>,
}

/// What a leader knew of the group's topics when it assigned them.
struct Led {
    names: BTreeSet<String>,
    seen: Seen,
}

/// How an attempt at a generation went.
enum Round {
    /// It was entered, and is over.
    Entered,
    /// The group went on without this member.
    Missed(Error),
}

/// Lives through generations until the membership ends.
pub(super) async fn live(member: &Member) -> End {
    let classic = Classic { member, racks: Mutex::default() };
    let mut retry: Option<Retry> = None;
    loop {
        match classic.generation().await {
            Ok(Round::Entered) => retry = None,
            // Once at once: that is how a rebalance goes that another one overtakes.
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

/// A member that follows the classic protocol.
struct Classic<'a> {
    member: &'a Member,
    /// Of all brokers that were ever seen.
    racks: Mutex<BTreeMap<i32, String>>,
}

impl std::ops::Deref for Classic<'_> {
    type Target = Member;

    fn deref(&self) -> &Member {
        self.member
    }
}

impl Classic<'_> {
    fn heart(&self) -> Heart<'_> {
        Heart {
            cluster: &self.cluster,
            coordinator: &self.coordinator,
            membership: &self.membership,
            interval: self.options.heartbeat_interval,
            session_timeout: self.options.session_timeout,
        }
    }

    /// Whether partitions are kept while the group rebalances: only if every assignor can do with it (KIP-429).
    fn cooperative(&self) -> bool {
        self.assignors.iter().all(|assignor| assignor.cooperative())
    }

    /// One generation, from giving up what has to be given up to the next rebalance.
    async fn generation(&self) -> std::result::Result<Round, End> {
        let (wanted, version) = self.membership.wish().await;
        let names = tokio::select! {
            biased;
            () = self.membership.overdue() => return Err(End::Overdue),
            names = self.learn(|| self.names(&wanted)) => names?,
        };
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
        let why = match self.heart().beating(true, wait).await? {
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
            // Topics that do not exist yet are looked for until they do.
            let missing = |names: &BTreeSet<String>| names.iter().any(|name| metadata.topic(name).is_none());
            let look = missing(&names) || led.is_some_and(|led| missing(&led.names));
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep(MISSING_TOPICS), if look => self.cluster.request_refresh(),
            }
        }
    }

    /// Gives up what must be given up before the next generation forms.
    async fn prepare(&self, names: &BTreeSet<String>) -> std::result::Result<(), End> {
        let cooperative = self.cooperative();
        let gone = move |owned: &Owned| {
            let gone: Vec<_> = owned.iter().filter(|tp| !cooperative || !names.contains(&*tp.topic)).cloned().collect();
            (!gone.is_empty()).then_some(Rebalance::Revoked(gone))
        };
        self.hand(gone).await?;
        self.membership.joining();
        // The coordinator refuses what comes after JoinGroup in the name of the generation before.
        self.alive(self.settle()).await?;
        self.membership.gave_up();
        Ok(())
    }

    /// Hands an event over; heartbeats go on, and the program has to poll in time.
    async fn hand(&self, make: impl Fn(&Owned) -> Option<Rebalance>) -> std::result::Result<(), End> {
        self.alive(self.member.hand(make)).await
    }

    /// Waits for `work`; heartbeats go on, and the program has to poll in time.
    async fn alive(&self, work: impl Future<Output = ()>) -> std::result::Result<(), End> {
        let work = async {
            tokio::select! {
                biased;
                () = work => Ok(()),
                () = self.membership.overdue() => Err(End::Overdue),
            }
        };
        // Who is no member yet has nothing to keep alive.
        if self.membership.identity().generation < 0 {
            return work.await;
        }
        match self.heart().beating(false, work).await? {
            Beat::Done(done) => done,
            Beat::Rebalance => Ok(()),
        }
    }

    /// Takes the partitions that were assigned; whether to join again at once, so that others get what was given up.
    async fn apply(&self, assigned: Vec<TopicPartition>) -> std::result::Result<bool, End> {
        let assigned: BTreeSet<TopicPartition> = assigned.into_iter().collect();
        let revoked: Vec<_> = self.membership.owned().into_iter().filter(|tp| !assigned.contains(tp)).collect();
        let group = self.coordinator.group();
        tracing::info!(group, assigned = assigned.len(), revoked = revoked.len(), "assigned");
        let again = !revoked.is_empty();
        if again {
            self.hand(|_| Some(Rebalance::Revoked(revoked.clone()))).await?;
        }
        let new = |owned: &Owned| {
            Some(Rebalance::Assigned(assigned.iter().filter(|tp| !owned.contains(*tp)).cloned().collect()))
        };
        self.hand(new).await?;
        Ok(again)
    }

    /// Joins and syncs; an error that is not the end says why it has to be done again.
    async fn join(
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
                // That is how members get their id: asked again at once, the first time.
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
        let protocols = self.assignors.iter().map(|assignor| {
            let subscription = Subscription {
                topics: names.iter().cloned().collect(),
                user_data: assignor.user_data(&owned, identity.generation),
                owned: owned.clone(),
                generation: Some(identity.generation).filter(|generation| *generation >= 0),
                rack: Some(self.rack.clone()).filter(|rack| !rack.is_empty()),
                instance_id: None,
            };
            JoinGroupRequestProtocol {
                name: assignor.name().to_owned(),
                metadata: subscription.encode(),
                ..Default::default()
            }
        });
        let request = JoinGroupRequest {
            group_id: self.coordinator.group().to_owned(),
            session_timeout_ms: millis(self.options.session_timeout),
            rebalance_timeout_ms: millis(self.options.max_poll_interval),
            member_id: identity.member_id,
            group_instance_id: identity.instance_id,
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: protocols.collect(),
            reason: self.membership.take_reason(),
            ..Default::default()
        };
        // The coordinator answers when all members are there, at the latest after the longest of their poll intervals.
        let limit = self.cluster.options().request_timeout.max(self.options.max_poll_interval + Duration::from_secs(5));
        self.coordinator.lane(Lane::Group).ask(limit, |_| Ok(request)).await
    }

    /// What to do about a refusal to join or sync: try again after the error that is returned, or give up.
    fn refused(&self, code: ErrorCode, api: &str) -> std::result::Result<Error, End> {
        let error = Error::server(code, format!("{api} in group {}", self.coordinator.group()));
        match code {
            // A coordinator that has just begun: this is nobody's id.
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

    /// As leader: assigns partitions to all members.
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
        let metadata = self.learn(|| self.cluster.learn(&names, limit)).await?;
        let topics = topics_of(&metadata, &names);
        let seen = self.seen(&metadata, &names);
        // A static leader that came back: the others keep what they have (KIP-814).
        if answer.skip_assignment {
            return Ok((Led { names, seen }, Vec::new()));
        }
        let protocol = answer.protocol_name.as_deref().unwrap_or_default();
        let assignor = self.assignors.iter().find(|assignor| assignor.name() == protocol).ok_or_else(|| {
            let text = format!("the coordinator chose the assignor {protocol:?}, which this consumer did not offer");
            End::Fatal(Error::protocol("the coordinator", text))
        })?;
        let missing: Vec<&String> = names.iter().filter(|name| !topics.contains_key(*name)).collect();
        if !missing.is_empty() {
            tracing::warn!(
                group = self.coordinator.group(),
                topics = some_of(missing),
                "subscribed topics do not exist"
            );
        }
        let assigned = assignor.assign(&topics, &members).map_err(End::Fatal)?;
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
        let lane = self.coordinator.lane(Lane::Group);
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

    fn seen(&self, metadata: &Metadata, names: &BTreeSet<String>) -> Seen {
        seen(&mut self.racks.lock().unwrap_or_else(PoisonError::into_inner), &self.rack, metadata, names)
    }
}

/// Notifies the coordinator that the member is gone. A static member stays for `session.timeout.ms` (KIP-345).
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

/// How a commit found out that the membership is void.
fn fenced(keep_id: bool, code: ErrorCode) -> End {
    End::Fenced { keep_id, error: Error::server(code, "what the coordinator answered to a commit") }
}

/// What assignors see of topics: the racks of each partition's replicas.
fn topics_of<'a>(metadata: &Metadata, names: impl IntoIterator<Item = &'a String>) -> Topics {
    let racks = |nodes: &[i32]| nodes.iter().filter_map(|node| metadata.racks.get(node).cloned()).collect();
    let known = names.into_iter().filter_map(|name| Some((name, metadata.topic(name)?)));
    known.map(|(name, topic)| (name.clone(), topic.partitions.iter().map(|p| racks(&p.replicas)).collect())).collect()
}
