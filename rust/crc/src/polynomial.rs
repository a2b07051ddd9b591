//! Constants that are computed modulo a polynomial.

/// The polynomial of CRC-32C. The highest bit is the coefficient of x⁰; x³² is implied.
pub(crate) const CASTAGNOLI: u32 = 0x82f6_3b78;
/// The polynomial of CRC-32.
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

/// Returns the power of x with this exponent, modulo the polynomial.
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

/// Returns two factors that shift a vector by `bytes` bytes. The first factor is for the first 64 bits of the vector,
/// the second for the other 64 bits.
///
/// The exponents take into account that the product of 64 and 32 reversed bits, read as 128 bits, is 33 powers too
/// high, and that the first half is 64 powers above the second.
pub(crate) const fn fold(polynomial: u32, bytes: usize) -> [u64; 2] {
    [x_to(polynomial, 8 * bytes + 31) as u64, x_to(polynomial, 8 * bytes - 33) as u64]
}

/// Returns the factor that shifts a register by `bytes` bytes, if the checksum instruction then reduces the product.
///
/// The exponent takes into account that the product of two registers of 32 reversed bits, read as 64 bits, is one power
/// too high, and that the instruction adds 32 powers.
pub(crate) const fn shift(polynomial: u32, bytes: usize) -> u64 {
    x_to(polynomial, 8 * bytes - 33) as u64
}
