//! CRC-32C, and the CRC-32 of the formats before it.

/// The CRC-32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// The CRC-32 (IEEE) of `data`, as in zip and Ethernet.
#[inline]
pub fn crc32(data: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(data)
}
