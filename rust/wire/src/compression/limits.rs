//! How far compressed data may expand.
use super::{Codec, CompressionError};

/// How far the data of one batch may expand. Two bounds, because one is not enough: an absolute one must leave room
/// for the largest honest batch, and a thousand small bombs that each stay below it still cost what they expand to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes.
    pub max_bytes: usize,
    /// The most bytes for each byte of input, once there are more than `small`; 0 for no such bound.
    pub max_ratio: usize,
    /// This many bytes may come out of any input: a batch of zeros is no attack.
    pub small: usize,
}

impl Limits {
    /// What `max_bytes` is unless somebody says otherwise.
    pub const MAX_BYTES: usize = 256 << 20;
    /// What `max_ratio` is unless somebody says otherwise. No data can expand so far in gzip (1,032 to 1), lz4 (255)
    /// or snappy (22); zstd can, with data that is little but repetition.
    pub const MAX_RATIO: usize = 2000;
    /// What `small` is unless somebody says otherwise: far more than producers put into a batch.
    pub const SMALL: usize = 64 << 20;

    /// The most bytes that may come out of `input` bytes.
    pub fn cap(&self, input: usize) -> usize {
        self.max_bytes.min(self.by_ratio(input))
    }

    fn by_ratio(&self, input: usize) -> usize {
        if self.max_ratio == 0 { usize::MAX } else { input.saturating_mul(self.max_ratio).max(self.small) }
    }

    /// The error when more than [`Limits::cap`] would come out.
    pub(super) fn exceeded(&self, codec: Codec, input: usize) -> CompressionError {
        let by_ratio = self.by_ratio(input);
        if by_ratio < self.max_bytes {
            CompressionError::Ratio { codec, input, cap: by_ratio, ratio: self.max_ratio }
        } else {
            CompressionError::TooLarge { codec, cap: self.max_bytes }
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_bytes: Self::MAX_BYTES, max_ratio: Self::MAX_RATIO, small: Self::SMALL }
    }
}

/// A number of bytes, and no bound on the ratio.
impl From<usize> for Limits {
    fn from(max_bytes: usize) -> Self {
        Limits { max_bytes, max_ratio: 0, small: 0 }
    }
}
