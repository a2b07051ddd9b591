//! Members of a consumer group that subscribe, poll, commit, leave, crash and return while records are produced.
//!
//! Guarantees: a member gets the rows of a partition without holes or repeats until the partition is revoked, of
//! subscribed topics only, and as they are in the log. All rows before a committed offset were returned to a member. No
//! two live members own a partition in one generation. Committed offsets never go back, except by a commit that its sender
//! has given up. After the disturbances, the group reads all rows. Every call ends within its timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use samsarrow_broker::Event;
use samsarrow_client::consumer::{Consumer, Polled};
use samsarrow_client::fetcher::Rows;
use samsarrow_client::group::Rebalance;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::error_code::ErrorCode;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::records::{self, Records};
use crate::context::{Context, cancel_after, kind};
use crate::{log, options};

const GROUP: &str = "g";
const TOPICS: [&str; 2] = ["a", "b"];
const POLL: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(20);
/// Time after the disturbances within which the group must have read all rows.
const DRAIN: Duration = Duration::from_secs(600);

/// Rows that members returned, and the owners of partitions.
#[derive(Debug, Default)]
struct Shared {
    /// Returned offsets by topic and partition.
    returned: BTreeMap<(String, i32), BTreeSet<i64>>,
    /// Live members by partition, with the generation in which they own it.
    owners: BTreeMap<TopicPartition, BTreeMap<usize, i32>>,
    /// Returned values, to be compared with the logs.
    values: BTreeMap<(String, i32, i64), String>,
    producing: bool,
}

