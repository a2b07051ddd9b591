//! Disturbances of a run: failures of nodes, the network and requests.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use samsarrow_broker::{Alteration, Fault, Release};
use samsarrow_simnet::{Latency, Reachability};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use tokio::time::{Instant, sleep, sleep_until};

use crate::context::Context;

/// Quotas that the broker enforces.
const RATES: [&str; 2] = ["producer_byte_rate", "consumer_byte_rate"];
/// Entity of a quota that applies to each client id.
const EVERY_CLIENT: [(&str, Option<&str>); 1] = [("client-id", None)];

/// A disturbance.
#[derive(Debug, Clone)]
pub enum Event {
    /// Stops a node and starts it again after a time.
    StopNode(i32, Duration),
    /// Stops a node and starts it again after a time as another Kafka release.
    Upgrade(i32, Release, Duration),
    /// Moves the leader of a partition, by index into the world's partitions.
    MoveLeader(usize, i32),
    /// Truncates a partition by a number of records, as an unclean election does, and moves its leader.
    Truncate(usize, i64, i32),
    /// Moves the coordinator of a group, by index into the world's groups.
    MoveCoordinator(usize, i32),
    /// Moves the coordinator of a transactional id, by index into the world's ids.
    MoveTransactionCoordinator(usize, i32),
    /// Resets a connection.
    Reset,
    /// Delays all bytes of a node's connections: those to the node, those from it, or both.
    Stall(i32, bool, bool, Duration),
    /// Makes a node unreachable for new connections.
    Unreachable(i32, Reachability, Duration),
    /// Changes the latency of the network.
    Slow(Duration),
    /// Injects a fault into the next requests of an API.
    Fault(ApiKey, Fault, usize),
    /// Sets a quota of each client id in bytes per second.
    Quota(&'static str, u32),
    /// Rejects the next logins.
    RejectLogins(usize),
    /// Makes Metadata responses return the current metadata, even after it has changed.
    StaleMetadata(usize),
    /// Drops all fetch sessions.
    ForgetFetchSessions,
}

/// A disturbance and its time since the start of the run.
#[derive(Debug, Clone)]
pub struct Timed {
    /// Time since the start.
    pub at: Duration,
    /// Disturbance.
    pub event: Event,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.3} s  {:?}", self.at.as_secs_f64(), self.event)
    }
}

/// Parts of a world that events refer to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) nodes: i32,
    pub(crate) partitions: Vec<(String, i32)>,
    pub(crate) groups: Vec<String>,
    pub(crate) transactional_ids: Vec<String>,
    /// True if partitions may be truncated.
    pub(crate) truncates: bool,
    /// Releases before and after a rolling upgrade; `None` if all nodes have the newest release.
    pub(crate) releases: Option<(Release, Release)>,
    /// Time after which clients log in again, zero for never; `None` if there are no logins.
    pub(crate) session_lifetime: Option<Duration>,
    /// Maximum number of deliveries of a record in a share group.
    pub(crate) delivery_limit: i16,
    /// True if clients get quotas and throttle times.
    pub(crate) quotas: bool,
    /// APIs that get faults, each with the errors that a broker may return for it.
    pub(crate) apis: Vec<(ApiKey, &'static [ErrorCode])>,
}

/// Draws the events of a run in the order of their times.
pub(crate) fn draw(random: &mut fastrand::Rng, parts: &Parts, count: usize, until: Duration) -> Vec<Timed> {
    let mut events: Vec<Timed> = (0..count)
        .map(|_| Timed {
            at: Duration::from_millis(random.u64(..until.as_millis() as u64)),
            event: event(random, parts),
        })
        .collect();
    if let Some((old, new)) = parts.releases {
        events.extend(upgrade(random, parts.nodes, old, new).into_iter().filter(|timed| timed.at < until));
    }
    if parts.session_lifetime.is_some() {
        events.extend((0..random.usize(1..8)).map(|_| Timed {
            at: Duration::from_millis(random.u64(..until.as_millis() as u64)),
            event: Event::RejectLogins(random.usize(1..4)),
        }));
    }
    if parts.quotas {
        events.extend((0..random.usize(2..12)).map(|_| Timed {
            at: Duration::from_millis(random.u64(..until.as_millis() as u64)),
            event: quota(random, parts),
        }));
    }
    events.sort_by_key(|timed| timed.at);
    events
}

