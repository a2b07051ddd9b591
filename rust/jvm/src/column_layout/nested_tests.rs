use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{BooleanArray, FixedSizeBinaryArray, NullArray, StructArray, TimestampMillisecondArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::{Field, Fields};

use super::*;

fn layout(array: ArrayRef) -> Result<(Vec<u64>, Retained)> {
    let kind = SparkType::from_arrow(array.data_type(), "value").unwrap();
    let (mut retained, mut out) = (Retained::default(), Vec::new());
    nested(&array, &kind, "value", &mut retained, &mut out)?;
    Ok((out, retained))
}

/// Returns for each vector whether it has addresses of validity, offsets and data, and its length.
fn shape(array: ArrayRef) -> Vec<(bool, bool, bool, u64)> {
    let (slots, _kept) = layout(array).unwrap();
    let vectors = slots.as_chunks::<8>().0;
    vectors.iter().map(|slots| (slots[0] != 0, slots[1] != 0, slots[2] != 0, slots[3])).collect()
}

#[test]
fn nested_vectors_follow_their_parent() {
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    lists.append_value([]);
    let lists: ArrayRef = Arc::new(lists.finish());
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    let fields = Fields::from(vec![
        Field::new("l", lists.data_type().clone(), true),
        Field::new("b", DataType::Boolean, false),
        Field::new("n", DataType::Null, true),
    ]);
    let nothing: ArrayRef = Arc::new(NullArray::new(3));
    let rows: ArrayRef = Arc::new(StructArray::new(fields, vec![lists, flags, nothing], None));
    let struct_of = (false, false, false, 3);
    let (list, items) = ((true, true, false, 3), (true, false, true, 2));
    assert_eq!(
        shape(Arc::clone(&rows)),
        [struct_of, list, items, (false, false, true, 3), (true, false, false, 3)],
        "a null array has a validity bitmap"
    );
    // The layout of a slice contains the items of the whole array. The offsets select the items of the slice.
    assert_eq!(shape(rows.slice(1, 1))[1..3], [(true, true, false, 1), items]);
}

#[test]
fn fields_are_matched_by_name() {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(UInt64Array::from(vec![1])), Arc::new(UInt32Array::from(vec![u32::MAX]))];
    let fields = Fields::from(vec![Field::new("a", DataType::UInt64, false), Field::new("b", DataType::UInt32, false)]);
    let rows: ArrayRef = Arc::new(StructArray::new(fields, columns, None));
    let requested = SparkType::parse(
        r#"{"type":"struct","fields":[{"name":"b","type":"long"},{"name":"a","type":"decimal(20,0)"}]}"#,
    );
    let (mut retained, mut out) = (Retained::default(), Vec::new());
    nested(&rows, &requested.unwrap(), "value", &mut retained, &mut out).unwrap();
    assert_eq!(out.len(), 3 * 8);
    let missing = SparkType::parse(r#"{"type":"struct","fields":[{"name":"c","type":"long"}]}"#);
    assert_eq!(nested(&rows, &missing.unwrap(), "value", &mut retained, &mut out).unwrap_err().kind, "state");
}

#[test]
fn fixed_size_binary_gets_offsets() {
    let hashes = FixedSizeBinaryArray::try_from_iter([[1_u8, 2], [3, 4]].into_iter()).unwrap();
    assert_eq!(shape(Arc::new(hashes)), [(false, true, true, 2)]);
}

#[test]
fn rejects_timestamps_outside_of_sparks_range() {
    let late: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(1), Some(1 << 62)]).with_timezone("UTC"));
    let failure = layout(late).unwrap_err();
    assert_eq!((failure.kind, failure.name.as_str()), ("bad_value", "BadValueError"));
    assert!(failure.text.starts_with("field value: the time 4611686018427387904 is outside"), "{failure:?}");
}
