//! Codecs of record batches, output capped.
pub mod gzip;
pub mod lz4;
pub mod snappy;
pub mod zstd;

/// A codec of record batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// Data that cannot be compressed or decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// Codec bits without a meaning.
    #[error("compression codec {0} is unknown")]
    UnknownCodec(i16),
    /// A codec that is not there yet.
    #[error("codec {0:?} is not supported yet")]
    Unsupported(Codec),
}

impl Codec {
    /// The codec that a batch's attributes name.
    pub fn from_attributes(attributes: i16) -> Result<Codec, CompressionError> {
        Ok(match attributes & 7 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            other => return Err(CompressionError::UnknownCodec(other)),
        })
    }

    /// Kafka's number for it.
    pub fn id(self) -> i16 {
        self as i16
    }
}

/// Compresses with one codec.
#[derive(Debug)]
pub struct Compressor(Codec);

impl Compressor {
    /// For `codec` at `level`, or its default level.
    pub fn new(codec: Codec, _level: Option<i32>) -> Result<Compressor, CompressionError> {
        if codec == Codec::None { Ok(Compressor(codec)) } else { Err(CompressionError::Unsupported(codec)) }
    }

    /// The codec.
    pub fn codec(&self) -> Codec {
        self.0
    }

    /// Appends the compressed `input` to `out`.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        out.extend_from_slice(input);
        Ok(())
    }
}

/// Decompresses, with reused contexts.
#[derive(Debug, Default)]
pub struct Decompressor;

impl Decompressor {
    /// Contexts are made when first needed.
    pub fn new() -> Decompressor {
        Decompressor
    }

    /// Appends the decompressed `input` to `out`, at most `cap` bytes.
    pub fn decompress(
        &mut self,
        codec: Codec,
        _input: &[u8],
        _out: &mut Vec<u8>,
        _cap: usize,
    ) -> Result<(), CompressionError> {
        Err(CompressionError::Unsupported(codec))
    }
}
