//! Members of a share group that poll, acknowledge, commit, leave, crash and return while records are produced
//! (KIP-932).
//!
//! Guarantees: a record has at most one lock at a time, and is delivered at most as often as the group's limit. Returned
//! rows are as in the log, and have the delivery count of the broker. A record is delivered again only if its lock has
//! ended without an acknowledgement, or it was released. Each decision has exactly one outcome, and each successful one
//! is an acknowledgement that the broker has applied. After the disturbances, the group finishes all records, and each of
//! them was accepted or rejected by a member unless its deliveries were used up. Every call ends within its timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use samsarrow_client::admin::{ConfigChange, ConfigResource};
use samsarrow_client::share::{Acknowledgement, Outcomes, ShareConsumer};
use samsarrow_client::types::TopicPartition;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::deliveries::{ACCEPT, Deliveries, Position, REJECT};
use super::records::{self, Records};
use crate::context::{Context, cancel_after, kind};
use crate::{log, options};

const GROUP: &str = "g";
const TOPIC: &str = "q";
const POLL: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_secs(20);
/// Time after the disturbances within which the group must have finished all records.
const DRAIN: Duration = Duration::from_secs(900);
/// Delivery limit that no record reaches.
pub(crate) const UNLIMITED: i16 = i16::MAX;
/// Resource type of a group, with the protocol's code.
const GROUP_CONFIGS: i8 = 32;

#[derive(Debug, Default)]
struct Shared {
    /// Returned values, to be compared with the logs.
    values: BTreeMap<Position, String>,
    /// Records that a member has accepted or rejected, successfully or not.
    decided: BTreeSet<Position>,
    /// Deliveries by the events of the broker.
    deliveries: Deliveries,
    producing: bool,
    drained: bool,
}

#[derive(Debug, Clone)]
struct Group {
    context: Context,
    shared: Arc<Mutex<Shared>>,
    partitions: i32,
    delivery_limit: i16,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_drained(&self) -> bool {
        self.lock().drained
    }

    /// Returns true if the members did not finish all records in time.
    fn is_late(&self) -> bool {
        Instant::now() > self.context.calm_at + DRAIN
    }
}

pub(crate) async fn run(context: Context, mut random: fastrand::Rng, delivery_limit: i16) {
    let partitions = (0..).take_while(|index| context.broker.has_partition(TOPIC, *index)).count();
    let partitions = i32::try_from(partitions).unwrap_or(1);
    let group = Group { context: context.clone(), shared: Arc::default(), partitions, delivery_limit };
    group.lock().producing = true;
    begin_at_earliest(&context).await;
    let mut programs = JoinSet::new();
    programs.spawn(produce(group.clone(), random.fork()));
    programs.spawn(watch(group.clone()));
    for number in 0..random.usize(1..4) {
        programs.spawn(consume(group.clone(), number, random.fork()));
    }
    while let Some(ended) = programs.join_next().await {
        if let Err(error) = ended {
            context.violation(format!("a program failed: {error}"));
        }
    }
    check(&group);
}

/// Lets the group start at the first record, because a leader that changes before the first acknowledgement starts
/// again.
async fn begin_at_earliest(context: &Context) {
    let admin = match options::admin(context, &[]) {
        Ok(admin) => admin,
        Err(error) => return context.violation(format!("the admin client cannot be created: {error}")),
    };
    let resource = ConfigResource { kind: GROUP_CONFIGS, name: GROUP.to_owned() };
    let change =
        |name: &str, value: &str| ConfigChange { name: name.to_owned(), operation: 0, value: Some(value.to_owned()) };
    let changes = BTreeMap::from([(resource, vec![change("share.auto.offset.reset", "earliest")])]);
    while Instant::now() < context.calm_at + DRAIN {
        match admin.alter_configs(&changes, false, CALL).await {
            Ok(results) if results.iter().all(|(_, result)| result.is_ok()) => break,
            _ => sleep(Duration::from_millis(100)).await,
        }
    }
    admin.close().await;
}

async fn produce(group: Group, mut random: fastrand::Rng) {
    let linger = [("linger.ms", "5".to_owned()), ("batch.size", "500".to_owned())];
    let records = Records {
        options: &linger,
        count: 600,
        pause_every: 10,
        max_pause_ms: 3000,
        close_timeout: Duration::from_secs(150),
    };
    let place = |random: &mut fastrand::Rng| (TOPIC, random.i32(0..group.partitions));
    records::produce(&group.context, &mut random, records, place).await;
    group.lock().producing = false;
}

