//! Round trips of encoded and decoded Protobuf messages.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray, TimestampNanosecondArray, TimestampSecondArray};
use arrow_schema::Field;
use samsarrow_values::proto::{Schema, Writer};
use samsarrow_values::{Decoder, EncodeError, Encoder, Framing, Options, SchemaId};

use crate::proto::{decoder, rows, shown};
use crate::proto_hostile::{EVENT, event};
use crate::random::Random;
use crate::{bare, decode};

fn encoder(schema: &str, column: &ArrayRef) -> Encoder {
    let writer = Writer::new(&Schema::parse(schema).unwrap(), None).unwrap();
    Encoder::protobuf(writer, column.data_type(), Framing::Bare, None).unwrap()
}

/// Decodes the values, and encodes the resulting rows again.
fn round_trip(schema: &str, values: &[&[u8]]) -> Vec<Vec<u8>> {
    let (array, bad) = decode(&mut decoder(schema), values.iter().copied().map(Some));
    assert_eq!(bad, []);
    let written = encoder(schema, &array).encode(&array).unwrap();
    written.iter().flat_map(|array| array.iter().flatten()).map(<[u8]>::to_vec).collect()
}

#[test]
fn random_messages_round_trip() {
    let mut random = Random(1);
    let values: Vec<_> = (0..500).map(|_| event(&mut random)).collect();
    let values: Vec<_> = values.iter().map(Vec::as_slice).collect();
    let written = round_trip(EVENT, &values);
    let written: Vec<_> = written.iter().map(Vec::as_slice).collect();
    assert_eq!(rows(EVENT, &written), rows(EVENT, &values));
    // Values that are already in the shortest form are reproduced exactly.
    assert_eq!(round_trip(EVENT, &written), written);
}

#[test]
fn writes_length_prefixes_of_all_sizes() {
    let schema =
        "syntax = 'proto3'; message M { N n = 1; message N { string s = 1; N2 m = 2; } message N2 { bytes b = 1; } }";
    for len in [0_usize, 1, 120, 125, 126, 127, 128, 129, 16_380, 16_383, 16_384, 16_385, 2_097_152] {
        let mut value = Vec::new();
        for tag in [0x0a, 0x12, 0x0a] {
            let mut outer = vec![tag];
            let mut left = if value.is_empty() { len } else { value.len() };
            while left >= 128 {
                outer.push(left as u8 | 128);
                left >>= 7;
            }
            outer.push(left as u8);
            if value.is_empty() {
                outer.resize(outer.len() + len, 7)
            } else {
                outer.extend_from_slice(&value)
            }
            value = outer;
        }
        let written = round_trip(schema, &[&value]);
        // The default of bytes is empty, so an empty field is not written.
        if len > 0 {
            assert_eq!(written, [value], "{len}");
        }
    }
}

#[test]
fn map_values_are_length_prefixed() {
    let schema = "edition = '2023'; option features.message_encoding = DELIMITED; \
                  message M { map<string, V> m = 1; V v = 2; repeated V l = 3; } message V { int32 x = 1; }";
    // Google's Protobuf library wrote these bytes for m {k: x 7}, v {x: 7}, l [{x: 1}].
    let value = b"\x0a\x07\x0a\x01k\x12\x02\x08\x07\x13\x08\x07\x14\x1b\x08\x01\x1c";
    assert_eq!(round_trip(schema, &[value]), [value]);
}

#[test]
fn rejects_delimited_well_known_types() {
    let schema = "edition = '2023'; import 'google/protobuf/timestamp.proto'; \
                  message M { google.protobuf.Timestamp t = 1 [features.message_encoding = DELIMITED]; int32 x = 2; }";
    let parsed = Schema::parse(schema).unwrap();
    let error = Decoder::protobuf(&parsed, None, false, &bare()).unwrap_err().to_string();
    assert!(error.starts_with("field t: google.protobuf.Timestamp is delimited here"), "{error}");
    let options = Options { fields: Some(vec!["x".to_owned()]), ..bare() };
    assert!(Decoder::protobuf(&parsed, None, false, &options).is_ok());
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1]).with_timezone("UTC"));
    let rows = StructArray::from(vec![(Arc::new(Field::new("t", times.data_type().clone(), true)), times)]);
    let writer = Writer::new(&parsed, None).unwrap();
    let error = Encoder::protobuf(writer, rows.data_type(), Framing::Bare, None).unwrap_err().to_string();
    assert!(error.starts_with("field t: google.protobuf.Timestamp is delimited here"), "{error}");
}

#[test]
fn round_trips_at_the_expansion_depth() {
    let schema = Schema::parse(
        "syntax = 'proto3'; message M { int32 v = 1; M m = 2; repeated M l = 3; map<string, M> k = 4; oneof o { M p = 5; } }",
    )
    .unwrap();
    let options = Options { recursion: 1, ..bare() };
    let mut decoder = Decoder::protobuf(&schema, None, false, &options).unwrap();
    let values: [&[u8]; 5] = [
        b"",
        b"\x08\x01\x12\x02\x08\x02",
        b"\x1a\x02\x08\x02\x1a\x00",
        b"\x22\x07\x0a\x01k\x12\x02\x08\x02",
        b"\x2a\x00",
    ];
    let (array, bad) = decode(&mut decoder, values.map(Some));
    assert_eq!(bad, []);
    let writer = Writer::new(&schema, None).unwrap();
    let encoder = Encoder::protobuf(writer, array.data_type(), Framing::Bare, None).unwrap();
    assert_eq!(encoder.encode(&array).unwrap()[0].iter().flatten().collect::<Vec<_>>(), values);
}

