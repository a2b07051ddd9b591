//! Round trips of Arrow columns through record batches, in both layouts.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray, TimestampMillisecondArray};
use bytes::Bytes;
use samsarrow_arrow::{Columns, DecodeOptions, Decoder, EncodeOptions, Layout, Window, decode_batches, encode_batches};

fn table() -> RecordBatch {
    let key: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a key of 20 bytes...")]));
    let value: ArrayRef =
        Arc::new(BinaryArray::from(vec![Some(&b"one"[..]), Some(b"a value beyond inline size"), None, Some(b"")]));
    let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(5), None, Some(3), Some(1 << 40)]));
    RecordBatch::try_from_iter([("key", key), ("value", value), ("ts", ts)]).unwrap()
}

fn bytes_of(array: &ArrayRef) -> Vec<Option<Vec<u8>>> {
    match array.as_binary_opt::<i32>() {
        Some(a) => a.iter().map(|v| v.map(<[u8]>::to_vec)).collect(),
        None => array.as_binary_view().iter().map(|v| v.map(<[u8]>::to_vec)).collect(),
    }
}

#[test]
fn both_layouts_round_trip() {
    let columns = Columns { timestamp: Some("ts".into()), ..Columns::default() };
    let options = EncodeOptions { base_offset: 10, ..EncodeOptions::default() };
    let wire = encode_batches(&table(), &columns, &options).unwrap();
    for layout in [Layout::Binary, Layout::View] {
        let batch = decode_batches(wire.clone().into(), DecodeOptions { layout, ..DecodeOptions::default() }).unwrap();
        assert_eq!(batch.num_rows(), 4);
        let key = bytes_of(batch.column_by_name("key").unwrap());
        assert_eq!(key, [Some(b"a".to_vec()), None, Some(vec![]), Some(b"a key of 20 bytes...".to_vec())]);
        let value = bytes_of(batch.column_by_name("value").unwrap());
        assert_eq!(value, [Some(b"one".to_vec()), Some(b"a value beyond inline size".to_vec()), None, Some(vec![])]);
        let ts = batch.column_by_name("timestamp").unwrap().as_primitive::<TimestampMillisecondType>();
        assert_eq!(ts.iter().collect::<Vec<_>>(), [Some(5), None, Some(3), Some(1 << 40)]);
        let offsets = batch.column_by_name("offset").unwrap().as_primitive::<Int64Type>();
        assert_eq!(offsets.values(), &[10, 11, 12, 13]);
        assert_eq!(batch.column_by_name("timestamp_type").unwrap().as_primitive::<Int8Type>().values(), &[0; 4]);
        assert_eq!(batch.column_by_name("topic").unwrap().null_count(), 4);
    }
}

#[test]
fn several_partitions_share_a_batch() {
    let wire = Bytes::from(encode_batches(&table(), &Columns::default(), &EncodeOptions::default()).unwrap());
    let mut decoder = Decoder::new(DecodeOptions::default());
    for (topic, partition, from) in [("a", 0, 0), ("b", 7, 3), ("a", 1, 4)] {
        let appended = decoder.append(&Arc::from(topic), partition, wire.clone(), Window::from(from)).unwrap();
        assert_eq!((appended.rows, appended.next_offset), ((4 - from) as usize, 4));
        assert_eq!(appended.consumed, wire.len());
    }
    let batch = decoder.finish().unwrap();
    let topic = batch.column_by_name("topic").unwrap().as_dictionary::<Int32Type>();
    let names: Vec<_> = topic.downcast_dict::<StringArray>().unwrap().into_iter().flatten().collect();
    assert_eq!(names, ["a", "a", "a", "a", "b"]);
    let partition = batch.column_by_name("partition").unwrap().as_primitive::<Int32Type>();
    assert_eq!(partition.values(), &[0, 0, 0, 0, 7]);
    assert_eq!(decoder.finish().unwrap().num_rows(), 0);
}
