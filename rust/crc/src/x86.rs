//! x86-64: the SSE4.2 instruction for CRC-32C, and carry-less multiplication (PCLMULQDQ and VPCLMULQDQ).
#![allow(unsafe_code, reason = "calls of functions whose CPU features were detected, and vector loads")]

use std::arch::x86_64::*;

use crate::polynomial::{CASTAGNOLI, fold};
use crate::table;

/// Maximum length in bytes at which the checksum instruction alone is faster than with folded vectors.
const SHORT: usize = 256;

#[inline]
pub(crate) fn update<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
    let instruction = is_x86_feature_detected!("sse4.2");
    let products = instruction && is_x86_feature_detected!("pclmulqdq");
    if POLYNOMIAL == CASTAGNOLI && instruction && (data.len() <= SHORT || !products) {
        // SAFETY: the processor has the features of the function.
        return unsafe { castagnoli::serial::<POLYNOMIAL>(register, data) };
    }
    if !products {
        return table::update::<POLYNOMIAL>(register, data);
    }
    if data.len() > SHORT && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq") {
        // SAFETY: the processor has the features of the function.
        return unsafe { wide::<POLYNOMIAL>(register, data) };
    }
    if POLYNOMIAL == CASTAGNOLI {
        // SAFETY: the processor has the features of the function.
        return unsafe { castagnoli::update::<POLYNOMIAL>(register, data) };
    }
    // SAFETY: the processor has the features of the function.
    unsafe { narrow::<POLYNOMIAL>(register, data) }
}

/// Only for CRC-32C, because the checksum instruction supports no other polynomial.
mod castagnoli {
    use super::{fold_16 as fold_vector, load_16 as load, *};
    use crate::fused::groups;
    use crate::polynomial::shift;

    crate::fused::fused!("pclmulqdq,sse4.2", "sse4.2", 2, 3);

    #[inline]
    #[target_feature(enable = "sse4.2")]
    pub(super) fn word<const POLYNOMIAL: u32>(register: u32, word: u64) -> u32 {
        _mm_crc32_u64(register.into(), word) as u32
    }

    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn byte<const POLYNOMIAL: u32>(register: u32, byte: u8) -> u32 {
        _mm_crc32_u8(register, byte)
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn product(register: u32, factor: u64) -> u64 {
        let (register, factor) = (_mm_cvtsi32_si128(register as i32), _mm_cvtsi64_si128(factor as i64));
        _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0x00>(register, factor)) as u64
    }
}

/// Folds `data` with four vectors of 64 bytes.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn wide<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
    let (vectors, rest) = data.as_chunks::<64>();
    let (blocks, vectors) = vectors.as_chunks::<4>();
    let Some((block, blocks)) = blocks.split_first() else { return table::update::<POLYNOMIAL>(register, data) };
    let mut folded = [_mm512_setzero_si512(); 4];
    for (folded, next) in folded.iter_mut().zip(block) {
        *folded = load_64(next);
    }
    folded[0] = _mm512_xor_si512(folded[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(register as i32)));
    for block in blocks {
        for (folded, next) in folded.iter_mut().zip(block) {
            *folded = fold_64(*folded, const { fold(POLYNOMIAL, 256) }, load_64(next));
        }
    }
    let [first, second, third, fourth] = folded;
    let mut vector = fold_64(third, const { fold(POLYNOMIAL, 64) }, fourth);
    vector = fold_64(second, const { fold(POLYNOMIAL, 128) }, vector);
    vector = fold_64(first, const { fold(POLYNOMIAL, 192) }, vector);
    for next in vectors {
        vector = fold_64(vector, const { fold(POLYNOMIAL, 64) }, load_64(next));
    }
    let quarters = [
        _mm512_extracti32x4_epi32::<0>(vector),
        _mm512_extracti32x4_epi32::<1>(vector),
        _mm512_extracti32x4_epi32::<2>(vector),
        _mm512_extracti32x4_epi32::<3>(vector),
    ];
    finish::<POLYNOMIAL>(quarters, rest)
}

