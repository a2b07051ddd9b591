//! Equal seeds give equal runs.

use samsarrow_simulation::{Plan, World, run};

#[test]
fn equal_seeds_give_equal_traces() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    for world in World::ALL {
        for seed in 1..=seeds {
            let traced = |_| run(&Plan { world, seed, events: None, record: true, defect: None }).unwrap();
            let [first, second] = [0, 1].map(traced);
            let different = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
            let lines = different.map(|at| (at, first.trace[at - 2..at].to_vec(), &first.trace[at], &second.trace[at]));
            assert_eq!(first.trace_hash, second.trace_hash, "{} seed {seed}: {lines:?}", world.name());
        }
    }
}
