//! Encoding of Arrow columns to wire bytes: 64 KiB batches including their length and CRC. All results are verified.
#![allow(clippy::expect_used, missing_docs)]
mod data;

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use criterion::{BenchmarkId, Criterion, Throughput};
use samsarrow_arrow::{DecodeOptions, RowReader, decode_batches};
use samsarrow_wire::batch::{BatchBuilder, BatchOptions};
use samsarrow_wire::compression::{Codec, Compressor};

fn encode_benches(criterion: &mut Criterion) {
    for kind in data::KINDS {
        let table = kind.table();
        let mut group = criterion.benchmark_group(format!("encode/{}", kind.name));
        group.throughput(Throughput::Elements(table.num_rows() as u64));
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Snappy, Codec::Gzip] {
            check(&data::wire(&table, codec), &table, 0..table.num_rows());
            let id = BenchmarkId::from_parameter(format!("{codec:?}").to_lowercase());
            group.bench_function(id, |b| b.iter(|| black_box(data::wire(&table, codec)).len()));
        }
        let views = views(&table);
        check(&data::wire(&views, Codec::None), &table, 0..table.num_rows());
        group.bench_function("none, view", |b| b.iter(|| black_box(data::wire(&views, Codec::None)).len()));
        // Every other row, as if the rows were divided between two partitions.
        let rows = RowReader::new(&table, &data::columns()).expect("valid columns");
        let picked: Vec<u32> = (0..table.num_rows() as u32).step_by(2).collect();
        check(&pick(&rows, &picked), &table, picked.iter().map(|row| *row as usize));
        group.throughput(Throughput::Elements(picked.len() as u64));
        group.bench_function("none, picked", |b| b.iter(|| black_box(pick(&rows, &picked)).len()));
        group.finish();
    }
}

/// Checks that the decoded keys and values equal those of the given rows.
fn check(batches: &[u8], table: &RecordBatch, rows: impl Iterator<Item = usize> + Clone) {
    let decoded = decode_batches(batches.to_vec().into(), DecodeOptions::default()).expect("valid batches");
    for name in ["key", "value"] {
        let wanted = table[name].as_binary::<i32>();
        let wanted = rows.clone().map(|row| wanted.is_valid(row).then(|| wanted.value(row)));
        assert!(decoded[name].as_binary::<i32>().iter().eq(wanted));
    }
}

fn views(table: &RecordBatch) -> RecordBatch {
    let column = |name: &'static str| -> (&str, ArrayRef) {
        (name, Arc::new(table[name].as_binary::<i32>().iter().collect::<BinaryViewArray>()))
    };
    let columns = [column("key"), column("value"), ("timestamp", table["timestamp"].clone())];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn pick(rows: &RowReader, picked: &[u32]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { max_bytes: 64 * 1024, ..BatchOptions::default() });
    let mut compressor = Compressor::new(Codec::None, None).expect("no codec");
    let mut taken = rows.append_picked(&mut builder, picked, -1).expect("valid rows");
    while taken < picked.len() {
        builder.close(&mut compressor).expect("a valid batch");
        taken += rows.append_picked(&mut builder, &picked[taken..], -1).expect("valid rows");
    }
    builder.finish(&mut compressor).expect("a valid batch")
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    encode_benches(&mut criterion);
    criterion.final_summary();
}
