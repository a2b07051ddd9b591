//! An admin client that deletes, creates and grows a topic while producers write it and members of a group read it.
//!
//! Guarantees: every returned row was sent. After the disturbances, the group has returned all rows of the last topic
//! with that name, which it can only do if positions and committed offsets of deleted topics do not apply to it. A
//! record that was sent after the last creation and acknowledged is in the log at its offset, once if its producer is
//! idempotent. Every call ends within its timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::cast::AsArray;
use samsarrow_client::admin::{Admin, NewPartitions, NewTopic, TopicRef};

use samsarrow_client::consumer::{Consumer, Polled};
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::producer::{Delivery, Producer, ProducerRecord};
use samsarrow_wire::error_code::ErrorCode;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::context::{Context, cancel_after, kind};
use crate::{log, options};

const TOPIC: &str = "t";
const GROUP: &str = "g";
const POLL: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(20);
const CLOSE: Duration = Duration::from_secs(60);
/// Time after the last creation within which the group must have read all rows.
const DRAIN: Duration = Duration::from_secs(900);

/// A record with the time before its `send`, and its delivery unless the call failed.
type Sent = (String, Instant, Option<Delivery>);

/// Results of a call of the admin client, by topic.
type Results<T> = Vec<(T, Result<()>)>;

#[derive(Debug, Default)]
struct Shared {
    sent: BTreeSet<String>,
    returned: BTreeSet<String>,
    /// Time at which the last topic was complete; `None` while the admin client still changes topics.
    settled: Option<Instant>,
    producing: usize,
}

#[derive(Debug, Clone)]
struct Topics {
    context: Context,
    shared: Arc<Mutex<Shared>>,
    options: Vec<(&'static str, String)>,
}

impl Topics {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partitions(&self) -> i32 {
        (0..).find(|index| !self.context.broker.has_partition(TOPIC, *index)).unwrap_or_default()
    }

    /// Returns the values in the log that no member has returned.
    fn missing(&self) -> Vec<String> {
        let logs =
            (0..self.partitions()).filter_map(|partition| log::read(&self.context.broker, TOPIC, partition).ok());
        let shared = self.lock();
        logs.flatten().map(|record| record.value).filter(|value| !shared.returned.contains(value)).collect()
    }

    fn has_drained(&self) -> bool {
        let complete = {
            let shared = self.lock();
            shared.settled.is_some() && shared.producing == 0
        };
        complete && self.missing().is_empty()
    }

