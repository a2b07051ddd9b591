//! One run of a world with a seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_simnet::{Latency, Network};
use tokio::runtime::{Builder, RngSeed};
use tokio::time::{Instant, timeout};

use crate::context::{Context, record_panics, take_panics};
use crate::events::{self, Timed};
use crate::worlds::World;

/// Simulated time after which a run has failed.
const MAX_TIME: Duration = Duration::from_secs(2 * 60 * 60);
/// Latency while the network is not disturbed.
const USUAL: Latency = Latency { min: Duration::from_millis(0), max: Duration::from_millis(8) };

/// Time in which requests are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of requests of one API within that time.
const MAX_REQUESTS: u64 = 10_000;

/// World, seed and events of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// World.
    pub world: World,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Events, instead of those of the seed.
    pub events: Option<Vec<Timed>>,
    /// True to record the trace as text.
    pub record: bool,
    /// Name of a known defect of the client that is switched on.
    pub defect: Option<&'static str>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Violated guarantees; empty if the run has passed.
    pub violations: Vec<String>,
    /// Hash of all bytes and results with their times.
    pub trace_hash: u64,
    /// Recorded trace.
    pub trace: Vec<String>,
    /// Simulated time.
    pub simulated: Duration,
    /// Events that were applied.
    pub events: Vec<Timed>,
    /// States and results that were reached.
    pub reached: BTreeSet<String>,
}

/// Runs a world.
///
/// # Errors
/// Fails if no runtime can be created.
pub fn run(plan: &Plan) -> std::io::Result<Outcome> {
    record_panics();
    fastrand::seed(plan.seed);
    let mut builder = Builder::new_current_thread();
    // Without the I/O driver, code that opens a real socket fails.
    let runtime =
        builder.enable_time().start_paused(true).rng_seed(RngSeed::from_bytes(&plan.seed.to_le_bytes())).build()?;
    let mut outcome = runtime.block_on(run_world(plan));
    let tasks = runtime.metrics().num_alive_tasks();
    if outcome.violations.is_empty() && tasks > 0 {
        outcome.violations.push(format!("{tasks} tasks are left after all clients and brokers were closed"));
    }
    drop(runtime);
    outcome.violations.extend(take_panics().into_iter().map(|panic| format!("a task panicked: {panic}")));
    Ok(outcome)
}

/// Reports a violation if the clients send more requests than they have reasons for, without end.
async fn watch_requests(context: &Context) {
    let mut last = context.broker.requests();
    loop {
        tokio::time::sleep(WINDOW).await;
        let requests = context.broker.requests();
        for (api, count) in &requests {
            let sent = count - last.get(api).copied().unwrap_or_default();
            if sent > MAX_REQUESTS {
                context.violation(format!("{sent} {api:?} requests within {} s", WINDOW.as_secs()));
            }
        }
        last = requests;
    }
}

async fn run_world(plan: &Plan) -> Outcome {
    let started = Instant::now();
    let network = Network::new(plan.seed, USUAL, plan.record);
    let _entered = network.enter();
    if let Some(defect) = plan.defect {
        network.switch_on(defect);
    }
    let mut random = fastrand::Rng::with_seed(plan.seed ^ 0x005e_ed0f_ef7e_4475);
    let program = plan.world.program(&mut random);
    let mut parts = program.parts(&mut random);
    parts.releases = plan.world.releases(program, &mut random);
    plan.world.add_logins(&mut parts, &mut random);
    parts.quotas = plan.world == World::Quotas;
    parts.delivery_limit = World::delivery_limit(random.clone());
    let calm_after = Duration::from_secs(random.u64(20..120));
    let count = random.usize(..40);
    let drawn = events::draw(&mut random, &parts, count, calm_after);
    let events = plan.events.clone().unwrap_or(drawn);
    let mut violations = Vec::new();
    let mut reached = BTreeSet::new();
    match program.start_broker(&network, &parts, &mut random).await {
        Ok(broker) => {
            let context = Context::new(broker, network.clone(), started + calm_after, &parts);
            let disturbed = events::apply(&context, &parts, &events, USUAL);
            let world = Box::pin(program.run(context.clone(), random));
            let programs = async {
                tokio::select! {
                    _ = async { tokio::join!(disturbed, world) } => {}
                    () = watch_requests(&context) => {}
                }
            };
            if timeout(MAX_TIME, programs).await.is_err() {
                context.violation(format!("the run did not end within {} s", MAX_TIME.as_secs()));
            }
            violations = context.take_violations();
            reached = context.take_reached();
            if let Ok(broker) = Arc::try_unwrap(context.broker) {
                broker.shutdown().await;
            } else {
                violations.push("a program keeps the broker".to_owned());
            }
        }
        Err(error) => violations.push(format!("the broker cannot be started: {error}")),
    }
    reached.extend(network.take_reached());
    // Tasks of closed clients end within this time, or are reported as left.
    tokio::time::sleep(Duration::from_secs(120)).await;
    Outcome {
        violations,
        trace_hash: network.trace_hash(),
        trace: network.take_trace(),
        simulated: started.elapsed(),
        events,
        reached,
    }
}
