//! Deterministic random numbers: the same seed results in the same numbers on all machines.

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % (n.max(1) as u64)) as usize
    }

    /// Returns true with a probability of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns a random element of `items`; `None` if there are none.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.below(items.len())).copied()
    }

    /// Returns a boundary value: a limit of an integer type, or a number close to `near`.
    pub(crate) fn edge(&mut self, near: i64) -> i64 {
        const EDGES: [i64; 21] = [
            0,
            1,
            -1,
            -2,
            0x7f,
            0x80,
            0xff,
            0x3fff,
            0x4000,
            i16::MAX as i64,
            i16::MIN as i64,
            u16::MAX as i64,
            i32::MAX as i64 - 1,
            i32::MAX as i64,
            i32::MAX as i64 + 1,
            i32::MIN as i64,
            u32::MAX as i64,
            u32::MAX as i64 + 1,
            i64::MAX - 1,
            i64::MAX,
            i64::MIN,
        ];
        match self.below(6) {
            0 => near.wrapping_add(1),
            1 => near.wrapping_sub(1),
            2 => near.wrapping_add(self.below(64) as i64 - 32),
            3 => self.next() as i64 >> self.below(64),
            _ => self.pick(&EDGES).unwrap_or(0),
        }
    }

    /// Returns up to `max_len` random bytes, which are sometimes compressible.
    pub(crate) fn bytes(&mut self, max_len: usize) -> Vec<u8> {
        let len = self.below(max_len + 1);
        match self.below(3) {
            0 => (0..len).map(|_| self.next() as u8).collect(),
            1 => vec![self.next() as u8; len],
            _ => (0..len).map(|_| b"abcdefgh".get(self.below(8)).copied().unwrap_or_default()).collect(),
        }
    }
}
