//! Compression codecs of record batches, with limits on the output.
mod gzip;
mod limits;
mod lz4;
mod snappy;
mod zstd;

pub use limits::Limits;

/// A codec of record batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// snappy. It is written with the framing of the Java client, and read with or without this framing.
    Snappy,
    /// lz4 frames.
    Lz4,
    /// zstd.
    Zstd,
}

/// An error from compressing or decompressing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// Unknown codec bits.
    #[error("compression codec {0} is unknown (Kafka has 0 to 4)")]
    UnknownCodec(i16),
    /// An unknown codec name.
    #[error("compression {0:?} is unknown; it is one of none, gzip, snappy, lz4, zstd")]
    UnknownName(String),
    /// A level that the codec does not support.
    #[error("{} has no level {level}; {range}", codec.name())]
    Level {
        codec: Codec,
        /// The requested level.
        level: i32,
        /// The supported levels.
        range: &'static str,
    },
    /// The compressed data is corrupt.
    #[error("{} data is corrupt: {what}", codec.name())]
    Corrupt {
        codec: Codec,
        /// Description of the corruption.
        what: String,
    },
    /// The output would exceed [`Limits::max_bytes`].
    #[error("{} data decompresses to more than the {cap} bytes allowed", codec.name())]
    TooLarge {
        codec: Codec,
        /// Maximum output in bytes.
        cap: usize,
    },
    /// The output would exceed [`Limits::max_ratio`].
    #[error(
        "{} data of {input} bytes decompresses to more than {cap} bytes, over {ratio} to 1: this looks like a \
         decompression bomb",
        codec.name()
    )]
    Ratio {
        codec: Codec,
        /// Size of the compressed data.
        input: usize,
        /// Maximum output in bytes for this input.
        cap: usize,
        /// Maximum ratio of output to input.
        ratio: usize,
    },
    /// The compression library returned an error.
    #[error("{} failed: {what}", codec.name())]
    Failed {
        codec: Codec,
        /// Message of the library.
        what: String,
    },
}

impl CompressionError {
    /// Returns the consumer option that sets the exceeded limit, or `None` for other errors.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            CompressionError::TooLarge { .. } => Some("max.decompressed.bytes"),
            CompressionError::Ratio { .. } => Some("max.decompressed.ratio"),
            _ => None,
        }
    }
}

impl Codec {
    /// All codecs, in the order of their ids.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// Returns the codec from the attributes of a batch.
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

    /// Returns the codec with this name.
    pub fn from_name(name: &str) -> Result<Codec, CompressionError> {
        let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name);
        codec.ok_or_else(|| CompressionError::UnknownName(name.to_owned()))
    }

    /// Returns Kafka's name of the codec.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// Returns Kafka's id of the codec.
    pub fn id(self) -> i16 {
        self as i16
    }

    fn corrupt(self, what: impl Into<String>) -> CompressionError {
        CompressionError::Corrupt { codec: self, what: what.into() }
    }
}

/// Compressor for one codec. It reuses its context.
#[derive(Debug)]
pub struct Compressor(Inner);

#[derive(Debug)]
enum Inner {
    None,
    Gzip(gzip::Compress),
    Snappy(Box<snappy::Compress>),
    Lz4(lz4::Compress),
    Zstd(zstd::Compress),
}

impl Compressor {
    /// Creates a compressor for `codec` at `level`, or at the codec's default level.
    pub fn new(codec: Codec, level: Option<i32>) -> Result<Compressor, CompressionError> {
        let check = |range: std::ops::RangeInclusive<i32>, words| match level {
            Some(level) if !range.contains(&level) => Err(CompressionError::Level { codec, level, range: words }),
            _ => Ok(()),
        };
        Ok(Compressor(match codec {
            Codec::None => Inner::None,
            Codec::Gzip => {
                check(-1..=9, "its levels are 1 to 9, or -1 for the default")?;
                Inner::Gzip(gzip::Compress::new(level.filter(|&level| level >= 0)))
            }
            Codec::Snappy => Inner::Snappy(Box::new(snappy::Compress::new())),
            Codec::Lz4 => {
                // This encoder has a single level. Other valid levels are accepted but have no effect, so that existing
                // configurations keep working.
                check(1..=17, "its levels are 1 to 17")?;
                Inner::Lz4(lz4::Compress::default())
            }
            Codec::Zstd => {
                check(-131_072..=22, "its levels are -131072 to 22")?;
                Inner::Zstd(zstd::Compress::new(level)?)
            }
        }))
    }