/// Draws a rolling upgrade, which may be undone and repeated.
fn upgrade(random: &mut fastrand::Rng, nodes: i32, old: Release, new: Release) -> Vec<Timed> {
    let rounds: &[Release] = if random.u8(..3) == 0 { &[new, old, new] } else { &[new] };
    let mut at = Duration::from_millis(random.u64(..20_000));
    let mut events = Vec::new();
    for release in rounds {
        for node in 0..nodes {
            at += Duration::from_millis(random.u64(..8_000));
            let away = Duration::from_millis(random.u64(10..5_000));
            events.push(Timed { at, event: Event::Upgrade(node, *release, away) });
        }
    }
    events
}

fn event(random: &mut fastrand::Rng, parts: &Parts) -> Event {
    let node = random.i32(0..parts.nodes);
    let long = Duration::from_millis(random.u64(100..20_000));
    let short = Duration::from_millis(random.u64(10..3_000));
    match random.u8(..100) {
        0..6 if parts.truncates => Event::Truncate(random.usize(..parts.partitions.len()), random.i64(1..40), node),
        0..12 => Event::StopNode(node, long),
        12..24 if !parts.partitions.is_empty() => Event::MoveLeader(random.usize(..parts.partitions.len()), node),
        24..34 if !parts.groups.is_empty() => Event::MoveCoordinator(random.usize(..parts.groups.len()), node),
        34..42 if !parts.transactional_ids.is_empty() => {
            Event::MoveTransactionCoordinator(random.usize(..parts.transactional_ids.len()), node)
        }
        42..56 => Event::Reset,
        56..64 => Event::Stall(node, random.bool(), random.bool(), long),
        64..70 => {
            let how = if random.bool() { Reachability::Rejected } else { Reachability::Lost };
            Event::Unreachable(node, how, long)
        }
        70..74 => Event::Slow(short / 4),
        74..78 => Event::StaleMetadata(random.usize(1..20)),
        78..80 => Event::ForgetFetchSessions,
        _ => fault(random, parts, short),
    }
}

fn quota(random: &mut fastrand::Rng, parts: &Parts) -> Event {
    let throttled = random.choice(&parts.apis).filter(|_| random.bool());
    match throttled {
        Some((api, _)) => {
            let time = Duration::from_millis(random.u64(1..20_000));
            Event::Fault(*api, Fault::Throttle(time), random.usize(1..6))
        }
        None => Event::Quota(if random.bool() { RATES[0] } else { RATES[1] }, random.u32(5..2_000)),
    }
}

fn fault(random: &mut fastrand::Rng, parts: &Parts, delay: Duration) -> Event {
    let Some((api, errors)) = random.choice(&parts.apis) else { return Event::Reset };
    let error = random.choice(errors.iter()).copied();
    let fault = match (random.u8(..6), error) {
        (0, Some(error)) => Fault::Error(error),
        (1, Some(error)) => Fault::Answer(error),
        (2, _) => Fault::DropAfter,
        (3, _) => Fault::DropBefore,
        (4, _) => Fault::Late(delay, Box::new(Fault::DropAfter)),
        _ => Fault::Delay(delay),
    };
    Event::Fault(*api, fault, random.usize(1..6))
}

fn address(context: &Context, node: i32) -> Option<SocketAddr> {
    let node = usize::try_from(node).ok()?;
    context.servers.split(',').nth(node)?.parse().ok()
}

