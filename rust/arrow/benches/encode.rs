//! Arrow columns into wire bytes: batches of 64 KiB with length and CRC. The result of each is checked.
#![allow(clippy::expect_used, missing_docs)]
mod data;

use std::hint::black_box;

use arrow_array::cast::AsArray;
use criterion::{BenchmarkId, Criterion, Throughput};
use samsarrow_arrow::{DecodeOptions, decode_batches};
use samsarrow_wire::compression::Codec;

fn encode_benches(criterion: &mut Criterion) {
    for kind in data::KINDS {
        let table = kind.table();
        let mut group = criterion.benchmark_group(format!("encode/{}", kind.name));
        group.throughput(Throughput::Elements(table.num_rows() as u64));
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Snappy, Codec::Gzip] {
            let decoded =
                decode_batches(data::wire(&table, codec).into(), DecodeOptions::default()).expect("valid batches");
            for name in ["key", "value"] {
                assert_eq!(decoded[name].as_binary::<i32>(), table[name].as_binary::<i32>());
            }
            let id = BenchmarkId::from_parameter(format!("{codec:?}").to_lowercase());
            group.bench_function(id, |b| b.iter(|| black_box(data::wire(&table, codec)).len()));
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    encode_benches(&mut criterion);
    criterion.final_summary();
}
