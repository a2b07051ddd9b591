//! Tests of row buffers as Java writes them, and of malformed row buffers.

use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMicrosecondType};
use samsarrow_spark::write_options::Field as WriteField;

use super::*;

fn rows_by_topic(block: &[u8], rows: usize, options: &WriteOptions) -> Result<Vec<TopicRows>> {
    let mut typed = TypedColumns::new(options, &BTreeMap::new(), None).unwrap();
    super::rows_by_topic(block, rows, options, &mut typed)
}

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
    let mut options = BTreeMap::from([("kafka.bootstrap.servers".to_owned(), "localhost:9092".to_owned())]);
    options.extend(topic.map(|topic| ("topic".to_owned(), topic.to_owned())));
    let field = |(name, kind): &(&str, &str)| WriteField {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        data_type: None,
    };
    WriteOptions::parse(&options, &fields.iter().map(field).collect::<Vec<_>>()).unwrap()
}

/// Buffer under construction.
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

    /// Appends a row with all columns; headers, partition and timestamp are null.
    fn row(self, topic: Option<&str>, value: &str) -> Self {
        self.bytes(topic).bytes(None).bytes(Some(value)).int(-1).int(0).int(0)
    }
}

fn values(batch: &RecordBatch) -> Vec<Option<&[u8]>> {
    batch.column_by_name("value").unwrap().as_binary::<i32>().iter().collect()
}

#[test]
fn converts_all_columns() {
    let row = Block::default().bytes(Some("t")).bytes(Some("k")).bytes(Some("")).int(3);
    let row = row.bytes(Some("a")).bytes(Some("1")).bytes(Some("a")).bytes(None).bytes(None).bytes(Some(""));
    let block = row.int(1).int(7).int(1).long(-5).row(Some("t"), "x").0;
    let rows = rows_by_topic(&block, 2, &options(None, ALL)).unwrap();
    let [(topic, batch)] = &rows[..] else { panic!("{} topics", rows.len()) };
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
fn splits_rows_by_topic() {
    let block = Block::default().row(Some("a"), "1").row(Some("b"), "2").row(Some("a"), "3");
    let rows = rows_by_topic(&block.clone().0, 3, &options(None, ALL)).unwrap();
    let rows: Vec<_> = rows.iter().map(|(topic, batch)| (&**topic, values(batch))).collect();
    assert_eq!(rows, [("a", vec![Some(&b"1"[..]), Some(b"3")]), ("b", vec![Some(&b"2"[..])])]);
    let error = rows_by_topic(&block.row(None, "4").0, 4, &options(None, ALL)).unwrap_err();
    assert_eq!(error.kind, "configuration");
    assert!(error.text.contains("1 of 4 rows have a null topic and were not sent"), "{error:?}");
    // If the option `topic` is set, the buffer has no topic column.
    let block = Block::default().bytes(Some("1")).bytes(None);
    let rows = rows_by_topic(&block.0, 2, &options(Some("t"), &[("value", "string"), ("topic", "string")])).unwrap();
    assert_eq!((&*rows[0].0, values(&rows[0].1)), ("t", vec![Some(&b"1"[..]), None]));
    assert!(rows_by_topic(&[], 0, &options(None, ALL)).unwrap().is_empty());
}

#[test]
fn rejects_malformed_blocks() {
    let whole = Block::default().row(Some("t"), "abc").row(Some("t"), "d").0;
    let all = options(None, ALL);
    assert!(rows_by_topic(&whole, 2, &all).is_ok());
    let rejected = |block: &[u8], rows: usize| {
        let error = rows_by_topic(block, rows, &all).unwrap_err();
        assert_eq!(error.kind, "state", "{error:?}");
    };
    for rows in [0, 1, 3, usize::MAX] {
        rejected(&whole, rows);
    }
    for end in 0..whole.len() {
        rejected(&whole[..end], 2);
    }
    let before = || Block::default().bytes(Some("t")).bytes(None);
    for length in [5, i32::MAX, -2, i32::MIN] {
        // The invalid number is in turn the length of a value, a header count, and the marker before a number.
        rejected(&before().int(length).int(0).0, 1);
        rejected(&before().bytes(None).int(length).int(0).int(0).0, 1);
        rejected(&before().bytes(None).int(-1).int(length).int(0).0, 1);
    }
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let all = options(None, ALL);
    let seed = Block::default().row(Some("t"), "abc").row(Some("u"), "d").0;
    for at in 0..seed.len() {
        for byte in [0, 1, 4, 127, 128, 255] {
            let mut block = seed.clone();
            block[at] = byte;
            if let Ok(rows) = rows_by_topic(&block, 2, &all) {
                assert_eq!(rows.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>(), 2);
            }
        }
    }
}
