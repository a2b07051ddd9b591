//! Fetches a whole topic over one connection of the client and decodes nothing but offsets. `make bench-tls` compares
//! the consumer with this minimum of work.
//!
//!     fetch_loop BOOTSTRAP TOPIC COUNT [OPTION=VALUE ...]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::net::{CallerDeadline, Connection, RequestTimeout, Setup};
use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic};

type Failure = Box<dyn std::error::Error>;

/// Maximum size of a Fetch response, and size of the steps in which the response is read, in bytes.
const FETCH: i32 = 16 << 20;
const CHUNK: usize = 512 << 10;
const TIME: Duration = Duration::from_secs(60);

#[allow(clippy::print_stdout, reason = "what it measured is its output")]
fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("fetch_loop BOOTSTRAP TOPIC COUNT [OPTION=VALUE ...]");
    let (bootstrap, topic, count) = (next()?, next()?, next()?.parse::<i64>()?);
    let mut pairs = vec![("bootstrap.servers".to_owned(), OptionValue::Str(bootstrap.clone()))];
    for option in arguments {
        let (name, value) = option.split_once('=').ok_or("an option is NAME=VALUE")?;
        pairs.push((name.to_owned(), OptionValue::Str(value.to_owned())));
    }
    let options = Options::parse(ClientKind::Consumer, pairs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (before, started) = (cpu()?, Instant::now());
    let rows = runtime.block_on(run(&bootstrap, &topic, count, &options))?;
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu()? - before);
    println!(r#"{{"rows": {rows}, "seconds": {seconds}, "cpu": {cpu}, "rss_mib": {}}}"#, peak_rss()?);
    Ok(())
}

async fn run(bootstrap: &str, topic: &str, count: i64, options: &Options) -> Result<i64, Failure> {
    let connection = Arc::new(Connection::open(bootstrap, &Arc::new(Setup::new(options.common.clone())?)).await?);
    let (mut buffer, mut answer, mut offset) = (BytesMut::with_capacity(CHUNK), Vec::new(), 0);
    while offset < count {
        let partition = FetchPartition { fetch_offset: offset, partition_max_bytes: FETCH, ..Default::default() };
        let topics = vec![FetchTopic { topic: topic.to_owned(), partitions: vec![partition], ..Default::default() }];
        let request = FetchRequest { max_wait_ms: 500, min_bytes: 1, max_bytes: FETCH, topics, ..Default::default() };
        let request = FetchRequest { replica_id: -1, ..request };
        let mut body = connection.request_body(&request, 4, RequestTimeout(TIME), CallerDeadline::from(TIME))?.await?;
        answer.clear();
        while body.left() > 0 {
            buffer.clear();
            body.read(&mut buffer, CHUNK).await?;
            answer.extend_from_slice(&buffer);
        }
        offset = end_of_records(&answer, topic.len()).ok_or("an answer without whole batches")?;
    }
    Ok(offset)
}

/// Returns the offset after the last complete batch, which is found by the lengths of the batches.
fn end_of_records(answer: &[u8], name: usize) -> Option<i64> {
    // Skips throttle time, topic count, name, partition count, partition, error, two watermarks, aborted transactions
    // and length.
    let mut at = 4 + 4 + 2 + name + 4 + 4 + 2 + 16 + 4 + 4;
    let mut following = None;
    while let Some(head) = answer.get(at..at + 61) {
        let number = |from: usize| head.get(from..from + 4)?.try_into().ok().map(i32::from_be_bytes);
        let offset = i64::from_be_bytes(head.first_chunk::<8>().copied()?);
        let length = usize::try_from(number(8)?).ok()?;
        if at + 12 + length > answer.len() {
            break;
        }
        following = Some(offset + i64::from(number(23)?) + 1);
        at += 12 + length;
    }
    following
}

/// Returns the user and system CPU time of this process in seconds (`man 5 proc`). Linux counts 100 ticks per second.
fn cpu() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no /proc/self/stat")?;
    let ticks: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

fn peak_rss() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().next().ok_or("no VmHWM")?.parse::<f64>()? / 1024.0)
}
