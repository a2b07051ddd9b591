//! Simulation session: `make simulate SEEDS=100000 JOBS=2 WORLD=groups`.
//!
//! ```text
//! samsarrow-simulation [--seeds N] [--first N] [--jobs N] [WORLD...]
//! samsarrow-simulation --seed N [--trace] WORLD
//! samsarrow-simulation --defects [--seeds N] [--first N]
//! samsarrow-simulation --hashes [--seeds N] [--first N] [WORLD...]
//! ```
//!
//! `--trace` prints the bytes on the network, the results of calls and the clients' log lines with their times.
//! `--defects` switches on known defects of the client, one at a time, and prints how many seeds find each.
//! `--hashes` prints the trace hash of each run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use samsarrow_client::log::{Levels, LogSubscriber, Logger};
use samsarrow_simulation::{DEFECTS, Outcome, Plan, World, run, shrink};
use tracing::Level;

const USAGE: &str = "usage: samsarrow-simulation [--seeds N] [--first N] [--jobs N] [WORLD...]\n       \
                     samsarrow-simulation --seed N [--trace] WORLD\n       \
                     samsarrow-simulation --defects [--seeds N] [--first N]\n       \
                     samsarrow-simulation --hashes [--seeds N] [--first N] [WORLD...]";

#[derive(Debug, Clone)]
struct Arguments {
    seeds: u64,
    first: u64,
    jobs: u64,
    /// Single seed to replay.
    seed: Option<u64>,
    trace: bool,
    defects: bool,
    hashes: bool,
    worlds: Vec<World>,
}

fn arguments() -> Result<Arguments, String> {
    let mut all = Arguments {
        seeds: 1000,
        first: 1,
        jobs: 1,
        seed: None,
        trace: false,
        defects: false,
        hashes: false,
        worlds: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(format!("{name} requires a number"))?;
            text.replace('_', "").parse::<u64>().map_err(|e| format!("{name} {text}: {e}"))
        };
        match name.as_str() {
            "--seeds" => all.seeds = number()?,
            "--first" => all.first = number()?,
            "--jobs" => all.jobs = number()?.max(1),
            "--seed" => all.seed = Some(number()?),
            "--trace" => all.trace = true,
            "--defects" => all.defects = true,
            "--hashes" => all.hashes = true,
            name => match World::ALL.into_iter().find(|world| world.name() == name) {
                Some(world) => all.worlds.push(world),
                None => return Err(format!("{name} is neither an option nor a world")),
            },
        }
    }
    if all.worlds.is_empty() {
        all.worlds.extend(World::ALL);
    }
    Ok(all)
}

/// Results of a session.
#[derive(Debug, Default)]
struct Totals {
    simulated: Duration,
    failed: BTreeMap<(World, u64), Vec<String>>,
    reached: BTreeMap<(World, String), u64>,
}

