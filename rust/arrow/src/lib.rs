//! Record batches to Arrow arrays and back, without row objects.

mod columns;
pub mod decode;
pub mod encode;
pub mod layout;
mod rows;
pub mod schema;
pub mod segment;
mod topics;
pub mod values;
mod walker;

pub use decode::{Appended, DecodeCause, DecodeError, DecodeOptions, Decoder, Window, decode_batches};
pub use encode::{Columns, EncodeError, EncodeOptions, RowReader, encode_batches};
pub use layout::Layout;
pub use rows::HeaderRow;
pub use samsarrow_wire::batch::{AbortedTransaction, AbortedTransactions};
pub use schema::{SchemaOptions, batch_schema};
pub use segment::{SegmentOptions, SegmentReader};
pub use topics::Topics;
pub use values::{ValueColumns, ValueFormat, ValueWriter};
