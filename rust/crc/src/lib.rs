//! CRC-32C and CRC-32, computed with CPU instructions where available and with lookup tables otherwise.
//!
//! A *register* is a checksum before its final inversion; `update` feeds more bytes into it. Both checksums are
//! bit-reflected: the lowest bit of a byte, register or vector is the coefficient of the highest power of x.

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod fused;
mod polynomial;
mod table;
#[cfg(target_arch = "x86_64")]
mod x86;

use polynomial::{CASTAGNOLI, IEEE};

#[cfg(target_arch = "aarch64")]
use arm::update;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use table::update;
#[cfg(target_arch = "x86_64")]
use x86::update;

/// Computes the CRC-32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    !update::<CASTAGNOLI>(!0, data)
}

/// Computes the CRC-32 (IEEE) of `data`, as in zip and Ethernet.
#[inline]
pub fn crc32(data: &[u8]) -> u32 {
    !update::<IEEE>(!0, data)
}

#[cfg(test)]
mod tests;
