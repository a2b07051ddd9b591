//! Positions that a batch of rows stands for.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};

use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// For each partition in a consumer's batch the offset after its last row: what `commit(batch)` commits.
///
/// # Errors
/// [`Error::Configuration`] if the batch lacks the columns `topic`, `partition` and `offset` or has nulls in them.
pub fn positions_of(batch: &RecordBatch) -> Result<Vec<(TopicPartition, i64)>> {
    let partitions: &Int32Array = column(batch, "partition", "int32")?;
    let offsets: &Int64Array = column(batch, "offset", "int64")?;
    let topics = Topics::of(batch)?;
    let mut last: BTreeMap<(&str, i32), i64> = BTreeMap::new();
    let rows = batch.num_rows();
    for row in 0..rows {
        let (partition, offset) = (partitions.value(row), offsets.value(row));
        // Rows of a partition lie together: only the last of a run is looked up.
        let run_goes_on = row + 1 < rows
            && partitions.value(row + 1) == partition
            && topics.same(row, row + 1)
            && offsets.value(row + 1) > offset;
        if !run_goes_on {
            let next = last.entry((topics.name(row)?, partition)).or_insert(offset + 1);
            *next = (*next).max(offset + 1);
        }
    }
    Ok(last.into_iter().map(|((topic, partition), next)| (TopicPartition::new(topic, partition), next)).collect())
}

fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str, kind: &str) -> Result<&'a A> {
    let found = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<A>());
    match found {
        Some(column) if column.null_count() == 0 => Ok(column),
        Some(_) => Err(Error::configuration(format!("the batch has nulls in column {name}: it gives no position"))),
        None => Err(Error::configuration(format!(
            "the batch has no column {name} of type {kind}: commit takes batches as poll gives them"
        ))),
    }
}

/// The topic column, as a dictionary or as plain text.
enum Topics<'a> {
    Dictionary { codes: &'a Int32Array, names: &'a StringArray },
    Plain(&'a StringArray),
}

impl<'a> Topics<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let any = batch.column_by_name("topic").map(Arc::as_ref).map(Array::as_any);
        if let Some(dictionary) = any.and_then(|any| any.downcast_ref::<DictionaryArray<Int32Type>>()) {
            let names = dictionary.values().as_any().downcast_ref::<StringArray>();
            if let (Some(names), 0) = (names, dictionary.null_count()) {
                return Ok(Self::Dictionary { codes: dictionary.keys(), names });
            }
        }
        column(batch, "topic", "string").map(Self::Plain)
    }

    fn same(&self, a: usize, b: usize) -> bool {
        match self {
            Self::Dictionary { codes, .. } => codes.value(a) == codes.value(b),
            Self::Plain(names) => names.value(a) == names.value(b),
        }
    }

    fn name(&self, row: usize) -> Result<&'a str> {
        match self {
            Self::Plain(names) => Ok(names.value(row)),
            Self::Dictionary { codes, names } => usize::try_from(codes.value(row))
                .ok()
                .filter(|code| *code < names.len())
                .map(|code| names.value(code))
                .ok_or_else(|| Error::configuration("the batch's topic dictionary lacks a topic")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field, Schema};

    fn batch(topics: Arc<dyn Array>, partitions: Vec<i32>, offsets: Vec<i64>) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("topic", topics.data_type().clone(), true),
            Field::new("partition", DataType::Int32, true),
            Field::new("offset", DataType::Int64, true),
        ]);
        let columns: Vec<Arc<dyn Array>> =
            vec![topics, Arc::new(Int32Array::from(partitions)), Arc::new(Int64Array::from(offsets))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn the_offset_after_the_last_row_of_each_partition() {
        let names = ["a", "a", "b", "b", "a"];
        let dictionary: DictionaryArray<Int32Type> = names.into_iter().collect();
        for topics in [Arc::new(dictionary) as Arc<dyn Array>, Arc::new(StringArray::from(names.to_vec()))] {
            let found = positions_of(&batch(topics, vec![0, 0, 0, 1, 0], vec![4, 7, 1, 2, 5])).unwrap();
            let wanted = [("a", 0, 8), ("b", 0, 2), ("b", 1, 3)];
            assert_eq!(found, wanted.map(|(t, p, o)| (TopicPartition::new(t, p), o)));
        }
    }

    #[test]
    fn other_batches_are_refused() {
        let one = batch(Arc::new(Int32Array::from(vec![1])), vec![0], vec![0]);
        assert!(positions_of(&one).unwrap_err().to_string().contains("column topic"));
        let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(positions_of(&empty).unwrap_err().to_string().contains("column partition"));
    }
}