/// Waits until the group has finished all records, by the state of the broker.
async fn watch(group: Group) {
    while !group.is_late() {
        sleep(Duration::from_secs(1)).await;
        let unfinished = |partition: i32| {
            let end = group.context.broker.end_offset(TOPIC, partition).unwrap_or_default();
            end > 0 && group.context.broker.share_lag(GROUP, TOPIC, partition) != Some(0)
        };
        if group.context.is_calm() && !group.lock().producing && !(0..group.partitions).any(unfinished) {
            group.lock().drained = true;
            return;
        }
    }
    let lags = (0..group.partitions).map(|index| group.context.broker.share_lag(GROUP, TOPIC, index));
    let lags: Vec<_> = lags.collect();
    group.context.violation(format!("the group did not finish all records after the disturbances: lags {lags:?}"));
}

/// Offsets of decided rows with the types of their acknowledgements, by partition.
type Decisions = BTreeMap<i32, Vec<(i64, i8)>>;

struct Member<'a> {
    group: &'a Group,
    number: usize,
    consumer: ShareConsumer,
    explicit: bool,
    /// Rows of the last poll of an implicit member, which the next poll accepts.
    last: Vec<Position>,
    /// Decided rows that no commit has reported.
    decisions: Decisions,
    /// Decided rows that commits in the background report, by the numbers of the commits.
    background: BTreeMap<u64, Decisions>,
    client_id: String,
    /// Renewed rows, which are decided later.
    renewed: Vec<RecordBatch>,
}

async fn consume(group: Group, number: usize, mut random: fastrand::Rng) {
    let mut clients = 0;
    while !group.has_drained() && !group.is_late() {
        let explicit = random.bool();
        clients += 1;
        let client_id = format!("member-{number}-{clients}");
        let chosen = [
            ("group.id", GROUP.to_owned()),
            ("client.id", client_id.clone()),
            ("request.timeout.ms", "5000".to_owned()),
            ("default.api.timeout.ms", CALL.as_millis().to_string()),
            ("max.poll.records", random.u32(1..50).to_string()),
            ("share.acknowledgement.mode", if explicit { "explicit" } else { "implicit" }.to_owned()),
            ("share.acquire.mode", if random.bool() { "record_limit" } else { "batch_optimized" }.to_owned()),
        ];
        let consumer = match options::share_consumer(&group.context, &chosen, explicit && random.bool()) {
            Ok(consumer) => consumer,
            Err(error) => return group.context.violation(format!("the share consumer cannot be created: {error}")),
        };
        let mut member = Member {
            group: &group,
            number,
            consumer,
            explicit,
            last: Vec::new(),
            decisions: Decisions::new(),
            background: BTreeMap::new(),
            client_id,
            renewed: Vec::new(),
        };
        member.subscribe();
        let mut steps = random.u32(5..200);
        while (steps > 0 || group.context.is_calm()) && !group.has_drained() && !group.is_late() {
            steps = steps.saturating_sub(1);
            member.step(&mut random).await;
        }
        if random.u8(..3) == 0 {
            // A crash: connections close, and the member does not leave.
            group.context.reached("member crashed");
        } else {
            let limit = Duration::from_millis(random.u64(..30_000));
            member.accept_last();
            group.context.within("close", limit, member.consumer.close(limit, true)).await;
        }
    }
}

