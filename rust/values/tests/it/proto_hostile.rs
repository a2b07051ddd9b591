//! Malicious Protobuf messages, which must not affect other rows.

use arrow_array::Array;
use samsarrow_values::proto::Schema;
use samsarrow_values::{Decoder, Framing, Options};

use crate::proto::{decode_error, decoder, rows, shown};
use crate::random::Random;
use crate::{bare, decode, push};

pub(crate) const EVENT: &str = r#"syntax = "proto3"; message M { int64 id = 1; string user = 2; double amount = 3; optional string note = 4;
    repeated N items = 5; map<string, N> map = 6; N one = 7; oneof o { int32 x = 8; N y = 9; } repeated sint32 packed = 10;
    google.protobuf.Timestamp at = 11; google.protobuf.Struct any = 12; google.protobuf.StringValue text = 13; E kind = 200;
    enum E { A = 0; B = 1; } message N { int32 p = 1; repeated string q = 2; map<int32, bytes> r = 3; fixed32 s = 4; } }"#;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn sized(number: u64, body: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

fn inner(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(4) {
        match random.below(4) {
            0 => {
                out.push(8);
                varint(random.next() >> random.below(64), &mut out);
            }
            1 => sized(2, &b"ab"[..random.below(3)], &mut out),
            2 => sized(3, &[8, random.below(3) as u8, 18, 1, 255], &mut out),
            _ => out.extend_from_slice(&[0x25, 1, 2, 3, 4]),
        }
    }
    out
}

