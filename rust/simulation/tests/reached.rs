//! The transitions that docs/design.md draws are those that runs reach.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use samsarrow_simulation::{Plan, World, run};

/// Seeds within which a world reaches all transitions.
const SEEDS: u64 = 1000;

/// Returns the transitions of the state diagram below a heading. The state `any` stands for all states of the diagram.
fn drawn(heading: &str) -> BTreeSet<(String, String)> {
    let design = include_str!("../../../docs/design.md");
    let section = design.split(heading).nth(1).unwrap();
    let diagram = section.split("stateDiagram-v2").nth(1).unwrap().split("```").next().unwrap();
    diagram
        .lines()
        .filter_map(|line| line.trim().split_once(" --> "))
        .filter(|(from, _)| *from != "[*]")
        .map(|(from, to)| (from.to_owned(), to.to_owned()))
        .collect()
}

fn check(world: World, machine: &str, heading: &str) {
    let drawn = drawn(heading);
    let mut missing = drawn.clone();
    for seed in 1..=SEEDS {
        let outcome = run(&Plan { world, seed, events: None, record: false, defect: None }).unwrap();
        for name in outcome.reached {
            let Some((from, to)) = name.strip_prefix(machine).and_then(|name| name.split_once(" --> ")) else {
                continue;
            };
            let found = [(from, to), ("any", to)].map(|(from, to)| (from.to_owned(), to.to_owned()));
            assert!(
                from == to || found.iter().any(|transition| drawn.contains(transition)),
                "{} seed {seed}: docs/design.md does not draw {name}",
                world.name()
            );
            for transition in &found {
                missing.remove(transition);
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    assert!(missing.is_empty(), "{SEEDS} seeds of {} do not reach {missing:?}", world.name());
}

#[test]
fn transactions() {
    check(World::Transactions, "transaction: ", "\n## Transactions\n");
}

#[test]
fn membership() {
    check(World::Groups, "membership: ", "\n## Membership in a group\n");
}
