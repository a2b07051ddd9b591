//! What is read is written, and read as the same.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use samsarrow_values::proto::{Schema, Writer};
use samsarrow_values::{EncodeError, Encoder, Framing};

use crate::decode;
use crate::proto::{decoder, rows, shown};
use crate::proto_hostile::{EVENT, event};
use crate::random::Random;

fn encoder(schema: &str, column: &ArrayRef) -> Encoder {
    let writer = Writer::new(&Schema::parse(schema).unwrap(), None).unwrap();
    Encoder::protobuf(writer, column.data_type(), Framing::Bare, None).unwrap()
}

/// The values of rows of these values.
fn again(schema: &str, values: &[&[u8]]) -> Vec<Vec<u8>> {
    let (array, bad) = decode(&mut decoder(schema), values.iter().copied().map(Some));
    assert_eq!(bad, []);
    let written = encoder(schema, &array).encode(&array).unwrap();
    written.iter().flat_map(|array| array.iter().flatten()).map(<[u8]>::to_vec).collect()
}

#[test]
fn random_messages_come_back() {
    let mut random = Random(1);
    let values: Vec<_> = (0..500).map(|_| event(&mut random)).collect();
    let values: Vec<_> = values.iter().map(Vec::as_slice).collect();
    let written = again(EVENT, &values);
    let written: Vec<_> = written.iter().map(Vec::as_slice).collect();
    assert_eq!(rows(EVENT, &written), rows(EVENT, &values));
    // What is in its shortest form stays so.
    assert_eq!(again(EVENT, &written), written);
}

#[test]
fn lengths_of_any_size_stand_before_messages() {
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
        let written = again(schema, &[&value]);
        // An empty text is what is not there.
        if len > 0 {
            assert_eq!(written, [value], "{len}");
        }
    }
}

#[test]
fn slices_of_columns_are_written_as_they_are() {
    let mut random = Random(2);
    let values: Vec<_> = (0..40).map(|_| event(&mut random)).collect();
    let (array, _) = decode(&mut decoder(EVENT), values.iter().map(|value| Some(value.as_slice())));
    let part = array.slice(7, 20);
    let written = encoder(EVENT, &part).encode(&part).unwrap();
    let written: Vec<_> = written[0].iter().flatten().collect();
    assert_eq!(rows(EVENT, &written), shown(&part));
}

#[test]
fn frames_have_the_way_to_the_message() {
    let schema =
        Schema::parse("syntax = 'proto3'; message A {} message B { message C {} message D { int32 x = 1; } }").unwrap();
    let (array, _) = decode(&mut decoder("syntax = 'proto3'; message D { int32 x = 1; }"), [Some(&b"\x08\x01"[..])]);
    let writer = Writer::new(&schema, Some("D")).unwrap();
    let made = |id| Encoder::protobuf(writer.clone(), array.data_type(), Framing::Auto, id);
    let written = made(Some(7)).unwrap().encode(&array).unwrap();
    assert_eq!(written[0].value(0), b"\0\0\0\0\x07\x04\x02\x02\x08\x01");
    assert_eq!(made(None).unwrap_err().to_string(), "the framing has the schema's id, and none is known");
    let known = Writer::new(&schema, Some("google.protobuf.Empty")).unwrap_err();
    assert!(known.to_string().contains("no indexes lead to it"));
}

#[test]
fn rows_that_do_not_fit_say_where() {
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
