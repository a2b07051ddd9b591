//! Equal seeds give equal runs.
#![allow(clippy::unwrap_used, reason = "a test")]

use samsarrow_simulation::{Plan, World, run};

/// Seeds whose traces have differed, each with the cause.
const DIFFERED: [(World, u64); 1] = [
    // Offsets were looked up in the order of a hash map whose keys were times.
    (World::Logins, 81),
];

fn check(world: World, seed: u64) {
    let traced = |_| run(&Plan { world, seed, events: None, record: true, defect: None }).unwrap();
    let [first, second] = [0, 1].map(traced);
    let different = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
    let lines = different.map(|at| (at, first.trace[at - 2..at].to_vec(), &first.trace[at], &second.trace[at]));
    assert_eq!(first.trace_hash, second.trace_hash, "{} seed {seed}: {lines:?}", world.name());
}

#[test]
fn equal_seeds_give_equal_traces() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    for world in World::ALL {
        (1..=seeds).for_each(|seed| check(world, seed));
    }
}

#[test]
fn seeds_that_differed_give_equal_traces() {
    for (world, seed) in DIFFERED {
        (0..10).for_each(|_| check(world, seed));
    }
}