/// Folds `data` with four vectors of 16 bytes.
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn narrow<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
    let (blocks, rest) = data.as_chunks::<64>();
    let Some((block, blocks)) = blocks.split_first() else { return table::update::<POLYNOMIAL>(register, data) };
    let mut folded = [_mm_setzero_si128(); 4];
    for (folded, next) in folded.iter_mut().zip(block.as_chunks::<16>().0) {
        *folded = load_16(next);
    }
    folded[0] = _mm_xor_si128(folded[0], _mm_cvtsi32_si128(register as i32));
    for block in blocks {
        for (folded, next) in folded.iter_mut().zip(block.as_chunks::<16>().0) {
            *folded = fold_16(*folded, const { fold(POLYNOMIAL, 64) }, load_16(next));
        }
    }
    finish::<POLYNOMIAL>(folded, rest)
}

/// Reduces four vectors of 16 bytes to a register, and then processes `rest`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn finish<const POLYNOMIAL: u32>(vectors: [__m128i; 4], rest: &[u8]) -> u32 {
    let [first, second, third, fourth] = vectors;
    let mut vector = fold_16(third, const { fold(POLYNOMIAL, 16) }, fourth);
    vector = fold_16(second, const { fold(POLYNOMIAL, 32) }, vector);
    vector = fold_16(first, const { fold(POLYNOMIAL, 48) }, vector);
    let (vectors, rest) = rest.as_chunks::<16>();
    for next in vectors {
        vector = fold_16(vector, const { fold(POLYNOMIAL, 16) }, load_16(next));
    }
    let [first, second] = halves(vector);
    if POLYNOMIAL == CASTAGNOLI {
        let register = castagnoli::word::<POLYNOMIAL>(0, first);
        castagnoli::serial::<POLYNOMIAL>(castagnoli::word::<POLYNOMIAL>(register, second), rest)
    } else {
        let register = table::update::<POLYNOMIAL>(0, &first.to_le_bytes());
        table::update::<POLYNOMIAL>(table::update::<POLYNOMIAL>(register, &second.to_le_bytes()), rest)
    }
}

#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold_64(vector: __m512i, factors: [u64; 2], next: __m512i) -> __m512i {
    let [first, second] = factors.map(|factor| factor as i64);
    let factors = _mm512_set_epi64(second, first, second, first, second, first, second, first);
    let first = _mm512_clmulepi64_epi128::<0x00>(vector, factors);
    let second = _mm512_clmulepi64_epi128::<0x11>(vector, factors);
    // XOR of all three operands.
    _mm512_ternarylogic_epi64::<0x96>(first, second, next)
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
fn fold_16(vector: __m128i, factors: [u64; 2], next: __m128i) -> __m128i {
    let [first, second] = factors.map(|factor| factor as i64);
    let factors = _mm_set_epi64x(second, first);
    let first = _mm_clmulepi64_si128::<0x00>(vector, factors);
    let second = _mm_clmulepi64_si128::<0x11>(vector, factors);
    _mm_xor_si128(_mm_xor_si128(first, second), next)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn halves(vector: __m128i) -> [u64; 2] {
    [_mm_extract_epi64::<0>(vector) as u64, _mm_extract_epi64::<1>(vector) as u64]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_64(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers 64 bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference covers 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn zero() -> __m128i {
    _mm_setzero_si128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polynomial::IEEE;
    use crate::tests::same_as_bit_by_bit;

    /// Tests all implementations that this processor supports.
    #[test]
    fn all_implementations_match_the_definition() {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq") {
            // SAFETY: the processor has the features of the functions.
            same_as_bit_by_bit::<CASTAGNOLI>(|register, data| unsafe { wide::<CASTAGNOLI>(register, data) });
            same_as_bit_by_bit::<IEEE>(|register, data| unsafe { wide::<IEEE>(register, data) });
        }
        if is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor has the features of the functions.
            same_as_bit_by_bit::<CASTAGNOLI>(|register, data| unsafe {
                castagnoli::update::<CASTAGNOLI>(register, data)
            });
            same_as_bit_by_bit::<CASTAGNOLI>(|register, data| unsafe { narrow::<CASTAGNOLI>(register, data) });
            same_as_bit_by_bit::<IEEE>(|register, data| unsafe { narrow::<IEEE>(register, data) });
        }
    }
}
