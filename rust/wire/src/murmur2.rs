//! Hash function of Kafka's default partitioner.

const M: u32 = 0x5bd1_e995;
const R: u32 = 24;
/// Seed that Kafka's Java client uses.
const SEED: u32 = 0x9747_b28c;

/// Computes the 32-bit murmur2 hash of `data`, as the Java client does.
#[inline]
pub fn murmur2(data: &[u8]) -> i32 {
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^= hash >> 15;
    hash as i32
}

/// Returns the partition for a key, out of `count` partitions, as the Java client's partitioner does.
#[inline]
pub fn partition(key: &[u8], count: i32) -> i32 {
    (murmur2(key) & i32::MAX) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_java() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
        }
    }

    #[test]
    fn partitions_are_in_range() {
        assert_eq!(partition(b"foobar", 1000), (-790_332_482 & i32::MAX) % 1000);
        assert!((0..7).contains(&partition(b"", 7)));
        assert_eq!(partition(b"x", 0), 0);
    }
}