#[test]
fn writes_timestamps_with_time_zone_in_all_units() {
    let schema =
        "syntax = 'proto3'; import 'google/protobuf/timestamp.proto'; message M { google.protobuf.Timestamp t = 1; }";
    let of = |column: ArrayRef| -> ArrayRef {
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("t", column.data_type().clone(), true)), column)]))
    };
    let nanos = of(Arc::new(TimestampNanosecondArray::from(vec![-1]).with_timezone("UTC")));
    // -1 ns is written as -1 second and 999,999,999 nanoseconds, so that no digit is lost.
    let expected = [&[0x0a, 17, 0x08][..], &[0xff; 9], &[1, 0x10, 0xff, 0x93, 0xeb, 0xdc, 0x03]].concat();
    assert_eq!(encoder(schema, &nanos).encode(&nanos).unwrap()[0].value(0), expected);
    let seconds = of(Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("+02:00")));
    let expected = [&[0x0a, 10, 0x08][..], &[0xff; 8], &[0x7f]].concat();
    assert_eq!(encoder(schema, &seconds).encode(&seconds).unwrap()[0].value(0), expected);
    let naive = of(Arc::new(TimestampNanosecondArray::from(vec![0])));
    let writer = Writer::new(&Schema::parse(schema).unwrap(), None).unwrap();
    let error = Encoder::protobuf(writer, naive.data_type(), Framing::Bare, None).unwrap_err().to_string();
    assert!(
        error.ends_with("as google.protobuf.Timestamp: it has no time zone, so cast it to one that has"),
        "{error}"
    );
}

#[test]
fn encodes_sliced_columns() {
    let mut random = Random(2);
    let values: Vec<_> = (0..40).map(|_| event(&mut random)).collect();
    let (array, _) = decode(&mut decoder(EVENT), values.iter().map(|value| Some(value.as_slice())));
    let part = array.slice(7, 20);
    let written = encoder(EVENT, &part).encode(&part).unwrap();
    let written: Vec<_> = written[0].iter().flatten().collect();
    assert_eq!(rows(EVENT, &written), shown(&part));
}

#[test]
fn writes_message_indexes() {
    let schema =
        Schema::parse("syntax = 'proto3'; message A {} message B { message C {} message D { int32 x = 1; } }").unwrap();
    let (array, _) = decode(&mut decoder("syntax = 'proto3'; message D { int32 x = 1; }"), [Some(&b"\x08\x01"[..])]);
    let writer = Writer::new(&schema, Some("D")).unwrap();
    let made = |id| Encoder::protobuf(writer.clone(), array.data_type(), Framing::Auto, id);
    let written = made(Some(SchemaId::Id(7))).unwrap().encode(&array).unwrap();
    assert_eq!(written[0].value(0), b"\0\0\0\0\x07\x04\x02\x02\x08\x01");
    assert_eq!(made(None).unwrap_err().to_string(), "the framing has the schema's id, and none is known");
    let known = Writer::new(&schema, Some("google.protobuf.Empty")).unwrap_err();
    assert!(known.to_string().contains("no indexes lead to it"));
}

#[test]
fn glue_frames_have_index_in_sorted_names() {
    let text = "syntax = 'proto3'; package shop; import 'other.proto'; message B { map<string, int32> item_counts = 1; \
                message C {} message A { message D { int32 x = 1; } } } message Z {}";
    let schema = Schema::parse_with(text, &["syntax = 'proto3'; package shop; message Aa {}".to_owned()]).unwrap();
    let version = SchemaId::Guid([9; 16]);
    let options = Options { framing: Framing::Glue, ..Options::default() };
    // The names are shop.B, shop.B.A, shop.B.A.D, shop.B.C, shop.B.ItemCountsEntry and shop.Z.
    for (message, index) in [("shop.B", 0), ("shop.B.A", 1), ("shop.B.A.D", 2), ("shop.B.C", 3), ("shop.Z", 5)] {
        let mut decoder = Decoder::protobuf(&schema, Some(message), false, &options).unwrap();
        decoder.add_protobuf_writer(version, &schema);
        let writer = Writer::new(&schema, Some(message)).unwrap();
        let encoder = Encoder::protobuf(writer, decoder.data_type(), Framing::Glue, Some(version)).unwrap();
        let frame = [&[3, 0][..], &[9; 16], &[index]].concat();
        assert_eq!(decoder.push(Some(&frame), None), Ok(()));
        assert!(decoder.push(Some(&[&frame[..18], &[4]].concat()), None).is_err(), "an entry is no message to read");
        assert!(decoder.push(Some(&frame[..18]), None).unwrap_err().to_string().contains("no index of the message"));
        let rows = decoder.finish().unwrap();
        let values = encoder.encode(&rows.slice(0, 1)).unwrap();
        assert_eq!(values[0].value(0), frame, "{message}");
    }
}

#[test]
fn errors_name_row_and_field() {
    let schema =
        "syntax = 'proto3'; message M { repeated N n = 1; message N { optional int32 x = 1; optional int32 y = 2; } }";
    let one_of =
        "syntax = 'proto3'; message M { repeated N n = 1; message N { oneof o { int32 x = 1; int32 y = 2; } } }";
    let (array, _) = decode(&mut decoder(schema), [Some(&b"\x0a\x02\x08\x01\x0a\x04\x08\x01\x10\x02"[..])]);
    assert_eq!(array.as_struct().len(), 1);
    match encoder(one_of, &array).encode(&array) {
        Err(EncodeError::Bad(bad)) => {
            assert_eq!((&*bad.path, &*bad.reason), ("n[1]", "x and y are set, of which one may be"));
        }
        other => panic!("{other:?}"),
    }
}