#[derive(Debug, Clone)]
struct Group {
    context: Context,
    shared: Arc<Mutex<Shared>>,
    partitions: i32,
    /// Options that all members have.
    options: Vec<(&'static str, String)>,
    /// True if members have a `group.instance.id` (KIP-345).
    is_static: bool,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng) {
    let partitions = (0..).take_while(|index| context.broker.has_partition("a", *index)).count();
    let mut chosen = vec![
        ("group.id", GROUP.to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("max.poll.records", random.u32(1..50).to_string()),
        ("default.api.timeout.ms", CALL.as_millis().to_string()),
        ("request.timeout.ms", "5000".to_owned()),
        ("enable.auto.commit", random.bool().to_string()),
        ("auto.commit.interval.ms", random.u32(100..5000).to_string()),
    ];
    if random.bool() && context.is_since("4.0") {
        chosen.push(("group.protocol", "consumer".to_owned()));
    } else {
        let names = ["range", "roundrobin", "sticky", "cooperative-sticky"];
        let assignor = random.choice(names).unwrap_or("range");
        chosen.push(("partition.assignment.strategy", assignor.to_owned()));
        chosen.push(("session.timeout.ms", random.u32(6_000..20_000).to_string()));
    }
    let partitions = i32::try_from(partitions).unwrap_or(1);
    // A clone leaves the schedules of known seeds as they are.
    let is_static = random.clone().u8(..4) == 0 && context.is_since("2.3");
    let group = Group { context: context.clone(), shared: Arc::default(), partitions, options: chosen, is_static };
    group.lock().producing = true;
    let mut programs = JoinSet::new();
    programs.spawn(produce(group.clone(), random.fork()));
    if random.clone().bool() {
        context.network.discard_late_bytes();
    }
    for number in 0..random.usize(1..4) {
        programs.spawn(consume(group.clone(), number, random.fork()));
    }
    while let Some(ended) = programs.join_next().await {
        if let Err(error) = ended {
            context.violation(format!("a program failed: {error}"));
        }
    }
    check(&group);
    check_commits(&context);
}

/// Checks that committed offsets never go back, because members of later generations begin at them.
///
/// A commit that the coordinator applies late undoes newer ones, if its sender has given it up and has sent those on
/// another connection: because it has lost the connection, or because the group was on another node meanwhile. The
/// protocol has no number that would prevent this; rows are then returned again.
fn check_commits(context: &Context) {
    let mut last: BTreeMap<(String, i32), (i64, i32, Instant)> = BTreeMap::new();
    for event in samsarrow_broker::take_history() {
        let Event::Committed { topic, partition, offset, node, received_at, applied_at, abandoned, .. } = event else {
            continue;
        };
        let Some((newer, other, since)) = last.insert((topic.clone(), partition), (offset, node, applied_at)) else {
            continue;
        };
        if offset >= newer {
            continue;
        }
        if abandoned {
            context.reached("commit of a lost connection undid newer ones");
        } else if node != other && received_at <= since {
            context.reached("commit from before a move of the coordinator undid newer ones");
        } else {
            context.violation(format!("the committed offset of {topic}-{partition} went from {newer} to {offset}"));
        }
    }
}

/// Sends records to both topics until the disturbances end.
async fn produce(group: Group, mut random: fastrand::Rng) {
    let linger = [("linger.ms", "5".to_owned()), ("batch.size", "500".to_owned())];
    let records = Records {
        options: &linger,
        count: 1000,
        pause_every: 10,
        max_pause_ms: 3000,
        close_timeout: Duration::from_secs(150),
    };
    let place = |random: &mut fastrand::Rng| (TOPICS[random.usize(..2)], random.i32(0..group.partitions));
    records::produce(&group.context, &mut random, records, place).await;
    group.lock().producing = false;
}

/// Rows and partitions of one consumer.
struct Member<'a> {
    group: &'a Group,
    number: usize,
    consumer: Consumer,
    /// Position after the returned rows of each owned partition; `None` before the first row.
    next: BTreeMap<TopicPartition, Option<i64>>,
    /// Topics of the subscription. After a `subscribe` without `unsubscribe`, also those of the subscription before.
    topics: BTreeSet<&'static str>,
    /// True once a late JoinGroup of an earlier consumer has taken over the `group.instance.id`.
    fenced: bool,
}

async fn consume(group: Group, number: usize, mut random: fastrand::Rng) {
    let started = Instant::now();
    while !has_drained(&group) {
        if group.context.is_calm() && started.elapsed() > DRAIN + Duration::from_secs(120) {
            let missing = missing(&group);
            return group
                .context
                .violation(format!("the group did not read all rows after the disturbances: {missing}"));
        }
        let mut chosen = group.options.clone();
        if group.is_static {
            chosen.push(("group.instance.id", format!("member-{number}")));
        }
        let consumer = match options::consumer(&group.context, &chosen) {
            Ok(consumer) => consumer,
            Err(error) => return group.context.violation(format!("the consumer cannot be created: {error}")),
        };
        let mut member =
            Member { group: &group, number, consumer, next: BTreeMap::new(), topics: BTreeSet::new(), fenced: false };
        member.subscribe(if group.context.is_calm() { 3 } else { random.u8(1..4) });
        let mut steps = random.u32(5..200);
        while !member.fenced && (steps > 0 || group.context.is_calm()) && !has_drained(&group) {
            steps = steps.saturating_sub(1);
            if group.context.is_calm() && member.topics.len() < 2 {
                member.subscribe(3);
            }
            if group.context.is_calm() && started.elapsed() > DRAIN + Duration::from_secs(120) {
                break;
            }
            member.step(&mut random).await;
        }
        if random.u8(..3) == 0 {
            // A crash: the consumer neither commits nor leaves.
            group.context.reached("member crashed");
            member.forget_all();
        } else {
            member.leave().await;
            member.trace("close");
            let limit = Duration::from_millis(random.u64(..30_000));
            member.forget_all();
            group.context.within("close", limit, member.consumer.close(limit)).await;
        }
    }
}

impl Member<'_> {
    /// Subscribes to the topics of a bit mask.
    fn subscribe(&mut self, mask: u8) {
        let names = TOPICS.iter().enumerate().filter(|(index, _)| mask & (1 << index) != 0).map(|(_, name)| *name);
        let names: BTreeSet<&str> = names.collect();
        let subscribed = Subscription::topics(names.iter().map(|name| (*name).to_owned()));
        match subscribed.and_then(|subscription| self.consumer.subscribe(subscription)) {
            Ok(()) => {
                self.trace(&format!("subscribe {names:?}"));
                self.topics.extend(names);
            }
            Err(error) => self.group.context.violation(format!("subscribe failed: {error}")),
        }
    }

