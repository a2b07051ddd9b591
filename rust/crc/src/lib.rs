//! CRC-32C and CRC-32, with the instructions that the processor has.
//!
//! A register is what a checksum is before its last inversion; `update` takes it over more bytes. Bits are reversed in
//! both checksums: of a byte, of a register and of a vector the lowest bit has the highest power of x.

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

/// The CRC-32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    !update::<CASTAGNOLI>(!0, data)
}

/// The CRC-32 (IEEE) of `data`, as in zip and Ethernet.
#[inline]
pub fn crc32(data: &[u8]) -> u32 {
    !update::<IEEE>(!0, data)
}

#[cfg(test)]
mod tests;