/// Applies the events at their times, and ends all disturbances at `calm_at`.
pub(crate) async fn apply(context: &Context, parts: &Parts, events: &[Timed], usual: Latency) {
    let started = Instant::now();
    let mut stopped = tokio::task::JoinSet::new();
    for Timed { at, event } in events {
        sleep_until((started + *at).min(context.calm_at)).await;
        context.reached(format!("event {}", name(event)));
        let (broker, network) = (&context.broker, &context.network);
        match event {
            Event::StopNode(node, time) => {
                let (context, node, time) = (context.clone(), *node, *time);
                stopped.spawn(async move {
                    let _ = context.broker.stop_node(node).await;
                    sleep(time).await;
                    let _ = context.broker.start_node(node).await;
                });
            }
            Event::Upgrade(node, release, time) => {
                let (context, node, release, time) = (context.clone(), *node, *release, *time);
                stopped.spawn(async move {
                    let _ = context.broker.stop_node(node).await;
                    let _ = context.broker.set_kafka(node, Some(release));
                    sleep(time).await;
                    let _ = context.broker.start_node(node).await;
                });
            }
            // A move to a stopped node is rejected, and nothing changes.
            Event::MoveLeader(index, node) => {
                if let Some((topic, partition)) = parts.partitions.get(*index) {
                    let _ = broker.move_leader(topic, *partition, *node);
                }
            }
            Event::Truncate(index, records, node) => {
                if let Some((topic, partition)) = parts.partitions.get(*index) {
                    let end = broker.end_offset(topic, *partition).unwrap_or_default();
                    if let Err(error) = broker.truncate(topic, *partition, (end - records).max(0)) {
                        context.violation(format!("{topic}-{partition} cannot be truncated: {error}"));
                    }
                    let _ = broker.move_leader(topic, *partition, *node);
                    context.truncated(topic, *partition);
                }
            }
            Event::MoveCoordinator(index, node) => {
                if let Some(group) = parts.groups.get(*index) {
                    let _ = broker.move_coordinator(group, *node);
                }
            }
            Event::MoveTransactionCoordinator(index, node) => {
                if let Some(id) = parts.transactional_ids.get(*index) {
                    let _ = broker.move_transaction_coordinator(id, *node);
                }
            }
            Event::Reset => drop(network.reset_one()),
            Event::Stall(node, forward, backward, time) => {
                if let Some(address) = address(context, *node) {
                    network.stall(address, *forward, *backward, *time);
                }
            }
            Event::Unreachable(node, how, time) => {
                if let Some(address) = address(context, *node) {
                    network.set_reachability(address, *how, *time);
                }
            }
            Event::Slow(max) => network.set_latency(Latency { min: Duration::ZERO, max: *max }),
            Event::Fault(api, fault, times) => broker.fail_next(*api, fault.clone(), *times),
            Event::Quota(rate, bytes) => broker.set_quota(&EVERY_CLIENT, rate, Some((*bytes).into())),
            Event::RejectLogins(times) => {
                let error = Some(ErrorCode::SASL_AUTHENTICATION_FAILED);
                let rejected = broker.alter_logins(Alteration { times: Some(*times), error, ..Alteration::default() });
                if let Err(error) = rejected {
                    context.violation(format!("logins cannot be rejected: {error}"));
                }
            }
            Event::StaleMetadata(times) => broker.stale_metadata(Some(*times), &[]),
            Event::ForgetFetchSessions => broker.forget_fetch_sessions(),
        }
    }
    sleep_until(context.calm_at).await;
    context.broker.clear_faults();
    for rate in RATES {
        context.broker.set_quota(&EVERY_CLIENT, rate, None);
    }
    // Bytes that are delayed in the network may arrive during a throttle time.
    let delayed = |timed: &Timed| matches!(timed.event, Event::Slow(_) | Event::Stall(..));
    if context.broker.sent_while_muted() > 0 && !events.iter().any(delayed) {
        context.violation("a client has sent requests during its throttle time");
    }
    context.network.set_latency(usual);
    while stopped.join_next().await.is_some() {}
    for node in 0..parts.nodes {
        if let Err(error) = context.broker.start_node(node).await {
            context.violation(format!("node {node} cannot be started: {error}"));
        }
    }
}

fn name(event: &Event) -> String {
    match event {
        Event::Fault(api, fault, _) => format!("{api:?} {}", fault_name(fault)),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
    }
}

fn fault_name(fault: &Fault) -> String {
    match fault {
        Fault::Error(code) => format!("Error {}", code.name()),
        Fault::Answer(code) => format!("Answer {}", code.name()),
        Fault::Delay(_) => "Delay".to_owned(),
        Fault::Late(_, fault) => format!("Late {}", fault_name(fault)),
        Fault::Throttle(_) => "Throttle".to_owned(),
        other => format!("{other:?}"),
    }
}
