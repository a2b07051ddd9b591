//! Runs targets on generated and existing inputs, and reports failures.
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::memory::peak;
use crate::seeds::Seeds;
use crate::targets::{Input, TARGETS, Target, corpus_folder};

/// Maximum time per input. An input usually takes microseconds, so even a busy machine does not come near this limit.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// An input for which the target violated an invariant.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Name of the target.
    pub target: &'static str,
    /// Description of the failure: the message of the panic, or the exceeded limit.
    pub what: String,
    pub input: Vec<u8>,
}

thread_local! {
    static IN_TARGET: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the messages of panics in targets, because they are reported as failures. Other panics are still printed.
pub fn quiet_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !IN_TARGET.get() {
            usual(info);
        }
    }));
}

/// Runs a target on one input, and checks the target's memory use.
pub fn run_one(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let fail = |what| Err(Failure { target: target.name, what, input: input.to_vec() });
    IN_TARGET.set(true);
    let (result, used) = peak(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    IN_TARGET.set(false);
    if let Err(panic) = result {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        return fail(format!("panicked: {}", words.unwrap_or("?")));
    }
    let cap = target.cap(input.len());
    if used > cap {
        return fail(format!("allocated {used} bytes, {cap} are allowed for {} bytes of input", input.len()));
    }
    Ok(())
}

/// Returns the committed inputs and, if they exist, the conformance cases (see CONTRIBUTING.md).
pub fn existing_inputs() -> Vec<(&'static Target, PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for target in TARGETS {
        let Ok(files) = std::fs::read_dir(corpus_folder().join(target.name)) else { continue };
        let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
        paths.sort();
        all.extend(paths.into_iter().filter_map(|path| std::fs::read(&path).ok().map(|input| (target, path, input))));
    }
    all.extend(conformance());
    all
}

fn conformance() -> Vec<(&'static Target, PathBuf, Vec<u8>)> {
    let root = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let path = std::env::var_os("SAMSARROW_CONFORMANCE").map_or_else(root, PathBuf::from).join("records.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let cases = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut all = Vec::new();
    for case in cases {
        let Some(hex) = case.get("hex").and_then(serde_json::Value::as_str).filter(|hex| hex.len() < 20_000) else {
            continue;
        };
        let bytes = (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok());
        // The only flag that is set verifies the checksums.
        let input: Vec<u8> = std::iter::once(1).chain(bytes).collect();
        let magic = case.get("magic").and_then(serde_json::Value::as_u64);
        for target in TARGETS {
            if let Input::Batches(of) = target.input
                && of.is_none_or(|of| Some(u64::from(of)) == magic)
            {
                all.push((target, path.clone(), input.clone()));
            }
        }
    }
    all
}

/// Returns the seed of the input `index` for a target.
fn seed_of(session: u64, target: usize, index: u64) -> u64 {
    session.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (target as u64) << 56 ^ index
}

/// Parameters of a session.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The targets to run; empty for all.
    pub targets: Vec<&'static Target>,
    /// Seed from which the seeds of all inputs are derived.
    pub seed: u64,
    /// Index of the first input.
    pub start: u64,
    /// Increment of the index. The inputs in between are run by other processes.
    pub stride: u64,
    /// Upper bound of the index, which is the number of inputs per target for all processes.
    pub runs: u64,
    /// Time at which the session stops, even if it has not finished.
    pub deadline: Option<Instant>,
}

/// Runs a plan on this thread. `progress` is called periodically with the number of inputs so far. Stops after ten
/// failures. If an input takes too long, `hang` is called and the process exits.
pub fn run(
    plan: &Plan,
    mut progress: impl FnMut(u64),
    hang: impl Fn(&Failure) + Send + 'static,
) -> (u64, Vec<Failure>) {
    let targets = if plan.targets.is_empty() { TARGETS.iter().collect() } else { plan.targets.clone() };
    let mut seeds = Seeds::default();
    for (target, _, input) in existing_inputs() {
        seeds.add(target.name, input);
    }
    let watch = Watch::start(plan.clone(), targets.clone(), hang);
    let (mut done, mut failures) = (0, Vec::new());
    let mut index = plan.start;
    while index < plan.runs {
        for (number, target) in targets.iter().enumerate() {
            let input = seeds.input(target.name, target.input, seed_of(plan.seed, number, index));
            watch.begin(number, index);
            let result = run_one(target, &input);
            watch.end();
            done += 1;
            if let Err(failure) = result {
                failures.push(failure);
                if failures.len() >= 10 {
                    return (done, failures);
                }
            }
        }
        index += plan.stride.max(1);
        if done % 1024 < targets.len() as u64 {
            progress(done);
            if plan.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
        }
    }
    (done, failures)
}

/// A thread that detects inputs that take too long to run.
struct Watch {
    /// Index of the current input, with the number of the target in the top byte. Between inputs, all bits are set.
    running: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

const IDLE: u64 = u64::MAX;

impl Watch {
    fn start(plan: Plan, targets: Vec<&'static Target>, hang: impl Fn(&Failure) + Send + 'static) -> Watch {
        let (running, stop) = (Arc::new(AtomicU64::new(IDLE)), Arc::new(AtomicBool::new(false)));
        let (seen, stopped) = (Arc::clone(&running), Arc::clone(&stop));
        std::thread::spawn(move || {
            let (mut last, mut since) = (IDLE, Instant::now());
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let now = seen.load(Ordering::Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if now != IDLE && since.elapsed() > TIME_LIMIT {
                    let (number, index) = ((now >> 56) as usize, now & (u64::MAX >> 8));
                    if let Some(target) = targets.get(number) {
                        let mut seeds = Seeds::default();
                        for (target, _, input) in existing_inputs() {
                            seeds.add(target.name, input);
                        }
                        let input = seeds.input(target.name, target.input, seed_of(plan.seed, number, index));
                        let what = format!("did not end within {} s", TIME_LIMIT.as_secs());
                        hang(&Failure { target: target.name, what, input });
                    }
                    std::process::exit(3);
                }
            }
        });
        Watch { running, stop }
    }

    fn begin(&self, target: usize, index: u64) {
        self.running.store((target as u64) << 56 | index & (u64::MAX >> 8), Ordering::Relaxed);
    }

    fn end(&self) {
        self.running.store(IDLE, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Writes a failing input to a file in `folder`, and returns the path of the file.
pub fn keep(failure: &Failure, folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let name = format!("{}-{:08x}", failure.target, samsarrow_wire::crc::crc32(&failure.input));
    let path = folder.join(name);
    std::fs::write(&path, &failure.input)?;
    Ok(path)
}
