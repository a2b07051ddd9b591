//! Blocks as Java writes them, and blocks that it never would.

use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMicrosecondType};
use samsarrow_spark::write_options::Field as Given;

use super::*;

const HEADERS: &str = "array<struct<key:string,value:binary>>";
const ALL: &[(&str, &str)] = &[
    ("topic", "string"),
    ("key", "binary"),
    ("value", "string"),
    ("headers", HEADERS),
    ("partition", "int"),
    ("timestamp", "timestamp"),
];

fn options(topic: Option<&str>, fields: &[(&str, &str)]) -> WriteOptions {
    let mut given = BTreeMap::from([("kafka.bootstrap.servers".to_owned(), "localhost:9092".to_owned())]);
    given.extend(topic.map(|topic| ("topic".to_owned(), topic.to_owned())));
    let field = |(name, kind): &(&str, &str)| Given { name: (*name).to_owned(), kind: (*kind).to_owned() };
    WriteOptions::parse(&given, &fields.iter().map(field).collect::<Vec<_>>()).unwrap()
}

/// A block that grows.
#[derive(Default, Clone)]
struct Block(Vec<u8>);

impl Block {
    fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn bytes(self, bytes: Option<&str>) -> Self {
        let mut block = self.int(bytes.map_or(-1, |bytes| bytes.len() as i32));
        block.0.extend(bytes.unwrap_or_default().as_bytes());
        block
    }

    fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    /// A row of all columns, the last three null.
    fn row(self, topic: Option<&str>, value: &str) -> Self {
        self.bytes(topic).bytes(None).bytes(Some(value)).int(-1).int(0).int(0)
    }
}

fn values(batch: &RecordBatch) -> Vec<Option<&[u8]>> {
    batch.column_by_name("value").unwrap().as_binary::<i32>().iter().collect()
}

#[test]
fn every_column_is_there() {
    let row = Block::default().bytes(Some("t")).bytes(Some("k")).bytes(Some("")).int(3);
    let row = row.bytes(Some("a")).bytes(Some("1")).bytes(Some("a")).bytes(None).bytes(None).bytes(Some(""));
    let block = row.int(1).int(7).int(1).long(-5).row(Some("t"), "x").0;
    let found = parts(&block, 2, &options(None, ALL)).unwrap();
    let [(topic, batch)] = &found[..] else { panic!("{} topics", found.len()) };
    assert_eq!((&**topic, values(batch)), ("t", vec![Some(&b""[..]), Some(b"x")]));
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert_eq!(column("key").as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"k"[..]), None]);
    assert_eq!(column("partition").as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(7), None]);
    let times = column("timestamp").as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [Some(-5), None]);
    let lists = column("headers").as_list::<i32>();
    assert_eq!((lists.value_length(0), lists.is_null(1)), (3, true));
    let pairs = lists.values().as_struct();
    let texts = |index: usize| pairs.column(index).as_binary::<i32>().iter().collect::<Vec<_>>();
    assert_eq!(texts(0), [Some(&b"a"[..]), Some(b"a"), None]);
    assert_eq!(texts(1), [Some(&b"1"[..]), None, Some(b"")]);
}

#[test]
fn rows_are_told_apart_by_their_topics() {
    let block = Block::default().row(Some("a"), "1").row(Some("b"), "2").row(Some("a"), "3");
    let found = parts(&block.clone().0, 3, &options(None, ALL)).unwrap();
    let found: Vec<_> = found.iter().map(|(topic, batch)| (&**topic, values(batch))).collect();
    assert_eq!(found, [("a", vec![Some(&b"1"[..]), Some(b"3")]), ("b", vec![Some(&b"2"[..])])]);
    let error = parts(&block.row(None, "4").0, 4, &options(None, ALL)).unwrap_err();
    assert_eq!(error.kind, "configuration");
    assert!(error.text.contains("1 of 4 rows have a null topic and were not sent"), "{error:?}");
    // With the option there is no such column.
    let one = Block::default().bytes(Some("1")).bytes(None);
    let found = parts(&one.0, 2, &options(Some("t"), &[("value", "string"), ("topic", "string")])).unwrap();
    assert_eq!((&*found[0].0, values(&found[0].1)), ("t", vec![Some(&b"1"[..]), None]));
    assert!(parts(&[], 0, &options(None, ALL)).unwrap().is_empty());
}

#[test]
fn what_is_no_block_is_an_error() {
    let whole = Block::default().row(Some("t"), "abc").row(Some("t"), "d").0;
    let all = options(None, ALL);
    assert!(parts(&whole, 2, &all).is_ok());
    let refused = |block: &[u8], rows: usize| {
        let error = parts(block, rows, &all).unwrap_err();
        assert_eq!(error.kind, "state", "{error:?}");
    };
    for rows in [0, 1, 3, usize::MAX] {
        refused(&whole, rows);
    }
    for end in 0..whole.len() {
        refused(&whole[..end], 2);
    }
    let before = || Block::default().bytes(Some("t")).bytes(None);
    for length in [5, i32::MAX, -2, i32::MIN] {
        // Of a value; of headers, whose number is no less than what is there; whether a number follows.
        refused(&before().int(length).int(0).0, 1);
        refused(&before().bytes(None).int(length).int(0).int(0).0, 1);
        refused(&before().bytes(None).int(-1).int(length).int(0).0, 1);
    }
}

#[test]
fn any_bytes_are_a_block_or_an_error() {
    let all = options(None, ALL);
    let seed = Block::default().row(Some("t"), "abc").row(Some("u"), "d").0;
    for at in 0..seed.len() {
        for byte in [0, 1, 4, 127, 128, 255] {
            let mut block = seed.clone();
            block[at] = byte;
            if let Ok(found) = parts(&block, 2, &all) {
                assert_eq!(found.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>(), 2);
            }
        }
    }
}
