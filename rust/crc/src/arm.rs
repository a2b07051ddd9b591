//! 64-bit ARM: CRC instructions for both checksums, carry-less multiplication (AES extension) and three-way XOR (SHA3
//! extension).
#![allow(unsafe_code, reason = "calls of functions whose CPU features were detected, and vector loads")]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use crate::fused::{fused, groups};
use crate::polynomial::{CASTAGNOLI, fold, shift};
use crate::table;

#[inline]
pub(crate) fn update<const POLYNOMIAL: u32>(register: u32, data: &[u8]) -> u32 {
    if !is_aarch64_feature_detected!("crc") {
        return table::update::<POLYNOMIAL>(register, data);
    }
    if is_aarch64_feature_detected!("aes") {
        if is_aarch64_feature_detected!("sha3") {
            // SAFETY: the processor has the features of the function.
            return unsafe { with_sha3::update::<POLYNOMIAL>(register, data) };
        }
        // SAFETY: the processor has the features of the function.
        return unsafe { with_aes::update::<POLYNOMIAL>(register, data) };
    }
    // SAFETY: the processor has the features of the function.
    unsafe { with_aes::serial::<POLYNOMIAL>(register, data) }
}

mod with_aes {
    use super::*;

    fused!("crc,aes", "crc", 9, 2);

    #[inline]
    #[target_feature(enable = "aes")]
    fn fold_vector(vector: uint8x16_t, factors: [u64; 2], next: uint8x16_t) -> uint8x16_t {
        let [first, second] = products(vector, factors);
        veorq_u8(veorq_u8(first, second), next)
    }
}

mod with_sha3 {
    use super::*;

    fused!("crc,aes,sha3", "crc", 9, 2);

    #[inline]
    #[target_feature(enable = "aes,sha3")]
    fn fold_vector(vector: uint8x16_t, factors: [u64; 2], next: uint8x16_t) -> uint8x16_t {
        let [first, second] = products(vector, factors);
        veor3q_u8(first, second, next)
    }
}

/// Returns the carry-less products of both halves of `vector` with their factors.
#[inline]
#[target_feature(enable = "aes")]
fn products(vector: uint8x16_t, factors: [u64; 2]) -> [uint8x16_t; 2] {
    let [first, second] = factors;
    let factors = vreinterpretq_p64_u64(vcombine_u64(vcreate_u64(first), vcreate_u64(second)));
    let vector = vreinterpretq_p64_u8(vector);
    let lower = vmull_p64(vgetq_lane_p64::<0>(vector), vgetq_lane_p64::<0>(factors));
    [vreinterpretq_u8_p128(lower), vreinterpretq_u8_p128(vmull_high_p64(vector, factors))]
}

#[inline]
#[target_feature(enable = "crc")]
fn word<const POLYNOMIAL: u32>(register: u32, word: u64) -> u32 {
    if POLYNOMIAL == CASTAGNOLI { __crc32cd(register, word) } else { __crc32d(register, word) }
}

#[inline]
#[target_feature(enable = "crc")]
fn byte<const POLYNOMIAL: u32>(register: u32, byte: u8) -> u32 {
    if POLYNOMIAL == CASTAGNOLI { __crc32cb(register, byte) } else { __crc32b(register, byte) }
}

#[inline]
#[target_feature(enable = "aes")]
fn product(register: u32, factor: u64) -> u64 {
    vmull_p64(register.into(), factor) as u64
}

#[inline]
#[target_feature(enable = "neon")]
fn halves(vector: uint8x16_t) -> [u64; 2] {
    let vector = vreinterpretq_u64_u8(vector);
    [vgetq_lane_u64::<0>(vector), vgetq_lane_u64::<1>(vector)]
}

#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference covers 16 bytes, and the load needs no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> uint8x16_t {
    vdupq_n_u8(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polynomial::IEEE;
    use crate::tests::same_as_bit_by_bit;

    /// Tests all implementations that this processor supports.
    #[test]
    fn all_implementations_match_the_definition() {
        if is_aarch64_feature_detected!("crc") && is_aarch64_feature_detected!("aes") {
            // SAFETY: the processor has the features of the functions.
            same_as_bit_by_bit::<CASTAGNOLI>(|register, data| unsafe {
                with_aes::update::<CASTAGNOLI>(register, data)
            });
            same_as_bit_by_bit::<IEEE>(|register, data| unsafe { with_aes::update::<IEEE>(register, data) });
        }
    }
}
