//! Arithmetic modulo a polynomial, for constants.

/// Of CRC-32C. The highest bit is x⁰; x³² is left out.
pub(crate) const CASTAGNOLI: u32 = 0x82f6_3b78;
/// Of CRC-32.
pub(crate) const IEEE: u32 = 0xedb8_8320;

const ONE: u32 = 1 << 31;

pub(crate) const fn times_x(polynomial: u32, value: u32) -> u32 {
    (value >> 1) ^ if value & 1 == 1 { polynomial } else { 0 }
}

const fn multiply(polynomial: u32, mut left: u32, right: u32) -> u32 {
    let mut product = 0;
    let mut power = ONE;
    while power != 0 {
        if right & power != 0 {
            product ^= left;
        }
        left = times_x(polynomial, left);
        power >>= 1;
    }
    product
}

/// x to a power.
const fn x_to(polynomial: u32, mut exponent: usize) -> u32 {
    let mut result = ONE;
    let mut square = times_x(polynomial, ONE);
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = multiply(polynomial, result, square);
        }
        square = multiply(polynomial, square, square);
        exponent >>= 1;
    }
    result
}

/// Factors of the first and the second 64 bits of a vector, that move it over `bytes` more.
///
/// The product of 64 and 32 reversed bits, read as 128, is 33 powers too high; the first half is 64 powers above the
/// second.
pub(crate) const fn fold(polynomial: u32, bytes: usize) -> [u64; 2] {
    [x_to(polynomial, 8 * bytes + 31) as u64, x_to(polynomial, 8 * bytes - 33) as u64]
}

/// The factor that moves a register over `bytes` more, of a product that an instruction for checksums reduces.
///
/// The product of twice 32 reversed bits, read as 64, is one power too high, and the instruction adds 32.
pub(crate) const fn shift(polynomial: u32, bytes: usize) -> u64 {
    x_to(polynomial, 8 * bytes - 33) as u64
}
