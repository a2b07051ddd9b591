//! Values as self-contained Arrow IPC streams.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};

use super::Values;
use super::compact::{compact, is_compact};
use crate::encode::EncodeError;

/// Minimum alignment required by Arrow. With the recommended 64 bytes, a small row would mostly consist of padding.
const ALIGNMENT: usize = 8;

pub(super) fn write(field: &FieldRef, rows: &ArrayRef, max_bytes: usize, out: &mut Values) -> Result<(), EncodeError> {
    let as_is = is_compact(rows.data_type());
    let nulls = rows.logical_nulls();
    let schema = schema(field, &compact(&rows.slice(0, 0))?);
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options.clone())?;
    // All streams have the same start (the schema) and the same end.
    let head = std::mem::take(writer.get_mut());
    let mut empty = StreamWriter::try_new_with_options(Vec::new(), &schema, options)?;
    empty.finish()?;
    let no_tail = || ArrowError::IpcError("a stream without batches is shorter than its schema".to_owned());
    let tail = empty.get_ref().get(head.len()..).ok_or_else(no_tail)?.to_vec();
    for row in 0..rows.len() {
        if out.is_full(max_bytes) {
            break;
        }
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.null();
            continue;
        }
        let mut value = rows.slice(row, 1);
        if !as_is {
            value = compact(&value)?;
        }
        writer.write(&batch(&schema, &value)?)?;
        out.bytes.extend_from_slice(&head);
        out.bytes.append(writer.get_mut());
        out.bytes.extend_from_slice(&tail);
        out.close();
    }
    Ok(())
}

/// Returns the schema of the IPC stream: one column per field for a struct, otherwise a single column.
fn schema(field: &FieldRef, values: &ArrayRef) -> SchemaRef {
    match values.data_type() {
        DataType::Struct(fields) => Arc::new(Schema::new(fields.clone())),
        other => Arc::new(Schema::new(vec![field.as_ref().clone().with_data_type(other.clone())])),
    }
}

fn batch(schema: &SchemaRef, value: &ArrayRef) -> Result<RecordBatch, ArrowError> {
    let columns = value.as_struct_opt().map_or_else(|| vec![Arc::clone(value)], |value| value.columns().to_vec());
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
