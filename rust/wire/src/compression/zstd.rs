//! The zstd codec.
use zstd_safe::{CCtx, DCtx, get_error_name};

use super::{Codec, CompressionError, Output};

const DEFAULT_LEVEL: i32 = 3;
/// Expected ratio of output to input, which sets the first buffer size for data that does not state its size.
const FIRST_RATIO: usize = 6;
const MIN_CAPACITY: usize = 4 * 1024;
const TOO_SMALL: &str = "Destination buffer is too small";

pub(super) struct Compress {
    context: CCtx<'static>,
    level: i32,
}

impl std::fmt::Debug for Compress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compress").field("level", &self.level).finish_non_exhaustive()
    }
}

fn no_context() -> CompressionError {
    CompressionError::Failed { codec: Codec::Zstd, what: "no memory for its context".to_owned() }
}

impl Compress {
    pub(super) fn new(level: Option<i32>) -> Result<Self, CompressionError> {
        let context = CCtx::try_create().ok_or_else(no_context)?;
        Ok(Compress { context, level: level.unwrap_or(DEFAULT_LEVEL) })
    }

    pub(super) fn run(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(input.len()), 0);
        let (_, target) = out.split_at_mut(start);
        let size = self
            .context
            .compress(target, input, self.level)
            .map_err(|code| CompressionError::Failed { codec: Codec::Zstd, what: get_error_name(code).to_owned() })?;
        out.truncate(start + size);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Decompress {
    context: Option<DCtx<'static>>,
}

impl std::fmt::Debug for Decompress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompress")
    }
}

impl Decompress {
    /// Decompresses the input in one call. If the output buffer is too small, it grows. zstd's streaming API would need
    /// a window, whose size the input could set arbitrarily. A single call needs no window, and stops at the limit.
    /// Frames may be concatenated.
    pub(super) fn run(&mut self, input: &[u8], out: &mut Output<'_>) -> Result<(), CompressionError> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or_else(no_context)?),
        };
        let start = out.bytes.len();
        let max_size = out.left();
        let stated_size =
            zstd_safe::get_frame_content_size(input).ok().flatten().map_or(usize::MAX, |size| size as usize);
        // Trust the stated size only up to the expected ratio.
        let mut capacity = max_size.min(stated_size.min(input.len().saturating_mul(FIRST_RATIO).max(MIN_CAPACITY)));
        loop {
            out.bytes.resize(start + capacity, 0);
            let (_, target) = out.bytes.split_at_mut(start);
            match context.decompress(target, input) {
                Ok(size) => {
                    out.bytes.truncate(start + size);
                    return Ok(());
                }
                Err(code) if get_error_name(code) == TOO_SMALL => {
                    if capacity == max_size {
                        return Err(out.too_large());
                    }
                    let more = capacity.saturating_mul(4).max(MIN_CAPACITY);
                    // Grow at most to the stated size, unless the stated size was too small, which happens for
                    // concatenated frames.
                    capacity = max_size.min(if capacity < stated_size { more.min(stated_size) } else { more });
                }
                Err(code) => return Err(Codec::Zstd.corrupt(get_error_name(code))),
            }
        }
    }
}