fn main() -> ExitCode {
    let all = match arguments() {
        Ok(all) => all,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if all.trace {
        static LEVELS: Levels = Levels::new();
        LEVELS.set(&[Some(Level::DEBUG); Logger::ALL.len()]);
        LogSubscriber::new(&LEVELS, |_, _, line| samsarrow_simnet::trace(&line.text)).start();
    }
    let passed = match all.seed {
        Some(seed) => all.worlds.iter().all(|world| replay(*world, seed, all.trace)),
        None if all.defects => find_defects(&all),
        None if all.hashes => print_hashes(&all),
        None => session(&all),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed, and shrinks its events if it fails. Returns true if it passes.
fn replay(world: World, seed: u64, trace: bool) -> bool {
    let plan = Plan { world, seed, events: None, record: trace, defect: None };
    let outcome = run(&plan);
    let (passed, shown) = match outcome {
        Ok(outcome) if outcome.violations.is_empty() => (true, Ok(outcome)),
        Ok(outcome) => (false, shrink(&plan, outcome)),
        Err(error) => (false, Err(error)),
    };
    match shown {
        Ok(outcome) => print(world, seed, &outcome),
        Err(error) => eprintln!("no runtime: {error}"),
    }
    passed
}

fn print(world: World, seed: u64, outcome: &Outcome) {
    let name = world.name();
    println!(
        "{name} seed {seed}: trace {:016x}, {:.1} s simulated",
        outcome.trace_hash,
        outcome.simulated.as_secs_f64()
    );
    outcome.trace.iter().for_each(|line| println!("  {line}"));
    outcome.events.iter().for_each(|event| println!("  event {event}"));
    outcome.violations.iter().for_each(|violation| println!("  VIOLATION {violation}"));
}

/// Runs seeds with each known defect until one fails. Returns true if all defects are found.
fn find_defects(all: &Arguments) -> bool {
    let mut found = 0;
    for (defect, world) in DEFECTS {
        let failing = (all.first..all.first + all.seeds).find_map(|seed| {
            let outcome = run(&Plan { world, seed, events: None, record: false, defect: Some(defect) }).ok()?;
            outcome.violations.into_iter().next().map(|violation| (seed, violation))
        });
        match failing {
            Some((seed, violation)) => {
                found += 1;
                println!("{defect}: found by seed {seed}, {} tried: {violation}", seed - all.first + 1);
            }
            None => println!("{defect}: NOT FOUND by {} seeds", all.seeds),
        }
    }
    println!("{found} of {} defects found", DEFECTS.len());
    found == DEFECTS.len()
}

/// Prints the trace hash of each run. Returns true if all runs can be started.
fn print_hashes(all: &Arguments) -> bool {
    let runs = (all.first..all.first + all.seeds).flat_map(|seed| all.worlds.iter().map(move |world| (seed, *world)));
    let mut passed = true;
    for (seed, world) in runs {
        match run(&Plan { world, seed, events: None, record: false, defect: None }) {
            Ok(outcome) => println!("{} {seed} {:016x}", world.name(), outcome.trace_hash),
            Err(error) => {
                eprintln!("no runtime: {error}");
                passed = false;
            }
        }
    }
    passed
}

/// Runs all seeds. Returns true if all pass.
fn session(all: &Arguments) -> bool {
    let started = Instant::now();
    let next = AtomicU64::new(all.first);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..all.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= all.first + all.seeds {
                        return;
                    }
                    for world in &all.worlds {
                        run_one(*world, seed, &totals);
                    }
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = started.elapsed().as_secs_f64();
    let runs = all.seeds * all.worlds.len() as u64;
    print_reached(&totals.reached);
    let hours = totals.simulated.as_secs_f64() / 3600.0;
    println!(
        "{runs} runs of {} seeds from {}, {} with violations, {:.1} runs a second, {hours:.1} hours simulated in {seconds:.1} s ({:.0} times real time)",
        all.seeds,
        all.first,
        totals.failed.len(),
        runs as f64 / seconds,
        totals.simulated.as_secs_f64() / seconds,
    );
    let shown: BTreeSet<_> = totals.failed.keys().take(10).collect();
    for (world, seed) in shown {
        println!("FAILED {} --seed {seed}: {}", world.name(), totals.failed[&(*world, *seed)].join("; "));
    }
    totals.failed.is_empty()
}

/// Prints the table of reached results: a row for each call, API, event and state, with its outcomes and the number of
/// runs that reached them.
fn print_reached(reached: &BTreeMap<(World, String), u64>) {
    let mut rows: BTreeMap<(World, &str), Vec<(u64, &str)>> = BTreeMap::new();
    for ((world, name), count) in reached {
        let (row, outcome) = match name.split_once(" --> ") {
            Some((state, _)) => (state, name[state.len()..].trim_start()),
            None if name.starts_with("error: ") => name.rsplit_once(' ').unwrap_or((name, "")),
            None if name.starts_with("event ") => {
                let words = name.match_indices(' ').nth(1).map_or(name.len(), |(at, _)| at);
                (&name[..words], name[words..].trim_start())
            }
            None => name.split_once(": ").unwrap_or((name, "")),
        };
        rows.entry((*world, row)).or_default().push((*count, outcome));
    }
    for ((world, row), mut outcomes) in rows {
        outcomes.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let outcomes: Vec<_> = outcomes.iter().map(|(count, outcome)| format!("{outcome} {count}")).collect();
        println!("{:<13}{row:<32}{}", world.name(), outcomes.join(", ").trim_start());
    }
}

fn run_one(world: World, seed: u64, totals: &Mutex<Totals>) {
    let outcome = run(&Plan { world, seed, events: None, record: false, defect: None });
    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Ok(outcome) => {
            totals.simulated += outcome.simulated;
            if !outcome.violations.is_empty() {
                println!("{} seed {seed}: {}", world.name(), outcome.violations.join("; "));
                totals.failed.insert((world, seed), outcome.violations);
            }
            for what in outcome.reached {
                *totals.reached.entry((world, what)).or_default() += 1;
            }
        }
        Err(error) => {
            totals.failed.insert((world, seed), vec![format!("no runtime: {error}")]);
        }
    }
}