impl Member<'_> {
    fn subscribe(&self) {
        if let Err(error) = self.consumer.subscribe([TOPIC.to_owned()].into()) {
            self.group.context.violation(format!("subscribe failed: {error}"));
        }
    }

    async fn step(&mut self, random: &mut fastrand::Rng) {
        let context = self.group.context.clone();
        match random.u8(..100) {
            0..3 if !context.is_calm() => {
                context.reached("unsubscribe");
                drop(self.consumer.unsubscribe());
                sleep(Duration::from_millis(random.u64(..2000))).await;
                self.subscribe();
            }
            3..18 => self.commit(random).await,
            18..24 => {
                self.accept_last();
                match self.consumer.commit_async() {
                    Ok(number) => {
                        context.reached("commit_async");
                        self.background.insert(number, std::mem::take(&mut self.decisions));
                    }
                    Err(error) => context.violation(format!("commit_async failed: {error}")),
                }
            }
            24..26 => self.consumer.wakeup(),
            // Locks end while the application is busy.
            26..30 => sleep(Duration::from_millis(random.u64(..15_000))).await,
            30..32 if !context.is_calm() => {
                context.reached("locks expired");
                drop(context.broker.expire_locks(GROUP));
            }
            32..36 => self.decide_renewed(),
            _ => self.poll(random).await,
        }
        self.take_completed();
    }

    /// Handles the outcomes of commits in the background.
    fn take_completed(&mut self) {
        for completed in self.consumer.take_completed() {
            match self.background.remove(&completed.number) {
                Some(decisions) => self.outcomes(&completed.outcomes, decisions),
                None => self.group.context.violation(format!("commit {} has completed twice", completed.number)),
            }
        }
    }

    /// Records that the rows of the last poll are accepted by the next call of an implicit member.
    fn accept_last(&mut self) {
        for (partition, offset) in std::mem::take(&mut self.last) {
            self.decide_row((partition, offset), ACCEPT);
        }
    }

    fn decide_row(&mut self, position: Position, kind: i8) {
        self.group.lock().decided.insert(position);
        // A renewed row may have come again, and another decision replaces one that has not been sent.
        for decisions in self.background.values_mut().chain([&mut self.decisions]) {
            if let Some(rows) = decisions.get_mut(&position.0) {
                rows.retain(|(offset, _)| *offset != position.1);
            }
        }
        self.decisions.entry(position.0).or_default().push((position.1, kind));
    }

    async fn commit(&mut self, random: &mut fastrand::Rng) {
        let context = &self.group.context.clone();
        self.accept_last();
        let limit = Duration::from_millis(random.u64(1..20_000));
        let commit = self.consumer.commit(limit);
        let result = if random.bool() {
            context.within("commit", limit, commit).await
        } else {
            cancel_after(random.u32(..4), commit).await
        };
        // Earlier commits have reported the outcomes of their rows.
        self.take_completed();
        match result {
            None => {}
            Some(Ok(commit)) => {
                let decisions = std::mem::take(&mut self.decisions);
                self.outcomes(&commit.outcomes(), decisions);
            }
            Some(Err(error)) => {
                context.reached(format!("commit: {}", kind(&error)));
                if !context.expects(&error) {
                    context.violation(format!("commit failed: {error}"));
                }
            }
        }
    }

    /// Checks the outcomes of decisions. The broker must have applied those of partitions without an error.
    fn outcomes(&mut self, outcomes: &Outcomes, decisions: Decisions) {
        let context = &self.group.context;
        for outcome in outcomes.values() {
            match outcome {
                Ok(()) => context.reached("acknowledged"),
                Err(error) => context.reached(format!("acknowledgement: {}", kind(error))),
            }
        }
        let mut shared = self.group.lock();
        shared.deliveries.update(context);
        for (partition, rows) in decisions.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            match outcomes.get(&TopicPartition::new(TOPIC, partition)) {
                None => context.violation(format!("{partition}: decisions about {rows:?} have no outcome")),
                Some(Err(_)) => {}
                Some(Ok(())) => {
                    for (offset, kind) in rows {
                        let position = (partition, offset);
                        if shared.deliveries.acknowledged(&self.client_id, position, kind) > 0 {
                            continue;
                        }
                        if shared.deliveries.is_before_start(position, self.group.delivery_limit) {
                            context.reached("late acknowledgement before the start offset ignored");
                            continue;
                        }
                        context.violation(format!(
                            "{partition}: the acknowledgement of {offset} as type {kind} by {} was not applied: {}",
                            self.client_id,
                            shared.deliveries.describe(position)
                        ));
                    }
                }
            }
        }
    }

    async fn poll(&mut self, random: &mut fastrand::Rng) {
        let context = self.group.context.clone();
        if let Err(error) = self.consumer.begin_poll() {
            return context.violation(format!("poll failed: {error}"));
        }
        self.accept_last();
        let wait = self.consumer.wait_ready(POLL);
        let waited = if random.u8(..) < 30 {
            cancel_after(random.u32(..4), wait).await
        } else {
            context.within("poll", POLL, wait).await
        };
        if waited.is_none() {
            return;
        }
        match self.consumer.try_poll() {
            Ok(None) => {}
            Ok(Some(batch)) => {
                let rows = self.check_rows(&batch);
                context.reached("rows returned");
                if self.explicit {
                    self.decide(batch, &rows, random);
                } else {
                    self.last = rows;
                }
            }
            Err(error) => {
                context.reached(format!("poll: {}", kind(&error)));
                if !context.expects(&error) {
                    context.violation(format!("poll failed: {error}"));
                }
            }
        }
    }

    /// Decides about the rows of a poll: all by one type, or each by its own.
    fn decide(&mut self, batch: RecordBatch, rows: &[Position], random: &mut fastrand::Rng) {
        let is_calm = self.group.context.is_calm();
        let mut draw = || match random.u8(..100) {
            0..10 if !is_calm => Acknowledgement::Release,
            10..20 => Acknowledgement::Reject,
            _ => Acknowledgement::Accept,
        };
        let one = draw();
        let types: Vec<_> = rows.iter().map(|_| draw()).collect();
        let (types, renews) = match random.u8(..8) {
            0 => (vec![Acknowledgement::Renew; rows.len()], true),
            1..4 => (types, false),
            _ => (vec![one; rows.len()], false),
        };
        let passed: Vec<_> = types.iter().copied().map(Some).collect();
        if let Err(error) = self.consumer.acknowledge(std::slice::from_ref(&batch), &passed) {
            return self.group.context.violation(format!("rows of a poll cannot be acknowledged: {error}"));
        }
        if renews {
            self.group.context.reached("rows renewed");
            self.renewed.push(batch);
        }
        self.decided(rows, &types);
    }

    fn decided(&mut self, rows: &[Position], types: &[Acknowledgement]) {
        for (position, kind) in rows.iter().zip(types) {
            match kind {
                Acknowledgement::Accept => self.decide_row(*position, ACCEPT),
                Acknowledgement::Reject => self.decide_row(*position, REJECT),
                Acknowledgement::Release | Acknowledgement::Renew => {}
            }
        }
    }

    /// Accepts renewed rows, each alone if any is not with the member any more because its renewal has failed.
    fn decide_renewed(&mut self) {
        let Some(batch) = self.renewed.pop() else { return };
        match self.consumer.acknowledge(std::slice::from_ref(&batch), &[Some(Acknowledgement::Accept)]) {
            Ok(()) => {
                self.group.context.reached("renewed rows accepted");
                let rows: Vec<_> = positions(&batch).map(|(position, ..)| position).collect();
                self.decided(&rows, &vec![Acknowledgement::Accept; rows.len()]);
            }
            Err(error) => {
                self.group.context.reached(format!("renewed rows: {}", kind(&error)));
                if batch.num_rows() > 1 {
                    for row in 0..batch.num_rows() {
                        self.renewed.push(batch.slice(row, 1));
                        self.decide_renewed();
                    }
                }
            }
        }
    }

    fn check_rows(&self, batch: &RecordBatch) -> Vec<Position> {
        let (context, mut shared, mut rows) = (&self.group.context, self.group.lock(), Vec::new());
        shared.deliveries.update(context);
        for (position, value, deliveries) in positions(batch) {
            let (partition, offset) = position;
            shared.deliveries.returned(context, &self.client_id, position, deliveries);
            if !(1..=self.group.delivery_limit).contains(&deliveries) {
                context.violation(format!("{TOPIC}-{partition} delivered {offset} with delivery count {deliveries}"));
            }
            if deliveries > 1 {
                context.reached("row delivered again");
            }
            shared.values.insert(position, value);
            rows.push(position);
        }
        context.network.trace(&format!("member {}: {rows:?}", self.number));
        rows
    }
}

