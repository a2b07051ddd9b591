//! Rows with the positions after them, which polls return and commits use.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use samsarrow_wire::messages::Uuid;

use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::group::Offsets;
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Key in the schema metadata for the positions after a batch's rows. The value is a JSON array with one array per
/// partition: topic, partition, offset of the last row, next offset to read, leader epoch of the record before that
/// offset (-1 if unknown), topic id in hexadecimal (empty if unknown).
const METADATA_KEY: &str = "samsarrow.positions";

/// Position after the rows of one partition in a batch. It is past transaction markers and aborted or compacted records
/// that follow the last row (KIP-1094).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextOffset {
    pub partition: TopicPartition,
    /// Offset of the partition's last row in the batch.
    pub last_row: i64,
    pub offset: i64,
    /// Leader epoch of the record before `offset`, -1 if unknown (KIP-320).
    pub leader_epoch: i32,
    /// Id of the topic that the rows were read from, zero if unknown (KIP-516).
    pub topic_id: Uuid,
}

/// Rows returned by a poll, with the positions after them.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows; `None` if the poll returns only because a position has reached the end of a bounded read.
    pub batch: Option<RecordBatch>,
    /// Position after the rows of each partition.
    pub next: Vec<NextOffset>,
}

impl Rows {
    /// Returns the rows as a batch with the positions in its schema metadata, which slices and copies of the batch
    /// keep.
    ///
    /// # Errors
    /// Fails with [`Error::Corrupt`] if Arrow rejects the schema.
    pub fn with_metadata(self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.batch else { return Ok(None) };
        let next: Vec<_> = self
            .next
            .iter()
            .map(|n| {
                let tp = &n.partition;
                (&*tp.topic, tp.partition, n.last_row, n.offset, n.leader_epoch, to_hex(n.topic_id))
            })
            .collect();
        let rejected = |error: &dyn std::fmt::Display| Error::corrupt(format!("positions of rows: {error}"));
        let text = serde_json::to_string(&next).map_err(|error| rejected(&error))?;
        let schema = batch.schema_ref();
        let metadata = std::collections::HashMap::from([(METADATA_KEY.to_owned(), text)]);
        let schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata));
        batch.with_schema(schema).map(Some).map_err(|error| rejected(&error))
    }
}

/// Offset to commit after the rows of one partition, and the id of the topic that the offset belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsEnd {
    /// Next offset to read.
    pub at: OffsetAndMetadata,
    /// Topic id; zero if unknown.
    pub topic_id: Uuid,
}

/// Returns the offset that `commit(batch)` commits for each partition of a consumer's batch. It is the offset after the
/// partition's last row or, if the batch contains the position, the offset after the markers and other offsets without
/// rows that follow.
///
/// # Errors
/// Fails with [`Error::Configuration`] if the batch lacks one of the columns `topic`, `partition` and `offset`, if a
/// column contains nulls, or if the metadata was not written by a consumer.
fn ends_of(batch: &RecordBatch) -> Result<BTreeMap<TopicPartition, RowsEnd>> {
    let partitions: &Int32Array = column(batch, "partition", "int32")?;
    let offsets: &Int64Array = column(batch, "offset", "int64")?;
    let topics = Topics::of(batch)?;
    let known = known_positions(batch)?;
    let mut last: BTreeMap<(&str, i32), i64> = BTreeMap::new();
    let rows = batch.num_rows();
    for row in 0..rows {
        let (partition, offset) = (partitions.value(row), offsets.value(row));
        // Rows of a partition are usually adjacent, so only the last row of a run is looked up.
        let run_goes_on = row + 1 < rows
            && partitions.value(row + 1) == partition
            && topics.same(row, row + 1)
            && offsets.value(row + 1) > offset;
        if !run_goes_on {
            let newest = last.entry((topics.name(row)?, partition)).or_insert(offset);
            *newest = (*newest).max(offset);
        }
    }
    let after = |((topic, partition), last_row): ((&str, i32), i64)| {
        let known = known.get(&(topic.to_owned(), partition));
        // A concatenated batch has the metadata of the first batch only, so later rows may come from a topic that was
        // recreated in between.
        let topic_id = known.filter(|known| last_row <= known.last_row).map_or(Uuid::ZERO, |known| known.topic_id);
        // The position is valid only after the row that it follows, and a slice may lack this row.
        let known = known.filter(|known| known.last_row == last_row);
        let (offset, epoch) = known.map_or((last_row + 1, -1), |known| (known.offset, known.leader_epoch));
        let leader_epoch = Some(epoch).filter(|epoch| *epoch >= 0);
        let at = OffsetAndMetadata { offset, leader_epoch, ..Default::default() };
        (TopicPartition::new(topic, partition), RowsEnd { at, topic_id })
    };
    Ok(last.into_iter().map(after).collect())
}

