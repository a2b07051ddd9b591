//! Tests of rows as Spark stores them, and of malformed rows.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};

use super::*;

/// Container under construction: fixed parts, then the part of variable length, whose offsets count from its start.
fn container(head: &[u8], words: &[Cell<'_>], width: usize) -> Vec<u8> {
    let mut bytes = head.to_vec();
    let mut nulls = vec![0_u64; words.len().div_ceil(64)];
    for (at, word) in words.iter().enumerate() {
        nulls[at / 64] |= u64::from(matches!(word, Cell::Null)) << (at % 64);
    }
    nulls.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    let mut from = bytes.len() + words.len() * width;
    let mut rest = Vec::new();
    for word in words {
        let cell: u64 = match word {
            Cell::Null => 0,
            Cell::Number(number) => *number as u64,
            Cell::Bytes(value) => {
                let (offset, size) = (from + rest.len(), value.len());
                rest.extend_from_slice(value);
                rest.resize(rest.len().next_multiple_of(8), 0);
                (offset as u64) << 32 | size as u64
            }
        };
        bytes.extend_from_slice(&cell.to_ne_bytes()[..width]);
    }
    from = bytes.len();
    assert_eq!(from % width, 0);
    bytes.extend(rest);
    bytes
}

#[derive(Debug, Clone)]
enum Cell<'a> {
    Null,
    Number(i64),
    Bytes(&'a [u8]),
}
use Cell::{Bytes, Null, Number};

fn row(words: &[Cell<'_>]) -> Vec<u8> {
    container(&[], words, 8)
}

fn list(words: &[Cell<'_>], width: usize) -> Vec<u8> {
    container(&(words.len() as i64).to_ne_bytes(), words, width)
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(field("element", item)))
}

fn column(data_type: &DataType, cells: &[Option<&[u8]>]) -> Result<ArrayRef, Fault> {
    let mut column = Column::new(data_type).unwrap();
    cells.iter().try_for_each(|cell| column.append(*cell))?;
    let array = column.finish().unwrap();
    assert_eq!(array.data_type(), data_type);
    Ok(array)
}

#[test]
fn structs_have_words_and_byte_strings() {
    let fields = vec![
        field("id", DataType::Int64),
        field("flag", DataType::Boolean),
        field("name", DataType::Utf8),
        field("exact", DataType::Decimal128(38, 2)),
        field("short", DataType::Decimal128(9, 2)),
        field("none", DataType::Null),
    ];
    let kind = DataType::Struct(fields.into());
    let big = (-(1_i128 << 80)).to_be_bytes();
    let full = row(&[Number(-7), Number(1), Bytes(b"Ann"), Bytes(&big[5..]), Number(-1234), Null]);
    let nulls = row(&[Null, Null, Null, Null, Null, Null]);
    let array = column(&kind, &[Some(&full), None, Some(&nulls)]).unwrap();
    let rows = array.as_struct();
    assert_eq!((rows.is_null(0), rows.is_null(1), rows.is_null(2)), (false, true, false));
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(-7), None, None]);
    assert!(rows.column(1).as_boolean().value(0));
    assert_eq!(rows.column(2).as_string::<i32>().value(0), "Ann");
    assert_eq!(rows.column(3).as_primitive::<Decimal128Type>().value(0), -(1_i128 << 80));
    assert_eq!(rows.column(4).as_primitive::<Decimal128Type>().value(0), -1234);
    assert_eq!(rows.column(5).len(), 3);
}

#[test]
fn more_than_64_fields_have_two_words_of_nulls() {
    let fields: Vec<Field> = (0..70).map(|at| field(&format!("f{at}"), DataType::Int32)).collect();
    let words: Vec<Cell<'_>> = (0..70).map(|at| if at % 3 == 0 { Null } else { Number(at) }).collect();
    let array = column(&DataType::Struct(fields.into()), &[Some(&row(&words))]).unwrap();
    for (at, column) in array.as_struct().columns().iter().enumerate() {
        let expected = (at % 3 != 0).then_some(at as i32);
        assert_eq!(column.as_primitive::<Int32Type>().iter().next(), Some(expected), "{at}");
    }
}

#[test]
fn lists_and_maps_are_nested() {
    let numbers = list(&[Number(1), Null, Number(3)], 4);
    let outer = list(&[Bytes(&numbers), Null, Bytes(&list(&[], 4))], 8);
    let array = column(&list_of(list_of(DataType::Int32)), &[Some(&outer), None]).unwrap();
    let lists = array.as_list::<i32>();
    assert_eq!((lists.value_length(0), lists.is_null(1)), (3, true));
    let inner = lists.value(0);
    let inner = inner.as_list::<i32>();
    let first = inner.value(0);
    assert_eq!(first.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(1), None, Some(3)]);
    assert_eq!((inner.is_null(1), inner.value_length(2)), (true, 0));

    let pair = DataType::Struct(vec![Field::new("key", DataType::Utf8, false), field("value", DataType::Int8)].into());
    let kind = DataType::Map(Arc::new(Field::new("entries", pair, false)), false);
    let (keys, values) = (list(&[Bytes(b"x"), Bytes(b"y")], 8), list(&[Number(7), Null], 1));
    let map = [&(keys.len() as i64).to_ne_bytes()[..], &keys, &values].concat();
    let array = column(&kind, &[None, Some(&map)]).unwrap();
    let maps = array.as_map();
    assert_eq!((maps.is_null(0), maps.value_length(1)), (true, 2));
    assert_eq!(maps.keys().as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["x", "y"]);
    let other = [&(keys.len() as i64).to_ne_bytes()[..], &keys, &list(&[Number(7)], 1)].concat();
    assert_eq!(column(&kind, &[Some(&other)]).unwrap_err(), Fault::Malformed);
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let inner = DataType::Struct(vec![field("city", DataType::Utf8)].into());
    let kind = DataType::Struct(vec![field("id", DataType::Int64), field("user", inner)].into());
    let user = row(&[Bytes(b"\xff")]);
    let fault = column(&kind, &[Some(&row(&[Number(1), Bytes(&user)]))]).unwrap_err();
    assert_eq!(fault, Fault::Utf8("user.city".to_owned()));
}

#[test]
fn malformed_bytes_are_faults_and_no_panics() {
    let kinds = [
        DataType::Struct(vec![field("id", DataType::Int64), field("name", DataType::Utf8)].into()),
        list_of(DataType::Utf8),
        list_of(DataType::Int16),
        DataType::Decimal128(38, 0),
    ];
    let good = row(&[Number(1), Bytes(b"Ann")]);
    for kind in &kinds {
        for length in 0..good.len() {
            // A shorter row may still be valid, but must not panic.
            let _ = column(kind, &[Some(&good[..length])]);
        }
        for number in [-1_i64, i64::MAX, 1 << 40, i64::MIN] {
            let bytes = [number.to_ne_bytes(); 3].concat();
            if !matches!(kind, DataType::Struct(_)) {
                assert_eq!(column(kind, &[Some(&bytes)]).unwrap_err(), Fault::Malformed, "{kind} {number}");
            }
            let _ = column(kind, &[Some(&bytes)]);
        }
    }
}