    fn is_late(&self) -> bool {
        self.lock().settled.is_some_and(|settled| settled.elapsed() > DRAIN)
    }
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng) {
    let mut chosen = vec![
        ("group.id", GROUP.to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
        ("max.poll.records", random.u32(1..50).to_string()),
        ("metadata.max.age.ms", random.u32(1_000..30_000).to_string()),
        ("default.api.timeout.ms", CALL.as_millis().to_string()),
        ("request.timeout.ms", "5000".to_owned()),
        ("enable.auto.commit", random.bool().to_string()),
        ("auto.commit.interval.ms", random.u32(100..5000).to_string()),
    ];
    if random.bool() && context.is_since("4.0") {
        chosen.push(("group.protocol", "consumer".to_owned()));
    } else {
        chosen.push(("session.timeout.ms", "8000".to_owned()));
    }
    let topics = Topics { context: context.clone(), shared: Arc::default(), options: chosen };
    topics.lock().producing = 2;
    let mut programs = JoinSet::new();
    let mut producers = JoinSet::new();
    programs.spawn(administer(topics.clone(), random.fork()));
    for number in 0..2 {
        producers.spawn(produce(topics.clone(), number, random.fork()));
    }
    for _ in 0..random.usize(1..3) {
        programs.spawn(consume(topics.clone(), random.fork()));
    }
    let mut sent = Vec::new();
    while let Some(ended) = producers.join_next().await {
        match ended {
            Ok(records) => sent.extend(records),
            Err(error) => context.violation(format!("a producer's program failed: {error}")),
        }
    }
    while let Some(ended) = programs.join_next().await {
        if let Err(error) = ended {
            context.violation(format!("a program failed: {error}"));
        }
    }
    check(&topics, &sent);
}

/// Records the result of a call of the admin client for one topic.
fn outcome<T>(context: &Context, call: &str, result: Option<Result<Results<T>>>) -> Option<Error> {
    let error = match result? {
        Ok(results) => results.into_iter().find_map(|(_, result)| result.err()),
        Err(error) => Some(error),
    };
    match &error {
        None => context.reached(format!("{call}: completed")),
        Some(error) => context.reached(format!("{call}: {}", kind(error))),
    }
    error
}

async fn delete(context: &Context, admin: &Admin) -> Option<Error> {
    let deleted = [TopicRef::from(TOPIC)];
    let call = context.within("delete_topics", CALL, admin.delete_topics(&deleted, CALL)).await;
    outcome(context, "delete_topics", call)
}

async fn create(context: &Context, admin: &Admin, partitions: i32) -> Option<Error> {
    let new =
        NewTopic { name: TOPIC.to_owned(), num_partitions: partitions, replication_factor: 1, ..NewTopic::default() };
    let call = async {
        let created = admin.create_topics(&[new], false, CALL).await?;
        Ok(created.into_iter().map(|(name, result)| (name, result.map(drop))).collect())
    };
    outcome(context, "create_topics", context.within("create_topics", CALL, call).await)
}

/// Deletes, creates and grows the topic until the disturbances end, and leaves it existing.
async fn administer(topics: Topics, mut random: fastrand::Rng) {
    let context = &topics.context;
    let admin = match options::admin(context, &[("request.timeout.ms", "5000".to_owned())]) {
        Ok(admin) => admin,
        Err(error) => return context.violation(format!("the admin client cannot be created: {error}")),
    };
    // True after a deletion whose outcome is unknown: a broker may process its request later.
    let mut unknown = false;
    while !context.is_calm() {
        sleep(Duration::from_millis(random.u64(1..20_000))).await;
        match random.u8(..3) {
            0 => {
                unknown = delete(context, &admin).await.is_some_and(|error| error.retriable());
                if random.bool() {
                    sleep(Duration::from_millis(random.u64(..10_000))).await;
                }
                drop(create(context, &admin, random.i32(1..4)).await);
            }
            1 => {
                let count = topics.partitions() + 1;
                let new = BTreeMap::from([(TOPIC.to_owned(), NewPartitions { count, assignment: None })]);
                let call = admin.create_partitions(&new, false, CALL);
                if count <= 6 {
                    drop(outcome(context, "create_partitions", context.within("create_partitions", CALL, call).await));
                }
            }
            _ => drop(create(context, &admin, random.i32(1..4)).await),
        }
    }
    for _ in 0..20 {
        if !unknown {
            break;
        }
        unknown = delete(context, &admin).await.is_some_and(|error| error.retriable());
    }
    for _ in 0..20 {
        match create(context, &admin, 2).await {
            None => break,
            Some(error) if error.code() == Some(ErrorCode::TOPIC_ALREADY_EXISTS.code()) => break,
            Some(_) => sleep(Duration::from_secs(5)).await,
        }
    }
    if topics.partitions() == 0 {
        context.violation("the topic cannot be created after the disturbances");
    }
    topics.lock().settled = Some(Instant::now());
    admin.close().await;
}

async fn produce(topics: Topics, number: usize, mut random: fastrand::Rng) -> Vec<Sent> {
    let context = &topics.context;
    let options = [
        ("linger.ms", random.u32(..20).to_string()),
        ("batch.size", random.u32(100..1000).to_string()),
        ("max.block.ms", CALL.as_millis().to_string()),
        ("metadata.max.age.ms", random.u32(1_000..30_000).to_string()),
        ("request.timeout.ms", "5000".to_owned()),
        ("delivery.timeout.ms", random.u32(10_000..40_000).to_string()),
    ];
    let mut records = Vec::new();
    match options::producer(context, &options) {
        Ok(producer) => {
            let mut k = 0;
            // The last records follow the last creation, so that the log is not empty.
            let mut last = 20;
            while last > 0 && k < 3000 {
                if topics.lock().settled.is_some() {
                    last -= 1;
                }
                records.push(send(&topics, &producer, format!("{number}:{k}"), &mut random).await);
                k += 1;
                if random.u8(..3) == 0 {
                    sleep(Duration::from_millis(random.u64(..2000))).await;
                }
            }
            if let Some(Err(error)) = context.within("close", CLOSE, producer.close(CLOSE)).await {
                context.reached(format!("close: {}", kind(&error)));
            }
        }
        Err(error) => context.violation(format!("the producer cannot be created: {error}")),
    }
    topics.lock().producing -= 1;
    records
}

async fn send(topics: &Topics, producer: &Producer, value: String, random: &mut fastrand::Rng) -> Sent {
    let context = &topics.context;
    topics.lock().sent.insert(value.clone());
    let started = Instant::now();
    let record = ProducerRecord::new(TOPIC, value.clone());
    let call = producer.send(record);
    let delivery = if random.u8(..) < 8 {
        cancel_after(random.u32(..4), call).await
    } else {
        context.within("send", CALL, call).await
    };
    let delivery = match delivery {
        Some(Ok(delivery)) => Some(delivery),
        Some(Err(error)) => {
            context.reached(format!("send: {}", kind(&error)));
            None
        }
        None => None,
    };
    (value, started, delivery)
}

async fn consume(topics: Topics, mut random: fastrand::Rng) {
    let context = topics.context.clone();
    while !topics.has_drained() {
        if topics.is_late() {
            return context
                .violation(format!("the group did not return rows of the last topic: {:?}", topics.missing()));
        }
        let consumer = match options::consumer(&context, &topics.options) {
            Ok(consumer) => consumer,
            Err(error) => return context.violation(format!("the consumer cannot be created: {error}")),
        };
        let subscription =
            if random.bool() { Subscription::topics([TOPIC.to_owned()]) } else { Subscription::pattern("t.*") };
        if let Err(error) = subscription.and_then(|subscription| consumer.subscribe(subscription)) {
            return context.violation(format!("subscribe failed: {error}"));
        }
        let mut steps = random.u32(20..300);
        while (steps > 0 || context.is_calm()) && !topics.has_drained() && !topics.is_late() {
            steps = steps.saturating_sub(1);
            step(&topics, &consumer, &mut random).await;
        }
        if random.u8(..3) == 0 {
            context.reached("member crashed");
        } else {
            context.within("close", CLOSE, consumer.close(CLOSE)).await;
        }
    }
}

async fn step(topics: &Topics, consumer: &Consumer, random: &mut fastrand::Rng) {
    let context = &topics.context;
    if random.u8(..20) == 0 {
        if let Some(Err(error)) = context.within("commit", CALL, consumer.commit(None, CALL)).await {
            context.reached(format!("commit: {}", kind(&error)));
        }
        return;
    }
    match context.within("poll", POLL, consumer.next(POLL)).await {
        Some(Ok(Polled::Rebalance(event))) => consumer.acknowledge(&event),
        Some(Ok(Polled::Committed)) => drop(consumer.take_completed()),
        Some(Ok(Polled::Rows(rows))) => {
            let Some(batch) = rows.batch else { return };
            let Some(values) = batch.column_by_name("value") else {
                return context.violation("a batch lacks a column");
            };
            let values = values.as_binary::<i32>();
            let mut shared = topics.lock();
            for row in 0..batch.num_rows() {
                let value = String::from_utf8_lossy(values.value(row)).into_owned();
                if !shared.sent.contains(&value) {
                    context.violation(format!("row {value} was returned and never sent"));
                }
                shared.returned.insert(value);
            }
        }
        Some(Err(error)) => {
            context.reached(format!("poll: {}", kind(&error)));
            if !error.retriable() {
                context.violation(format!("poll failed: {error}"));
            }
        }
        None => {}
    }
}

fn check(topics: &Topics, sent: &[Sent]) {
    let context = &topics.context;
    let mut places: BTreeMap<String, Vec<(i32, i64)>> = BTreeMap::new();
    for partition in 0..topics.partitions() {
        match log::read(&context.broker, TOPIC, partition) {
            Ok(stored) => {
                for record in stored {
                    places.entry(record.value).or_default().push((partition, record.offset));
                }
            }
            Err(error) => context.violation(error),
        }
    }
    let Some(settled) = topics.lock().settled else { return };
    for (value, started, delivery) in sent {
        let found = places.get(value).map(Vec::as_slice).unwrap_or_default();
        if found.len() > 1 {
            context.violation(format!("idempotent record {value} is in the log {} times: {found:?}", found.len()));
        }
        match delivery.as_ref().map(Delivery::peek) {
            Some(None) => context.violation(format!("record {value} has no result after close")),
            Some(Some(Ok(metadata))) if *started > settled => {
                let at = (metadata.partition, metadata.offset);
                if !found.contains(&at) {
                    context
                        .violation(format!("record {value} was acknowledged at {at:?}, the log has it at {found:?}"));
                }
            }
            Some(Some(Ok(_))) => context.reached("delivery: acknowledged"),
            Some(Some(Err(error))) => context.reached(format!("delivery: {}", kind(&error))),
            None => {}
        }
    }
}