/// Like [`ends_of`], but for several batches of one consumer in any order. Returns the largest offset of each
/// partition.
///
/// # Errors
/// Fails in the same cases as [`ends_of`].
pub fn ends_of_rows(batches: &[RecordBatch]) -> Result<BTreeMap<TopicPartition, RowsEnd>> {
    let mut newest: BTreeMap<TopicPartition, RowsEnd> = BTreeMap::new();
    for batch in batches {
        for (tp, end) in ends_of(batch)? {
            let kept = newest.entry(tp).or_insert_with(|| end.clone());
            if end.at.offset > kept.at.offset {
                *kept = end;
            }
        }
    }
    Ok(newest)
}

/// Returns the offsets to commit after the rows of `batches`.
///
/// # Errors
/// Fails with [`Error::Configuration`] if a batch was not created by a consumer.
pub fn offsets_of_rows(batches: &[RecordBatch]) -> Result<Offsets> {
    Ok(ends_of_rows(batches)?.into_iter().map(|(tp, end)| (tp, end.at)).collect())
}

/// Positions from the metadata, by topic and partition.
type Known = HashMap<(String, i32), NextOffset>;

fn known_positions(batch: &RecordBatch) -> Result<Known> {
    let Some(text) = batch.schema_ref().metadata().get(METADATA_KEY) else { return Ok(Known::default()) };
    let changed = |why: &dyn std::fmt::Display| {
        Error::configuration(format!("the batch's schema metadata {METADATA_KEY} was changed: {why}; remove it"))
    };
    let found: Vec<(String, i32, i64, i64, i32, String)> =
        serde_json::from_str(text).map_err(|error| changed(&error))?;
    let one = |(topic, partition, last_row, offset, leader_epoch, id): (String, i32, i64, i64, i32, String)| {
        let topic_id = from_hex(&id).ok_or_else(|| changed(&format_args!("{id:?} is no topic id")))?;
        let partition_of = TopicPartition::new(topic.as_str(), partition);
        Ok(((topic, partition), NextOffset { partition: partition_of, last_row, offset, leader_epoch, topic_id }))
    };
    found.into_iter().map(one).collect()
}

fn to_hex(id: Uuid) -> String {
    if id.is_zero() { String::new() } else { format!("{:032x}", u128::from_be_bytes(id.0)) }
}

fn from_hex(text: &str) -> Option<Uuid> {
    if text.is_empty() {
        return Some(Uuid::ZERO);
    }
    u128::from_str_radix(text, 16).ok().map(|id| Uuid(id.to_be_bytes()))
}

/// Returns a column of a batch that a poll has returned.
///
/// # Errors
/// Fails with [`Error::Configuration`] if the column is missing, has another type or contains nulls.
pub(crate) fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str, kind: &str) -> Result<&'a A> {
    let found = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<A>());
    match found {
        Some(column) if column.null_count() == 0 => Ok(column),
        Some(_) => {
            Err(Error::configuration(format!("the batch has nulls in column {name}: pass rows as poll returned them")))
        }
        None => Err(Error::configuration(format!(
            "the batch has no column {name} of type {kind}: pass batches as poll returns them"
        ))),
    }
}

/// Returns the number of values at the start that are equal.
pub(crate) fn equal_at_start(values: &[i32]) -> usize {
    // Values per comparison: without an exit in between, it is vectorised.
    const BLOCK: usize = 128;
    let Some(first) = values.first() else { return 0 };
    let is_equal = |block: &&[i32]| block.iter().fold(true, |so_far, value| so_far & (value == first));
    let equal: usize = values.chunks(BLOCK).take_while(is_equal).map(<[i32]>::len).sum();
    equal + values.iter().skip(equal).take_while(|value| *value == first).count()
}

/// Topic column, either dictionary-encoded or plain strings.
pub(crate) enum Topics<'a> {
    Dictionary { codes: &'a Int32Array, names: &'a StringArray },
    Plain(&'a StringArray),
}