/// Returns a valid message whose fields are repeated and in any order.
pub(crate) fn event(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(13) {
            0 => out.extend_from_slice(&[8, 42]),
            1 => sized(2, b"some name", &mut out),
            2 => out.extend_from_slice(&[0x19, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            3 => sized(4, b"note", &mut out),
            4 => sized(5, &inner(random), &mut out),
            5 => {
                let mut entry = vec![10, 1, b'a' + random.below(3) as u8];
                sized(2, &inner(random), &mut entry);
                sized(6, &entry, &mut out);
            }
            6 => sized(7, &inner(random), &mut out),
            7 => out.extend_from_slice(&[0x40, 7]),
            8 => sized(9, &inner(random), &mut out),
            9 => sized(10, &[1, 2, 3, 0x80, 1], &mut out),
            10 => sized(11, &[8, 1, 16, 9], &mut out),
            11 => sized(12, b"\x0a\x09\x0a\x01k\x12\x04\x1a\x02\xc3\xbc", &mut out),
            _ => out.extend_from_slice(&[0xc0, 0x0c, 1]),
        }
    }
    out
}

#[test]
fn bad_messages_do_not_affect_other_rows() {
    let mut decoder = decoder(EVENT);
    for seed in 0..40 {
        let mut random = Random(seed);
        let values: Vec<_> = (0..5).map(|_| event(&mut random)).collect();
        let (all, bad) = decode(&mut decoder, values.iter().map(|value| Some(value.as_slice())));
        assert_eq!(bad, []);
        let all = shown(&all);
        let at = random.below(values.len());
        let mut others: Vec<Vec<u8>> = (0..values[at].len()).map(|cut| values[at][..cut].to_vec()).collect();
        for _ in 0..20 {
            let mut changed = values[at].clone();
            for _ in 0..1 + random.below(3) {
                let place = random.below(changed.len().max(1));
                changed.get_mut(place).into_iter().for_each(|byte| *byte = random.next() as u8);
            }
            others.push(changed);
        }
        for other in &others {
            let alone = decode(&mut decoder, [Some(other.as_slice())]);
            let rows = values.iter().enumerate().map(|(row, value)| Some(if row == at { &**other } else { &**value }));
            let (got, bad) = decode(&mut decoder, rows);
            let got = shown(&got);
            for (row, expected) in all.iter().enumerate() {
                let expected = if row == at { &shown(&alone.0)[0] } else { expected };
                assert_eq!(&got[row], expected, "{seed}");
            }
            assert_eq!(bad.len(), alone.1.len());
            assert!(bad.iter().all(|bad| bad.row == at && got[at] == "null"));
        }
    }
}

#[test]
fn rejects_lengths_beyond_the_input() {
    let reason = |value: &[u8]| decode_error(EVENT, value);
    assert_eq!(reason(b"\x12\x05ab"), ("user".into(), "5 bytes are announced, and 2 are there".into()));
    assert_eq!(
        reason(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").1,
        format!("{} bytes are announced, and 0 are there", i64::MAX)
    );
    assert_eq!(reason(b"\x12\x02\xc3\x28"), ("user".into(), "the text is not UTF-8".into()));
    assert_eq!(reason(b"\x2a\x03\x12\x01\xff"), ("items[0].q[0]".into(), "the text is not UTF-8".into()));
    assert_eq!(reason(b"\x2a\0\x2a\x02\x0d\x01").0, "items[1]");
    assert_eq!(reason(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").1, "a number has more bits than its type");
    assert_eq!(reason(b"\x08\xff").1, "the value ends too early");
    assert_eq!(reason(b"\0\x01").1, "there is no field 0");
    assert_eq!(reason(b"\x80\x80\x80\x80\x80\x01\x01").1, "there is no field 4294967296");
    assert_eq!(reason(b"\x0e").1, "field 1 has wire type 6, which does not exist");
    assert_eq!(reason(b"\x0c").1, "group 1 ends, and none has begun");
    assert_eq!(reason(b"\x0b\x08\x01").1, "the value ends too early");
    assert_eq!(reason(b"\x0b\x14").1, "group 2 ends within group 1");
    assert_eq!(reason(&[0x0b].repeat(101)).1, "messages or groups are nested more than 100 deep");
    assert_eq!(reason(&[&[0x0b].repeat(100)[..], b"\x08"].concat()).1, "the value ends too early");
}

#[test]
fn bounds_json_depth() {
    let schema = "syntax = 'proto3'; message M { google.protobuf.Value v = 1; }";
    let mut value = vec![0x20, 1];
    for _ in 0..40 {
        let mut list = Vec::new();
        sized(1, &value, &mut list);
        value.clear();
        sized(6, &list, &mut value);
    }
    let mut good = Vec::new();
    sized(1, &value, &mut good);
    assert!(rows(schema, &[&good])[0].contains("[true]"));
    for _ in 0..40 {
        let mut list = Vec::new();
        sized(1, &value, &mut list);
        value.clear();
        sized(6, &list, &mut value);
    }
    let mut deep = Vec::new();
    sized(1, &value, &mut deep);
    assert_eq!(decode_error(schema, &deep).1, "messages or groups are nested more than 100 deep");
}

#[test]
fn merges_nested_duplicates_in_linear_time() {
    // If merging each level required another pass over all deeper levels, this would take 2⁴⁰ passes.
    let depth = 40;
    let types = (0..depth).map(|at| format!("message M{at} {{ M{} m = 1; }}", at + 1)).collect::<String>();
    let schema = format!("syntax = 'proto3'; {types} message M{depth} {{ int32 x = 1; }}");
    let mut value = b"\x08\x07".to_vec();
    for _ in 0..depth {
        let mut outer = Vec::new();
        sized(1, &value, &mut outer);
        sized(1, b"", &mut outer);
        value = outer;
    }
    let start = std::time::Instant::now();
    assert!(rows(&schema, &[&value])[0].contains(r#"{"x":7}"#));
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn bounds_decoded_item_size() {
    let fields = (1..2000).map(|at| format!("int64 f{at} = {at};")).collect::<String>();
    let schema = format!("syntax = 'proto3'; message M {{ repeated N n = 1; message N {{ {fields} }} }}");
    let reason = decode_error(&schema, &b"\x0a\0".repeat(1 << 16)).1;
    assert!(reason.starts_with("it would decode to more than"), "{reason}");
    let name = "X".repeat(10_000);
    let schema = format!("syntax = 'proto3'; message M {{ repeated E e = 1; enum E {{ {name} = 0; }} }}");
    let mut packed = Vec::new();
    sized(1, &vec![0; 1 << 16], &mut packed);
    assert!(decode_error(&schema, &packed).1.starts_with("it would decode to more than"));
}

#[test]
fn tracks_presence_beyond_64_fields() {
    let fields =
        (1..=200).map(|at| format!("optional int32 f{at} = {at}; N n{at} = {};", at + 1000)).collect::<String>();
    let schema = format!("syntax = 'proto3'; message M {{ {fields} }} message N {{ int32 x = 1; }}");
    let mut value = Vec::new();
    for at in [200_u64, 1, 63, 64, 65, 128, 129, 130] {
        varint(at << 3, &mut value);
        varint(at, &mut value);
    }
    sized(1150, b"\x08\x01", &mut value);
    let mut again = value.clone();
    sized(1150, b"", &mut again);
    varint(64 << 3, &mut again);
    varint(5, &mut again);
    let got = rows(&schema, &[&value, &again]);
    for part in [r#""f200":200"#, r#""f64":64"#, r#""f2":null"#, r#""n150":{"x":1}"#, r#""n151":null"#] {
        assert!(got[0].contains(part), "{part}");
    }
    assert!(got[1].contains(r#""f64":5"#) && got[1].contains(r#""n150":{"x":1}"#));
}

#[test]
fn random_frames_do_not_panic() {
    let schema = Schema::parse(EVENT).unwrap();
    let options = Options { framing: Framing::Auto, ..bare() };
    let mut decoder = Decoder::protobuf(&schema, None, false, &options).unwrap();
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut value: Vec<u8> = (0..random.below(24)).map(|_| (random.next() >> random.below(64)) as u8).collect();
        if random.below(2) == 0 {
            value.splice(0..0, [0, 0, 0, 0, 1, 0]);
        }
        drop(push(&mut decoder, Some(&value)));
    }
    assert_eq!(decoder.finish().unwrap().len(), 20_000);
}

#[test]
fn random_schemas_do_not_panic() {
    let mut random = Random(8);
    for _ in 0..2_000 {
        let mut text = EVENT.as_bytes().to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(text.len());
            match random.below(3) {
                0 if text.len() > 1 => drop(text.remove(at)),
                1 => text[at] = b"{}[]()<>;=.,'\"/*\\ 0aM"[random.below(21)],
                _ => text.truncate(at.max(1)),
            }
        }
        if let Ok(schema) = Schema::parse(&String::from_utf8_lossy(&text)) {
            drop(Decoder::protobuf(&schema, None, false, &bare()));
        }
        let bytes: Vec<u8> = (0..random.below(60)).map(|_| (random.next() >> random.below(64)) as u8).collect();
        drop(Schema::from_descriptors(&bytes));
    }
}
