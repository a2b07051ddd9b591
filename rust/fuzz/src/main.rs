//! Fuzzing session: `make fuzz RUNS=50000000`.
//!
//! ```text
//! samsarrow-fuzz [--runs N] [--jobs N] [--seed N] [--seconds N] [TARGET...]
//! samsarrow-fuzz --replay TARGET FILE...
//! samsarrow-fuzz --seeds FOLDER [--runs N] [TARGET...]
//! ```
//!
//! Inputs are derived from the seed, so a session is reproducible. They are divided between processes; failing inputs
//! are written to `target/fuzz-failures`, and should be added to `rust/fuzz/corpus` together with the fix.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use samsarrow_fuzz::memory::Counting;
use samsarrow_fuzz::session::{self, Plan};
use samsarrow_fuzz::{Seeds, TARGETS, Target, target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const USAGE: &str = "usage: samsarrow-fuzz [--runs N] [--jobs N] [--seed N] [--seconds N] [TARGET...]\n       \
                     samsarrow-fuzz --replay TARGET FILE...\n       \
                     samsarrow-fuzz --seeds FOLDER [--runs N] [TARGET...]";

#[derive(Debug, Clone)]
struct Arguments {
    /// Number of inputs per session, for all targets together.
    runs: u64,
    jobs: u64,
    seed: u64,
    seconds: Option<u64>,
    /// Index of the job that this process runs; `None` in the parent process.
    job: Option<u64>,
    replay: bool,
    /// Folder to write the inputs to, instead of running them.
    seeds: Option<PathBuf>,
    rest: Vec<String>,
}

fn arguments() -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut all = Arguments {
        runs: 1_000_000,
        jobs: cores,
        seed: 1,
        seconds: None,
        job: None,
        replay: false,
        seeds: None,
        rest: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(format!("{name} requires a number"))?;
            text.replace('_', "").parse::<u64>().map_err(|e| format!("{name} {text}: {e}"))
        };
        match name.as_str() {
            "--runs" => all.runs = number()?,
            "--jobs" => all.jobs = number()?.max(1),
            "--seed" => all.seed = number()?,
            "--seconds" => all.seconds = Some(number()?),
            "--job" => all.job = Some(number()?),
            "--replay" => all.replay = true,
            "--seeds" => all.seeds = Some(args.next().ok_or("--seeds requires a folder")?.into()),
            _ if name.starts_with('-') => return Err(format!("{name} is unknown\n{USAGE}")),
            _ => all.rest.push(name),
        }
    }
    Ok(all)
}

fn find(name: &str) -> Result<&'static Target, String> {
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    target(name).ok_or_else(|| format!("there is no target {name}; there are {}", names()))
}

fn main() -> ExitCode {
    let result = arguments().and_then(|arguments| match (&arguments.seeds, arguments.job) {
        _ if arguments.replay => replay(&arguments),
        (Some(folder), _) => write_seeds(&arguments, folder),
        (None, Some(job)) => worker(&arguments, job),
        (None, None) => jobs(&arguments),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn replay(arguments: &Arguments) -> Result<bool, String> {
    let (name, files) = arguments.rest.split_first().ok_or(USAGE)?;
    let target = find(name)?;
    let mut good = true;
    for file in files {
        let input = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
        match session::run_one(target, &input) {
            Ok(()) => println!("{file}: ok"),
            Err(failure) => {
                println!("{file}: {}", failure.what);
                good = false;
            }
        }
    }
    Ok(good)
}

/// Writes inputs to files, as seeds for `cargo fuzz`: `runs` inputs for each target.
fn write_seeds(arguments: &Arguments, folder: &Path) -> Result<bool, String> {
    let mut seeds = Seeds::default();
    for target in targets(arguments)? {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for number in 0..arguments.runs.min(10_000) {
            let input = seeds.input(target.name, target.input, arguments.seed.wrapping_add(number));
            let file = folder.join(format!("made-{}-{number}", arguments.seed));
            std::fs::write(&file, input).map_err(|e| format!("{}: {e}", file.display()))?;
        }
    }
    Ok(true)
}

/// Returns the targets named on the command line, or all targets if none is named.
fn targets(arguments: &Arguments) -> Result<Vec<&'static Target>, String> {
    if arguments.rest.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    arguments.rest.iter().map(|name| find(name)).collect()
}

/// Starts the processes of all jobs, and waits for them.
fn jobs(arguments: &Arguments) -> Result<bool, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let args: Vec<_> = std::env::args().skip(1).collect();
    let started = Instant::now();
    let start = |job: u64| -> Result<Child, String> {
        let jobs = arguments.jobs.to_string();
        let mut command = Command::new(&this);
        command.args(&args).args(["--jobs", &jobs, "--job", &job.to_string()]);
        command.spawn().map_err(|e| e.to_string())
    };
    let children = (0..arguments.jobs).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut good = true;
    for mut child in children {
        good &= child.wait().map_err(|e| e.to_string())?.success();
    }
    let verdict = if good { "no promise was broken" } else { "FAILED, see above" };
    println!("fuzz: {verdict}; {} jobs, {:.0} s", arguments.jobs, started.elapsed().as_secs_f64());
    Ok(good)
}

fn worker(arguments: &Arguments, job: u64) -> Result<bool, String> {
    let targets = targets(arguments)?;
    let count = targets.len() as u64;
    let started = Instant::now();
    let plan = Plan {
        targets,
        seed: arguments.seed,
        start: job,
        stride: arguments.jobs,
        runs: arguments.runs.div_ceil(count),
        deadline: arguments.seconds.map(|seconds| started + Duration::from_secs(seconds)),
    };
    session::quiet_panics();
    let mut reported_at = Instant::now();
    let progress = |done: u64| {
        if reported_at.elapsed() > Duration::from_secs(60) {
            reported_at = Instant::now();
            let rate = done as f64 / started.elapsed().as_secs_f64();
            println!("fuzz: job {job}: {done} inputs, {rate:.0} a second");
        }
    };
    let (done, failures) = session::run(&plan, progress, tell);
    failures.iter().for_each(tell);
    let memory = peak_memory().map_or(String::new(), |memory| format!(", peak memory {memory}"));
    println!(
        "fuzz: job {job}: {done} inputs of {count} targets from seed {}, {} failures{memory}",
        plan.seed,
        failures.len()
    );
    Ok(failures.is_empty())
}

fn tell(failure: &session::Failure) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz-failures");
    let kept =
        session::keep(failure, &folder).map_or_else(|e| e.to_string(), |path: PathBuf| path.display().to_string());
    println!("fuzz: {}: {} ({} bytes, {kept})", failure.target, failure.what, failure.input.len());
}

/// Returns the peak memory use of the process, including that of C code.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(|value| value.trim().to_owned())
}