    async fn step(&mut self, random: &mut fastrand::Rng) {
        let context = &self.group.context;
        match random.u8(..100) {
            // Before KIP-394, a member that leaves while it joins has no id yet and stays in the group until its session
            // ends. A group whose members leave more often than that never becomes stable.
            0..4 if context.is_since("2.2") || !context.is_calm() => {
                self.leave().await;
                drop(self.consumer.unsubscribe());
                self.topics.clear();
                context.reached("unsubscribe");
                self.trace("unsubscribe");
                if random.bool() {
                    sleep(Duration::from_millis(random.u64(..2000))).await;
                }
                self.subscribe(random.u8(1..4));
            }
            4..6 => self.subscribe(random.u8(1..4)),
            6..12 => {
                let limit = Duration::from_millis(random.u64(1..20_000));
                let commit = self.consumer.commit(None, limit);
                let result = if random.bool() {
                    context.within("commit", limit, commit).await
                } else {
                    cancel_after(random.u32(..4), commit).await
                };
                if let Some(Err(error)) = result {
                    context.reached(format!("commit: {}", kind(&error)));
                }
            }
            12..16 => {
                if let Err(error) = self.consumer.commit_async(None) {
                    context.reached(format!("commit_async: {}", kind(&error)));
                }
            }
            16..18 => self.consumer.wakeup(),
            18..20 => sleep(Duration::from_millis(random.u64(..10_000))).await,
            20..22 => drop(self.consumer.enforce_rebalance("test")),
            _ => self.poll(random).await,
        }
    }

    async fn poll(&mut self, random: &mut fastrand::Rng) {
        let context = self.group.context.clone();
        let next = self.consumer.next(POLL);
        let polled = if random.u8(..) < 20 {
            cancel_after(random.u32(..4), next).await
        } else {
            // A rebalance waits for commits for as long as they may take.
            context.within("poll", POLL, next).await
        };
        match polled {
            None => {}
            Some(Ok(Polled::Rows(rows))) => self.check_rows(&rows),
            Some(Ok(Polled::Committed)) => {
                for completed in self.consumer.take_completed() {
                    match completed.outcome {
                        Ok(_) => context.reached("commit_async: committed"),
                        Err(error) => context.reached(format!("commit_async: {}", kind(&error))),
                    }
                }
            }
            Some(Ok(Polled::Rebalance(event))) => {
                self.rebalance(&event);
                self.consumer.acknowledge(&event);
            }
            Some(Err(error)) => {
                context.reached(format!("poll: {}", kind(&error)));
                if self.group.is_static && error.code() == Some(ErrorCode::FENCED_INSTANCE_ID.code()) {
                    self.fenced = true;
                    return;
                }
                if !context.expects(&error) {
                    context.violation(format!("poll failed: {error}"));
                }
            }
        }
    }

