//! The message formats v0 and v1, from before Kafka 0.11.

/// A message of the formats v0 and v1 that breaks their rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyError {
    /// Compressed messages in a compressed message.
    #[error("a compressed message holds another compressed message, which no version of Kafka allows")]
    Nested,
}
