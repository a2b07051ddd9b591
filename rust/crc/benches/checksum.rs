//! Throughput of checksums of cached data, compared with the crates crc-fast and crc32c. The benchmark first checks
//! that all results are equal.
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

type Checksum = fn(&[u8]) -> u32;

fn bench(criterion: &mut Criterion, name: &str, peers: &[(&str, Checksum)]) {
    let mut group = criterion.benchmark_group(name);
    for len in [61usize, 200, 1_000, 16_000, 1_000_000] {
        let data: Vec<u8> = (0..len).map(|i| ((i * i) >> 3) as u8).collect();
        group.throughput(Throughput::Bytes(len as u64));
        for (peer, checksum) in peers {
            assert_eq!(checksum(&data), peers[0].1(&data), "{peer}, {len} bytes");
            group.bench_with_input(BenchmarkId::new(*peer, len), &data, |b, data| b.iter(|| checksum(black_box(data))));
        }
    }
}

fn checksums(criterion: &mut Criterion) {
    bench(
        criterion,
        "crc32c",
        &[("samsarrow", samsarrow_crc::crc32c), ("crc-fast", crc_fast::crc32_iscsi), ("crc32c", crc32c::crc32c)],
    );
    bench(criterion, "crc32", &[("samsarrow", samsarrow_crc::crc32), ("crc-fast", crc_fast::crc32_iso_hdlc)]);
}

criterion_group!(benches, checksums);
criterion_main!(benches);