impl<'a> Topics<'a> {
    pub(crate) fn of(batch: &'a RecordBatch) -> Result<Self> {
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

    /// Returns the number of rows from `row` on, below `end`, that have the topic of `row`.
    pub(crate) fn run(&self, row: usize, end: usize) -> usize {
        match self {
            Self::Dictionary { codes, .. } => equal_at_start(codes.values().get(row..end).unwrap_or_default()),
            Self::Plain(_) => (row..end).take_while(|other| self.same(row, *other)).count(),
        }
    }

    pub(crate) fn name(&self, row: usize) -> Result<&'a str> {
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
    fn equal_values_at_the_start_are_counted_over_blocks() {
        for length in [0, 1, 2, 127, 128, 129, 255, 256, 300] {
            let mut values = vec![7; length];
            assert_eq!(equal_at_start(&values), length);
            values.extend([8, 7, 7]);
            assert_eq!(equal_at_start(&values), length.max(1), "{length}");
        }
    }

    #[test]
    fn commits_the_offset_after_the_last_row_of_each_partition() {
        let names = ["a", "a", "b", "b", "a"];
        let dictionary: DictionaryArray<Int32Type> = names.into_iter().collect();
        for topics in [Arc::new(dictionary) as Arc<dyn Array>, Arc::new(StringArray::from(names.to_vec()))] {
            let found = offsets_of_rows(&[batch(topics, vec![0, 0, 0, 1, 0], vec![4, 7, 1, 2, 5])]).unwrap();
            let wanted = [("a", 0, 8), ("b", 0, 2), ("b", 1, 3)];
            assert_eq!(found, wanted.map(|(t, p, o)| (TopicPartition::new(t, p), at(o, None))));
        }
    }

    fn at(offset: i64, leader_epoch: Option<i32>) -> OffsetAndMetadata {
        OffsetAndMetadata { offset, leader_epoch, ..Default::default() }
    }

    #[test]
    fn positions_in_metadata_skip_offsets_without_rows() {
        let names: DictionaryArray<Int32Type> = ["a", "a", "b"].into_iter().collect();
        let next = |topic: &str, last_row, offset| NextOffset {
            partition: TopicPartition::new(topic, 0),
            last_row,
            offset,
            leader_epoch: 3,
            topic_id: Uuid([9; 16]),
        };
        let rows = batch(Arc::new(names), vec![0, 0, 0], vec![4, 7, 1]);
        let rows = Rows { batch: Some(rows), next: vec![next("a", 7, 1005), next("b", 1, 2)] };
        let rows = rows.with_metadata().unwrap().unwrap();
        let found = |rows: &RecordBatch| -> Vec<_> {
            offsets_of_rows(std::slice::from_ref(rows))
                .unwrap()
                .into_iter()
                .map(|(tp, at)| (tp.topic.to_string(), at))
                .collect()
        };
        let all = [("a".to_owned(), at(1005, Some(3))), ("b".to_owned(), at(2, Some(3)))];
        assert_eq!(found(&rows), all);
        assert_eq!(ends_of(&rows.slice(0, 1)).unwrap()[&TopicPartition::new("a", 0)].topic_id, Uuid([9; 16]));
        // A slice without the last row ends at the offset after its own last row.
        assert_eq!(found(&rows.slice(0, 1)), [("a".to_owned(), at(5, None))]);
        assert_eq!(found(&rows.slice(1, 2)), all);
        // The second batch has the metadata of the first one, as after a concatenation.
        let more = batch(Arc::new(["a"].into_iter().collect::<DictionaryArray<Int32Type>>()), vec![0], vec![9]);
        let more = more.with_schema(rows.schema()).unwrap();
        assert_eq!(ends_of(&more).unwrap()[&TopicPartition::new("a", 0)].topic_id, Uuid::ZERO);
    }

    #[test]
    fn rejects_foreign_metadata() {
        let rows = batch(Arc::new(StringArray::from(vec!["a"])), vec![0], vec![0]);
        let metadata = std::collections::HashMap::from([(METADATA_KEY.to_owned(), "[1]".to_owned())]);
        let schema = Schema::new_with_metadata(rows.schema_ref().fields().clone(), metadata);
        let rows = rows.with_schema(Arc::new(schema)).unwrap();
        assert!(ends_of(&rows).unwrap_err().to_string().contains("samsarrow.positions"));
    }

    #[test]
    fn rejects_batches_without_required_columns() {
        let one = batch(Arc::new(Int32Array::from(vec![1])), vec![0], vec![0]);
        assert!(ends_of(&one).unwrap_err().to_string().contains("column topic"));
        let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(ends_of(&empty).unwrap_err().to_string().contains("column partition"));
    }
}
