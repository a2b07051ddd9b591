//! A short session of each world, and all seeds that have failed.
#![allow(clippy::unwrap_used, reason = "a test")]

use samsarrow_simulation::{Plan, World, run};

/// Seeds that have failed, each with the defect that it found.
const FAILED: &[(World, u64)] = &[
    // A new broker that closed connections was taken for Kafka 0.9, and got messages in format v0.
    (World::Produce, 2),
    (World::Produce, 8),
    (World::Produce, 19),
    // A record that was reported as failed was appended behind later records.
    (World::Produce, 2061),
    // Three connections that were closed made a new broker Kafka 0.9.
    (World::Produce, 5290),
    // The time of a pause counted as time in which a partition had failed.
    (World::Fetch, 101),
    // A broker that closed connections was taken for one that does not support the consumer protocol.
    (World::Groups, 11),
    // A member took an assignment that the coordinator had replaced.
    (World::Groups, 145),
    // A static member that returned with another subscription took its old assignment.
    (World::Groups, 217),
    // The session of a crashed member began again when its coordinator moved, and its successor did not wait for it.
    (World::Groups, 5416),
    // A commit that the coordinator delayed was applied after its connection was reset, and after newer commits.
    (World::Groups, 505347),
    // A commit was applied late, after its call had timed out and the coordinator had moved away and back.
    (World::Upgrade, 700647),
    // The embedded broker applied acknowledgements of records whose locks had ended to their next delivery.
    (World::Shares, 10),
    // A client repeated such acknowledgements after the response that had delivered the records again.
    (World::Shares, 7),
    (World::Shares, 12),
    // The response with a member's assignment was lost, and the embedded broker did not send the assignment again.
    (World::Shares, 700239),
    // Batches of a recreated topic were sent while batches of the old topic were in flight, and written twice.
    (World::Topics, 20030),
    // Stale metadata of the broker had the id of a recreated topic and the epochs of the old topic.
    (World::Topics, 20314),
    // A heartbeat and a lookup of topics waited for each other.
    (World::Topics, 20492),
    // A repeated or late DeleteTopics by name deleted the topic that had been created again.
    (World::Topics, 80137),
    (World::Topics, 81709),
    (World::Topics, 82825),
    // An offset commit was repeated by name, and moved the offset in the topic that had been created again.
    (World::Topics, 210028),
    // A client sent requests in the throttle time of an ApiVersions response.
    (World::Quotas, 47),
    (World::Quotas, 63),
    // The throttle time of a Fetch response was lost, because its caller had stopped waiting.
    (World::Quotas, 400458),
    (World::Quotas, 500827),
    // The embedded broker throttled a request that it answered with an error, without the time in the response.
    (World::Quotas, 501038),
    // A fetch that exceeded its quota by less than a millisecond had neither records nor a throttle time.
    (World::Quotas, 730227),
    // Idle consumers with a fetch.max.wait.ms of a millisecond sent more requests than the limit of the simulation.
    (World::Fetch, 82669),
    (World::Logins, 80368),
    // A late EndTxn committed the next transaction, which only brokers with transaction version 2 prevent.
    (World::Transactions, 2230),
    // Offsets of a member that had lost its membership were committed, and rows twice.
    (World::Transactions, 11413),
];

fn check(world: World, seed: u64) {
    let outcome = run(&Plan { world, seed, events: None, record: false, defect: None }).unwrap();
    assert!(
        outcome.violations.is_empty(),
        "{} seed {seed} (make simulate SEED={seed} WORLD={}): {:?}",
        world.name(),
        world.name(),
        outcome.violations
    );
}

fn session(world: World) {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    (1..=seeds).for_each(|seed| check(world, seed));
}

#[test]
fn seeds_that_failed_pass() {
    FAILED.iter().for_each(|(world, seed)| check(*world, *seed));
}

#[test]
fn produce() {
    session(World::Produce);
}

#[test]
fn fetch() {
    session(World::Fetch);
}

#[test]
fn groups() {
    session(World::Groups);
}

#[test]
fn shares() {
    session(World::Shares);
}

#[test]
fn transactions() {
    session(World::Transactions);
}

#[test]
fn topics() {
    session(World::Topics);
}

#[test]
fn upgrade() {
    session(World::Upgrade);
}

#[test]
fn logins() {
    session(World::Logins);
}

#[test]
fn quotas() {
    session(World::Quotas);
}
