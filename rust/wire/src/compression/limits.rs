//! Limits on the expansion of compressed data.
use super::{Codec, CompressionError};

/// Limits on the expansion of one batch. A limit on the size is not enough: it must allow the largest valid batch, but
/// a thousand small decompression bombs could then each expand to this size. The ratio is therefore limited, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the output in bytes.
    pub max_bytes: usize,
    /// Maximum output per byte of input, for outputs larger than `small`; 0 disables this limit.
    pub max_ratio: usize,
    /// Output size up to which any ratio is allowed, because a batch of zeros is not an attack.
    pub small: usize,
}

impl Limits {
    /// Default of `max_bytes`.
    pub const MAX_BYTES: usize = 256 << 20;
    /// Default of `max_ratio`. The maximum ratios of gzip (1,032), lz4 (255) and snappy (22) are below it. zstd can
    /// exceed it for very repetitive data.
    pub const MAX_RATIO: usize = 2000;
    /// Default of `small`, which is much more than producers put into a batch.
    pub const SMALL: usize = 64 << 20;

    /// Returns the maximum output in bytes for `input` bytes.
    pub fn cap(&self, input: usize) -> usize {
        self.max_bytes.min(self.by_ratio(input))
    }

    fn by_ratio(&self, input: usize) -> usize {
        if self.max_ratio == 0 { usize::MAX } else { input.saturating_mul(self.max_ratio).max(self.small) }
    }

    /// Returns the error for an output above [`Limits::cap`].
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

/// Limits the size to this number of bytes, and does not limit the ratio.
impl From<usize> for Limits {
    fn from(max_bytes: usize) -> Self {
        Limits { max_bytes, max_ratio: 0, small: 0 }
    }
}
