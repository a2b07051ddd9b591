//! Throughput of fetching a topic from the embedded broker over loopback, into one reused buffer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench fails by panicking")]
#![allow(missing_debug_implementations, reason = "the tests' client is shared")]

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, reason = "a part of the tests' client")]
mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use common::{Client, NO_PRODUCER, address, batch_of, broker, fetch_request};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samsarrow_wire::frame;
use samsarrow_wire::messages::FetchRequest;

const BATCHES: i64 = 128;

/// Fetches the whole partition and returns the number of record bytes received.
fn drain(stream: &mut TcpStream, frame: &mut Vec<u8>, batch: usize, partition_max_bytes: i32) -> usize {
    let (mut offset, mut total) = (0, 0);
    while offset < BATCHES {
        let mut request = fetch_request("t", &[(0, offset)]);
        request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
        stream.write_all(&frame::encode_request(&request, 12, 1, None).unwrap()).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let length = u32::from_be_bytes(length).try_into().unwrap();
        if frame.len() < length {
            frame.resize(length, 0);
        }
        stream.read_exact(&mut frame[..length]).unwrap();
        // Every batch has one record, and the other response fields are far smaller than a batch, so the division
        // yields the number of records.
        let batches = length / batch;
        assert!(batches > 0, "an answer without records");
        offset += i64::try_from(batches).unwrap();
        total += batches * batch;
    }
    total
}

fn fetch(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let batch: Bytes = batch_of(&[0], 1_000_000, NO_PRODUCER);
    let broker = runtime.block_on(async {
        let broker = broker(1, &[("t", 1)]).await;
        let mut client = Client::connect(&broker, 0).await;
        for _ in 0..BATCHES {
            assert_eq!(client.produce("t", 0, &batch).await.error_code, 0);
        }
        broker
    });
    let mut stream = TcpStream::connect(address(&broker, 0)).unwrap();
    let mut frame = Vec::new();
    let whole = batch.len() * usize::try_from(BATCHES).unwrap();
    // Decodes and checks one response before the measurement starts.
    let request = fetch_request("t", &[(0, 5)]);
    stream.write_all(&frame::encode_request(&request, 12, 1, None).unwrap()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    frame.resize(u32::from_be_bytes(length).try_into().unwrap(), 0);
    stream.read_exact(&mut frame).unwrap();
    let (_, response) = frame::decode_response::<FetchRequest>(12, frame.clone().into()).unwrap();
    let records = response.responses[0].partitions[0].records.clone().unwrap();
    assert_eq!(common::headers(&records), [(5, 0, 5)]);

    let mut group = criterion.benchmark_group("fetch");
    group.throughput(Throughput::Bytes(whole.try_into().unwrap())).sample_size(20);
    for (name, partition_max_bytes) in [("1 MiB", 1 << 20), ("50 MiB", 50 << 20)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert_eq!(drain(&mut stream, &mut frame, batch.len(), partition_max_bytes), whole));
        });
    }
    group.finish();
    runtime.block_on(broker.shutdown());
}

criterion_group!(benches, fetch);
criterion_main!(benches);
