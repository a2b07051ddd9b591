//! Throughput of codecs on 64 KiB of JSON, in uncompressed bytes per second. Before each measurement, the benchmark
//! verifies that the codec restores the input.
#![allow(clippy::unwrap_used, missing_docs)]
use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samsarrow_wire::compression::{Codec, Compressor, Decompressor};

/// Returns JSON events of about 240 bytes, with random ids and words from small vocabularies.
fn json(len: usize) -> Vec<u8> {
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let kinds = ["click", "view", "purchase", "scroll", "login"];
    let places = ["Amsterdam", "Berlin", "Cape Town", "Delhi", "Edinburgh", "Fukuoka"];
    let mut text = String::new();
    while text.len() < len {
        let (kind, place) = (kinds[next() as usize % 5], places[next() as usize % 6]);
        let (id, session, user) = (next(), next() << 20 | next(), next() % 100_000);
        writeln!(
            text,
            "{{\"event_id\":\"{id:08x}-{session:016x}\",\"user_id\":{user},\"type\":\"{kind}\",\"city\":\"{place}\",\
             \"timestamp\":\"2026-03-{:02}T{:02}:{:02}:00Z\",\"amount\":{}.{:02},\"currency\":\"EUR\",\
             \"device\":{{\"os\":\"linux\",\"version\":\"6.{}\"}},\"ok\":true}}",
            next() % 28 + 1,
            next() % 24,
            next() % 60,
            next() % 500,
            next() % 100,
            next() % 12,
        )
        .unwrap();
    }
    text.truncate(len);
    text.into_bytes()
}

fn codecs(c: &mut Criterion) {
    let plain = json(64 * 1024);
    for codec in Codec::ALL.into_iter().filter(|codec| *codec != Codec::None) {
        let mut group = c.benchmark_group(codec.name());
        group.throughput(Throughput::Bytes(plain.len() as u64));
        let mut compressor = Compressor::new(codec, None).unwrap();
        let mut decompressor = Decompressor::new();
        let (mut compressed, mut out) = (Vec::new(), Vec::new());
        compressor.compress(&plain, &mut compressed).unwrap();
        decompressor.decompress(codec, &compressed, &mut out, plain.len()).unwrap();
        assert!(out == plain, "{} does not give back what it was given", codec.name());
        group.bench_function("decompress", |b| {
            b.iter(|| {
                out.clear();
                decompressor.decompress(codec, black_box(&compressed), &mut out, 1 << 26).unwrap();
                out.len()
            });
        });
        group.bench_function("compress", |b| {
            b.iter(|| {
                compressed.clear();
                compressor.compress(black_box(&plain), &mut compressed).unwrap();
                compressed.len()
            });
        });
        group.finish();
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
