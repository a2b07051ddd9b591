//! Column of headers: a list of (key, value) structs for each row.
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use samsarrow_wire::batch::{RawRecord, RecordError};

use super::binary::BinaryColumn;
use super::{Origin, ValueColumn, out_of_bounds};
use crate::schema::{header_fields, header_item};

/// Builder of the headers column. If a record has no headers, its row is an empty list, not null.
#[derive(Debug)]
pub(crate) struct HeadersColumn {
    /// End offset of each row's list, after an initial 0.
    lists: Vec<i32>,
    /// End offset of each key, after an initial 0.
    key_ends: Vec<i32>,
    keys: Vec<u8>,
    values: BinaryColumn,
}

impl Default for HeadersColumn {
    fn default() -> Self {
        HeadersColumn { lists: vec![0], key_ends: vec![0], keys: Vec::new(), values: BinaryColumn::default() }
    }
}

impl HeadersColumn {
    /// Appends the headers of one record, whose bytes are in `data`. Invalid UTF-8 in a key is replaced by U+FFFD, as
    /// in the Java client. Returns the number of keys with invalid UTF-8.
    pub(crate) fn push(&mut self, data: &[u8], record: &RawRecord) -> Result<usize, RecordError> {
        let (mut replaced, before) = (0, self.key_ends.len());
        for (key, value) in record.headers(data) {
            if std::str::from_utf8(key).is_ok() {
                self.keys.extend_from_slice(key);
            } else {
                self.keys.extend_from_slice(String::from_utf8_lossy(key).as_bytes());
                replaced += 1;
            }
            self.key_ends.push(self.keys.len() as i32);
            let len = value.map_or(-1, |v| v.len() as i32);
            // In a block, a length of -1 stands for null.
            self.values.push_block(value.unwrap_or_default(), Origin::default(), &[0], &[len])?;
        }
        if self.key_ends.len() - before != record.header_count as usize {
            return Err(out_of_bounds(data));
        }
        self.lists.push(self.key_ends.len() as i32 - 1);
        Ok(replaced)
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.lists.truncate(rows + 1);
        let headers = self.lists.last().map_or(0, |&end| end as usize);
        self.key_ends.truncate(headers + 1);
        self.keys.truncate(self.key_ends.last().map_or(0, |&end| end as usize));
        self.values.truncate(headers);
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let mut column = std::mem::take(self);
        let key_ends = OffsetBuffer::new(ScalarBuffer::from(column.key_ends));
        let keys = StringArray::try_new(key_ends, Buffer::from_vec(column.keys), None)?;
        let structs = StructArray::try_new(header_fields(), vec![Arc::new(keys), column.values.finish(&[])?], None)?;
        let lists = OffsetBuffer::new(ScalarBuffer::from(column.lists));
        Ok(Arc::new(ListArray::try_new(header_item(), lists, Arc::new(structs), None)?))
    }
}