    pub fn codec(&self) -> Codec {
        match self.0 {
            Inner::None => Codec::None,
            Inner::Gzip(_) => Codec::Gzip,
            Inner::Snappy(_) => Codec::Snappy,
            Inner::Lz4(_) => Codec::Lz4,
            Inner::Zstd(_) => Codec::Zstd,
        }
    }

    /// Appends the compressed `input` to `out`.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        match &mut self.0 {
            Inner::None => {
                out.extend_from_slice(input);
                Ok(())
            }
            Inner::Gzip(gzip) => gzip.run(input, out),
            Inner::Snappy(snappy) => snappy.run(input, out),
            Inner::Lz4(lz4) => lz4.run(input, false, out),
            Inner::Zstd(zstd) => zstd.run(input, out),
        }
    }

    /// Like [`compress`](Self::compress), but for messages of format `magic`. With magic 0, the header of lz4 frames
    /// has a nonstandard checksum that only Kafka's clients computed (KIP-57).
    pub fn compress_for(&mut self, magic: i8, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        match &mut self.0 {
            Inner::Lz4(lz4) => lz4.run(input, magic == 0, out),
            _ => self.compress(input, out),
        }
    }
}

/// Decompressor for all codecs. It creates contexts on first use and reuses them.
#[derive(Debug, Default)]
pub struct Decompressor {
    legacy_lz4: bool,
    snappy: snappy::Decompress,
    zstd: zstd::Decompress,
}

impl Decompressor {
    /// Creates a decompressor without contexts.
    pub fn new() -> Decompressor {
        Decompressor::default()
    }

    /// Makes the decompressor also accept lz4 frames with the nonstandard header checksum that Kafka's clients wrote in
    /// messages of magic 0.
    pub fn with_legacy_lz4(mut self) -> Decompressor {
        self.legacy_lz4 = true;
        self
    }

    /// Appends the decompressed `input` to `out`. If `limits` is a number of bytes, it limits only the size, not the
    /// ratio. After an error, `out` may contain a part of the output.
    ///
    /// A size that the input states is not trusted: the output buffer starts with a capacity in proportion to the
    /// input, and only grows while the input expands further.
    pub fn decompress(
        &mut self,
        codec: Codec,
        input: &[u8],
        out: &mut Vec<u8>,
        limits: impl Into<Limits>,
    ) -> Result<(), CompressionError> {
        let limits = limits.into();
        let limit = out.len().saturating_add(limits.cap(input.len()));
        let mut out = Output { limit, bytes: out, limits, codec, input: input.len() };
        match codec {
            Codec::None if input.len() > out.left() => Err(out.too_large()),
            Codec::None => {
                out.bytes.extend_from_slice(input);
                Ok(())
            }
            Codec::Gzip => gzip::decompress(input, &mut out),
            Codec::Snappy => self.snappy.run(input, &mut out),
            Codec::Lz4 => lz4::decompress(input, self.legacy_lz4, &mut out),
            Codec::Zstd => self.zstd.run(input, &mut out),
        }
    }
}

/// Output buffer with a maximum size.
struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    limit: usize,
    limits: Limits,
    codec: Codec,
    input: usize,
}

impl Output<'_> {
    fn too_large(&self) -> CompressionError {
        self.limits.exceeded(self.codec, self.input)
    }

    /// Returns the number of bytes that may still be written.
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }
}
