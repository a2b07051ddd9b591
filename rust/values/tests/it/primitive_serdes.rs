//! Values in the formats of Kafka's own serializers.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use samsarrow_values::Decoder;
use samsarrow_values::primitive_serdes::Plain;

use crate::{decode, push};

fn decode_one(name: &str, value: &[u8]) -> ArrayRef {
    let (array, bad) = decode(&mut Decoder::plain(Plain::from_name(name).unwrap()), [Some(value), None]);
    assert_eq!((bad.len(), array.len(), array.is_null(1)), (0, 2, true));
    array
}

#[test]
fn decodes_big_endian() {
    assert_eq!(decode_one("short", &[0xff, 0xfe]).as_primitive::<Int16Type>().value(0), -2);
    assert_eq!(decode_one("int", &[0, 0, 1, 2]).as_primitive::<Int32Type>().value(0), 258);
    assert_eq!(decode_one("long", &[0x80, 0, 0, 0, 0, 0, 0, 0]).as_primitive::<Int64Type>().value(0), i64::MIN);
    assert_eq!(decode_one("float", &1.5_f32.to_be_bytes()).as_primitive::<Float32Type>().value(0), 1.5);
    assert_eq!(decode_one("double", &(-2.5_f64).to_be_bytes()).as_primitive::<Float64Type>().value(0), -2.5);
    assert!(decode_one("boolean", &[1]).as_boolean().value(0));
    assert_eq!(decode_one("string", "Grüße".as_bytes()).as_string::<i32>().value(0), "Grüße");
    assert_eq!(decode_one("string", b"").as_string::<i32>().value(0), "");
    let uuid = "0188d1a6-b1c5-7c3e-9f45-6F0e8b1f2a3d";
    assert_eq!(decode_one("uuid", uuid.as_bytes()).as_string::<i32>().value(0), uuid);
}

#[test]
fn rejects_other_lengths_and_bytes() {
    for (name, value) in [
        ("short", &b"1"[..]),
        ("short", b""),
        ("int", b"12345"),
        ("long", b"1234"),
        ("float", b""),
        ("double", b"123456789"),
        ("boolean", b""),
        ("boolean", b"\x02"),
        ("boolean", b"\0\0"),
        ("string", b"\xff"),
        ("uuid", b""),
        ("uuid", b"0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3"),
        ("uuid", b"0188d1a6-b1c5-7c3e-9f45+6f0e8b1f2a3d"),
    ] {
        let mut decoder = Decoder::plain(Plain::from_name(name).unwrap());
        push(&mut decoder, Some(b"\0\0\0\0\0\0\0\x01")).ok();
        assert!(push(&mut decoder, Some(value)).is_err(), "{name} {value:?}");
        assert!(decoder.finish().unwrap().is_null(1));
    }
    assert_eq!(Plain::from_name("list"), None);
}
