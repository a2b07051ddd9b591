//! Conversion of record batches to Arrow arrays and back, without creating an object per record.

pub mod decode;
mod digest;
pub mod encode;
pub mod layout;
mod memory;
mod pool;
pub mod schema;
pub mod segment;
pub mod text_format;
mod topics;
pub mod value_encoding;

pub use decode::{Appended, DecodeCause, DecodeError, DecodeOptions, Decoder, Projection, Window, decode_batches};
pub use digest::digest;
pub use encode::{Columns, EncodeError, EncodeOptions, HeaderRow, RowReader, encode_batches, is_bytes};
pub use memory::memory_of;
pub use pool::Pool;
pub use samsarrow_wire::batch::{AbortedTransaction, AbortedTransactions};
pub use schema::{Layout, SchemaOptions, batch_schema};
pub use segment::{SegmentOptions, SegmentReader};
pub use text_format::{LineFormat, Template};
pub use topics::Topics;
pub use value_encoding::{ValueColumns, ValueFormat, ValueWriter};