    fn rebalance(&mut self, event: &Rebalance) {
        let context = &self.group.context;
        self.trace(&format!("{event:?}"));
        match event {
            Rebalance::Assigned(partitions) => {
                context.reached("rebalance: assigned");
                let generation = self.consumer.group_metadata().map_or(-1, |(_, member)| member.generation);
                let mut shared = self.group.lock();
                for tp in partitions {
                    if !self.topics.contains(&*tp.topic) {
                        context.violation(format!("{}-{} was assigned without a subscription", tp.topic, tp.partition));
                    }
                    if self.next.insert(tp.clone(), None).is_some() {
                        context.violation(format!("{}-{} was assigned twice", tp.topic, tp.partition));
                    }
                    let owners = shared.owners.entry(tp.clone()).or_default();
                    owners.insert(self.number, generation);
                    let same = owners.values().filter(|other| **other == generation).count();
                    if generation >= 0 && same > 1 {
                        context.violation(format!(
                            "{}-{} has {same} owners in generation {generation}",
                            tp.topic, tp.partition
                        ));
                    }
                }
            }
            Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) => {
                let lost = matches!(event, Rebalance::Lost(_));
                context.reached(if lost { "rebalance: lost" } else { "rebalance: revoked" });
                for tp in partitions {
                    if self.next.remove(tp).is_none() {
                        context.violation(format!("{}-{} was revoked and not assigned", tp.topic, tp.partition));
                    }
                    self.forget(tp);
                }
            }
        }
    }

    fn check_rows(&mut self, rows: &Rows) {
        let context = &self.group.context;
        let Some(batch) = &rows.batch else { return };
        let column = |name: &str| batch.column_by_name(name);
        let (Some(topics), Some(partitions), Some(offsets), Some(values)) =
            (column("topic"), column("partition"), column("offset"), column("value"))
        else {
            return context.violation("a batch lacks a column");
        };
        let topics = topics.as_dictionary::<Int32Type>();
        let names = topics.values().as_string::<i32>();
        let (partitions, offsets) = (partitions.as_primitive::<Int32Type>(), offsets.as_primitive::<Int64Type>());
        let values = values.as_binary::<i32>();
        let mut shared = self.group.lock();
        for row in 0..batch.num_rows() {
            let topic = topics.key(row).map(|key| names.value(key)).unwrap_or_default();
            let (partition, offset) = (partitions.value(row), offsets.value(row));
            let value = String::from_utf8_lossy(values.value(row)).into_owned();
            if !self.topics.contains(topic) {
                context.violation(format!("a row of {topic} was returned without a subscription"));
            }
            match self.next.get_mut(&TopicPartition::new(topic, partition)) {
                None => context.violation(format!("a row of {topic}-{partition} was returned without an assignment")),
                Some(next) => {
                    if next.is_some_and(|next| next != offset) {
                        context.violation(format!("{topic}-{partition} returned {offset} where {next:?} was next"));
                    }
                    *next = Some(offset + 1);
                }
            }
            shared.returned.entry((topic.to_owned(), partition)).or_default().insert(offset);
            shared.values.insert((topic.to_owned(), partition, offset), value);
        }
        context.reached("rows returned");
    }

    fn trace(&self, what: &str) {
        let member = self.consumer.group_metadata().map(|(_, member)| (member.member_id, member.generation));
        self.group.context.network.trace(&format!("member {} {member:?}: {what}", self.number));
    }

    fn forget(&self, tp: &TopicPartition) {
        if let Some(owners) = self.group.lock().owners.get_mut(tp) {
            owners.remove(&self.number);
        }
    }

    /// Removes all partitions of this member, because it leaves.
    fn forget_all(&mut self) {
        for tp in std::mem::take(&mut self.next).keys() {
            self.forget(tp);
        }
    }

    /// Does what an application does before it unsubscribes or closes.
    async fn leave(&mut self) {
        self.consumer.commit_finished(true, Duration::from_secs(5)).await;
        if let Some(event) = self.consumer.final_rebalance() {
            self.rebalance(&event);
        }
        self.forget_all();
    }
}

/// Returns the number of rows that no member has returned, by partition.
fn missing(group: &Group) -> String {
    let shared = group.lock();
    let mut missing = Vec::new();
    for topic in TOPICS {
        for partition in 0..group.partitions {
            let end = group.context.broker.end_offset(topic, partition).unwrap_or_default();
            let returned = shared.returned.get(&(topic.to_owned(), partition)).map_or(0, BTreeSet::len);
            let committed = group.context.broker.committed_offset(GROUP, topic, partition);
            if i64::try_from(returned).is_ok_and(|returned| returned < end) {
                missing.push(format!("{topic}-{partition}: {returned} of {end} returned, committed {committed:?}"));
            }
        }
    }
    missing.join(", ")
}

fn has_drained(group: &Group) -> bool {
    group.context.is_calm() && !group.lock().producing && missing(group).is_empty()
}

fn check(group: &Group) {
    let (context, shared) = (&group.context, group.lock());
    let nothing = BTreeSet::new();
    for topic in TOPICS {
        for partition in 0..group.partitions {
            let returned = shared.returned.get(&(topic.to_owned(), partition)).unwrap_or(&nothing);
            let committed = context.broker.committed_offset(GROUP, topic, partition).unwrap_or_default();
            if let Some(hole) = (0..committed).find(|offset| !returned.contains(offset)) {
                context.violation(format!(
                    "{topic}-{partition} is committed up to {committed}, and {hole} was not returned"
                ));
            }
            match log::read(&context.broker, topic, partition) {
                Ok(stored) => {
                    for record in stored {
                        let value = shared.values.get(&(topic.to_owned(), partition, record.offset));
                        if value.is_some_and(|value| *value != record.value) {
                            context.violation(format!("{topic}-{partition} returned {value:?} for {record:?}"));
                        }
                    }
                }
                Err(error) => context.violation(error),
            }
        }
    }
}
