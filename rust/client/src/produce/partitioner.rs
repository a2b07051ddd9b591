//! Which partition a record goes to when the user does not say: Java's rules.
//!
//! A key decides by murmur2 (an empty key is a key, a null key is not); records without a key stick to one partition
//! until it has had a batch's worth of bytes, then move on to another one at random, so that batches fill up.

use samsarrow_wire::murmur2;

/// The partition of a key.
pub(crate) fn by_key(key: &[u8], partitions: i32) -> i32 {
    murmur2::partition(key, partitions)
}

/// The partition that records without a key stick to.
#[derive(Debug, Default)]
pub(crate) struct Sticky {
    current: Option<i32>,
    bytes: usize,
}

impl Sticky {
    /// The partition for the next `bytes`; `available` are the partitions that have a leader, `switch_at` the bytes
    /// after which to move on.
    pub(crate) fn pick(&mut self, available: &[i32], partitions: i32, bytes: usize, switch_at: usize) -> i32 {
        let current = match self.current {
            Some(current) if self.bytes < switch_at => current,
            previous => {
                self.bytes = 0;
                self.next(previous, available, partitions)
            }
        };
        self.current = Some(current);
        self.bytes = self.bytes.saturating_add(bytes);
        current
    }

    fn next(&self, previous: Option<i32>, available: &[i32], partitions: i32) -> i32 {
        match available {
            // Nobody leads: any partition may be the first to come back.
            [] => fastrand::i32(0..partitions.max(1)),
            [only] => *only,
            _ => loop {
                let Some(next) = fastrand::choice(available) else { return 0 };
                if Some(*next) != previous {
                    return *next;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sticks_for_a_batch_and_moves_on() {
        let mut sticky = Sticky::default();
        let available = [0, 1, 2];
        let first = sticky.pick(&available, 4, 60, 100);
        assert_eq!(sticky.pick(&available, 4, 60, 100), first);
        let second = sticky.pick(&available, 4, 60, 100);
        assert_ne!(second, first);
        assert!(available.contains(&second), "3 has no leader");
    }

    #[test]
    fn works_with_one_partition_and_with_no_leader() {
        let mut sticky = Sticky::default();
        assert_eq!(sticky.pick(&[2], 3, 10, 1), 2);
        assert_eq!(sticky.pick(&[2], 3, 10, 1), 2);
        assert!((0..3).contains(&Sticky::default().pick(&[], 3, 1, 1)));
    }

    #[test]
    fn keys_go_where_java_sends_them() {
        // murmur2("foobar") = -790332482 in Java's own test; masked to 31 bits before the modulo.
        assert_eq!(by_key(b"foobar", 1000), (-790_332_482_i32 & 0x7fff_ffff) % 1000);
        assert_eq!(by_key(b"", 7), by_key(b"", 7));
    }
}
