//! Carry-less multiplication and the checksum instruction in parallel, on separate units of the processor.
//!
//! In the first part of a block the instruction processes three independent streams, so that none waits for the results
//! of the others; in the second part vectors are folded. The results are combined at the end of the block. The idea is
//! from <https://www.corsix.org/content/fast-crc32c-4k>; here each block begins with empty registers, and the previous
//! register is shifted past the block at its end, so that consecutive blocks overlap in the pipeline.

/// Splits the bytes into groups of `N` chunks of `LEN` bytes, and drops the rest.
#[inline]
pub(crate) fn groups<const LEN: usize, const N: usize>(bytes: &[u8]) -> &[[[u8; LEN]; N]] {
    bytes.as_chunks().0.as_chunks().0
}

/// Defines `update`, and `serial` for short data: in each step, `$vectors` of 16 bytes are folded while each stream
/// processes `$words` of 8 bytes.
///
/// `$all` are the features of both, `$instruction` those of the checksum instruction. The module of a processor defines
/// `zero`, `load`, `fold_vector`, `halves`, `word`, `byte` and `product`.
macro_rules! fused {
    ($all:literal, $instruction:literal, $vectors:literal, $words:literal) => {
        /// Number of bytes per step of the loop.
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

        /// Processes all complete blocks of `STEPS` steps; returns the register and the remaining bytes.
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
