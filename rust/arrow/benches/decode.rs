//! Decoding of wire bytes to Arrow: CRC, decompression, parsing, columns, RecordBatch. All results are verified.
#![allow(clippy::expect_used, missing_docs)]
mod data;

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use samsarrow_arrow::{DecodeOptions, Decoder, Layout, Window};
use samsarrow_wire::compression::Codec;

fn decode(decoder: &mut Decoder, topic: &Arc<str>, wire: &Bytes) -> RecordBatch {
    decoder.append(topic, 0, wire.clone(), Window::from(0)).expect("valid batches");
    decoder.finish().expect("valid columns")
}

fn check(decoded: &RecordBatch, table: &RecordBatch) {
    assert_eq!(decoded.num_rows(), table.num_rows());
    let times =
        |batch: &RecordBatch| batch.column_by_name("timestamp").expect("timestamps").to_data().buffers()[0].clone();
    assert_eq!(times(decoded), times(table));
    for name in ["key", "value"] {
        let want = table.column_by_name(name).expect("input").as_binary::<i32>();
        let got = decoded.column_by_name(name).expect("output");
        match got.as_binary_opt::<i32>() {
            Some(got) => assert_eq!(got, want),
            None => assert!(got.as_binary_view().iter().eq(want.iter())),
        }
    }
}

fn decode_benches(criterion: &mut Criterion) {
    let topic: Arc<str> = Arc::from("bench");
    for kind in data::KINDS {
        let table = kind.table();
        let mut group = criterion.benchmark_group(format!("decode/{}", kind.name));
        group.throughput(Throughput::Elements(table.num_rows() as u64));
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Snappy, Codec::Gzip] {
            let wire = Bytes::from(data::wire(&table, codec));
            for layout in [Layout::View, Layout::Binary] {
                let mut decoder = Decoder::new(DecodeOptions { layout, ..DecodeOptions::default() });
                check(&decode(&mut decoder, &topic, &wire), &table);
                let id = BenchmarkId::new(format!("{codec:?}").to_lowercase(), format!("{layout:?}").to_lowercase());
                group.bench_function(id, |b| b.iter(|| black_box(decode(&mut decoder, &topic, &wire)).num_rows()));
            }
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decode_benches(&mut criterion);
    criterion.final_summary();
}
