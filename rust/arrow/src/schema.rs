//! Schema of decoded batches.
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// Memory layout of keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// `binary`: values are copied to one contiguous buffer per column. All Arrow kernels support this layout.
    #[default]
    Binary,
    /// `binary_view`: values are views into the fetched or decompressed bytes, which stay in memory as long as the
    /// batch.
    View,
}

/// Options that determine the schema of decoded batches. A consumer uses the same schema for all its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchemaOptions {
    pub layout: Layout,
    /// Adds the column `headers`.
    pub include_headers: bool,
    /// Adds the column `leader_epoch`.
    pub include_leader_epoch: bool,
}

/// Returns the schema of decoded batches. All columns are nullable; topic and partition are only null if they are
/// unknown, as in `decode_batches`.
pub fn batch_schema(options: &SchemaOptions) -> SchemaRef {
    let bytes = match options.layout {
        Layout::Binary => DataType::Binary,
        Layout::View => DataType::BinaryView,
    };
    let mut fields = vec![
        Field::new("key", bytes.clone(), true),
        Field::new("value", bytes, true),
        Field::new("topic", topic_type(), true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::from("UTC"))), true),
        Field::new("timestamp_type", DataType::Int8, true),
    ];
    if options.include_headers {
        fields.push(Field::new("headers", DataType::List(header_item()), true));
    }
    if options.include_leader_epoch {
        fields.push(Field::new("leader_epoch", DataType::Int32, true));
    }
    Arc::new(Schema::new(fields))
}

pub(crate) fn topic_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Returns the fields of the struct that contains one header.
pub(crate) fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)])
}

/// Returns the item field of the list type of the headers column.
pub(crate) fn header_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(header_fields()), true))
}
