//! Runs carry-less multiplication and the checksum instruction in parallel, on separate units of the processor.
//!
//! Each block has two parts, which are processed at the same time: the first consists of three independent streams for
//! the checksum instruction, so that no stream waits for the results of another; the second consists of vectors that
//! are folded. The results are combined at the end of the block. The idea is from
//! <https://www.corsix.org/content/fast-crc32c-4k>. In contrast to that article, each block begins with empty
//! registers, and the register of the previous blocks is added at the end of the block, so that consecutive blocks
//! overlap in the pipeline.

/// Splits the bytes into groups of `N` chunks of `LEN` bytes. Bytes that do not fill a group are dropped.
#[inline]
pub(crate) fn groups<const LEN: usize, const N: usize>(bytes: &[u8]) -> &[[[u8; LEN]; N]] {
    bytes.as_chunks().0.as_chunks().0
}

/// Defines `update`, and `serial` for short data. In each step of `update`, `$vectors` vectors of 16 bytes are folded,
/// and each stream processes `$words` words of 8 bytes.
///
/// `$all` are all required processor features, `$instruction` only those of the checksum instruction. The calling
/// module must define `zero`, `load`, `fold_vector`, `halves`, `word`, `byte` and `product`.
macro_rules! fused {
    ($all:literal, $instruction:literal, $vectors:literal, $words:literal) => {
        /// Number of bytes that are folded per step.
        const VECTORS: usize = 16 * $vectors;
        const STREAM: usize = 8 * $words;
        const STEP: usize = 3 * STREAM + VECTORS;

        #[target_feature(enable = $all)]
        pub(super) fn update<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
            let (register, data) = blocks::<POLYNOMIAL, 120>(register, data);
            let (register, data) = blocks::<POLYNOMIAL, 16>(register, data);
            let (register, data) = blocks::<POLYNOMIAL, 2>(register, data);
            serial::<POLYNOMIAL>(register, data)
        }

        /// Processes all complete blocks of `STEPS` steps. Returns the register and the remaining bytes.
        #[target_feature(enable = $all)]
        fn blocks<const POLYNOMIAL: u32, const STEPS: usize>(mut register: u32, data: &[u8]) -> (u32, &[u8]) {
            let mut blocks = data.chunks_exact(STEPS * STEP);
            for block in &mut blocks {
                let (first, rest) = block.split_at(STEPS * STREAM);
                let (second, rest) = rest.split_at(STEPS * STREAM);
                let (third, vectors) = rest.split_at(STEPS * STREAM);
                let streams =
                    groups::<8, $words>(first).iter().zip(groups::<8, $words>(second)).zip(groups::<8, $words>(third));
                let (mut one, mut two, mut three) = (0, 0, 0);
                let mut folded = [zero(); $vectors];
                for (((first, second), third), vectors) in streams.zip(groups::<16, $vectors>(vectors)) {
                    for (folded, next) in folded.iter_mut().zip(vectors) {
                        *folded = fold_vector(*folded, const { fold(POLYNOMIAL, VECTORS) }, load(next));
                    }
                    for ((first, second), third) in first.iter().zip(second).zip(third) {
                        one = word::<POLYNOMIAL>(one, u64::from_le_bytes(*first));
                        two = word::<POLYNOMIAL>(two, u64::from_le_bytes(*second));
                        three = word::<POLYNOMIAL>(three, u64::from_le_bytes(*third));
                    }
                }
                let mut vector = zero();
                for next in folded {
                    vector = fold_vector(vector, const { fold(POLYNOMIAL, 16) }, next);
                }
                let moved = product(register, const { shift(POLYNOMIAL, STEPS * STEP) })
                    ^ product(one, const { shift(POLYNOMIAL, STEPS * (STEP - STREAM)) })
                    ^ product(two, const { shift(POLYNOMIAL, STEPS * (STEP - 2 * STREAM)) })
                    ^ product(three, const { shift(POLYNOMIAL, STEPS * VECTORS) });
                let [first, second] = halves(vector);
                register = word::<POLYNOMIAL>(word::<POLYNOMIAL>(0, first), second ^ moved);
            }
            (register, blocks.remainder())
        }

        #[inline]
        #[target_feature(enable = $instruction)]
        pub(super) fn serial<const POLYNOMIAL: u32>(mut register: u32, data: &[u8]) -> u32 {
            let (words, rest) = data.as_chunks::<8>();
            for next in words {
                register = word::<POLYNOMIAL>(register, u64::from_le_bytes(*next));
            }
            for next in rest {
                register = byte::<POLYNOMIAL>(register, *next);
            }
            register
        }
    };
}
pub(crate) use fused;