/// Returns the position, the value and the delivery count of each row.
fn positions(batch: &RecordBatch) -> impl Iterator<Item = (Position, String, i16)> + use<> {
    let column = |name: &str| batch.column_by_name(name).cloned();
    let columns = column("partition").zip(column("offset")).zip(column("value").zip(column("delivery_count")));
    let rows = if columns.is_some() { batch.num_rows() } else { 0 };
    (0..rows).filter_map(move |row| {
        let ((partitions, offsets), (values, counts)) = columns.as_ref()?;
        let partition = partitions.as_primitive::<Int32Type>().value(row);
        let offset = offsets.as_primitive::<Int64Type>().value(row);
        let value = String::from_utf8_lossy(values.as_binary::<i32>().value(row)).into_owned();
        Some(((partition, offset), value, counts.as_primitive::<Int16Type>().value(row)))
    })
}

fn check(group: &Group) {
    let (context, mut shared) = (&group.context, group.lock());
    shared.deliveries.update(context);
    for partition in 0..group.partitions {
        let stored = match log::read(&context.broker, TOPIC, partition) {
            Ok(stored) => stored,
            Err(error) => return context.violation(error),
        };
        for record in stored {
            let position = (partition, record.offset);
            if shared.values.get(&position).is_some_and(|value| *value != record.value) {
                context.violation(format!("{TOPIC}-{partition} returned another value for {record:?}"));
            }
            if group.delivery_limit == UNLIMITED && shared.drained && !shared.decided.contains(&position) {
                context.violation(format!("{TOPIC}-{partition} finished {record:?}, which no member has decided"));
            }
            if shared.drained && !shared.deliveries.has_ended(position, group.delivery_limit) {
                context.violation(format!(
                    "{TOPIC}-{partition} finished {record:?}, which was neither acknowledged nor delivered too often"
                ));
            }
        }
    }
}
