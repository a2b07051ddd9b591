//! Carry-less products and the instruction for checksums side by side: a processor has units for each.
//!
//! Of a block, the instruction runs over the first part in three streams, each of which waits for its own last result
//! only; vectors are folded over the second part. All are put together at the block's end. The idea is that of
//! <https://www.corsix.org/content/fast-crc32c-4k>; here each block begins with empty registers, and the register before
//! it is moved over it at its end, so that blocks overlap.

/// `N` pieces of `LEN` bytes each, as many times as there are.
#[inline]
pub(crate) fn groups<const LEN: usize, const N: usize>(bytes: &[u8]) -> &[[[u8; LEN]; N]] {
    bytes.as_chunks().0.as_chunks().0
}

/// `update`, and `serial` for what is short: `$vectors` of 16 bytes are folded while each stream takes `$words` of 8.
///
/// The features are those of all that is used, and of the instruction alone. A processor brings `zero`, `load`,
/// `fold_vector`, `halves`, `word`, `byte` and `product`.
macro_rules! fused {
    ($all:literal, $instruction:literal, $vectors:literal, $words:literal) => {
        /// Bytes a step of the loop.
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

        /// The register after as many blocks of `STEPS` as there are, and the bytes that follow them.
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
