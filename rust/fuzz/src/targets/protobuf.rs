//! Protobuf messages, and the `.proto` files that declare them.
use samsarrow_values::proto::Schema;
use samsarrow_values::{Decoder, Enums, Framing, Options};

use super::broken;
use super::values::{MAX_ROWS, MAX_ROWS_OF_ANY, decode, part, rows};

/// `.proto` files of the target `protobuf`, with the fields to select in a projection.
pub(crate) const FILES: &[(&str, &[&str])] = &[
    (
        r#"syntax = "proto3"; message M { int64 a = 1; string b = 2; double c = 3; optional bytes d = 4; E e = 5; bool f = 6;
            repeated N g = 7; map<string, N> h = 8; oneof o { int32 i = 9; N j = 10; string k = 11; } N l = 12;
            repeated sint32 m = 13; repeated E n = 14; map<int64, double> o2 = 15; fixed32 p = 16; sfixed64 q = 3000;
            enum E { X = 0; YY = 1; Z = -3; } message N { int32 a = 1; repeated string b = 2; map<bool, N2> c = 3; }
            message N2 { float x = 1; N3 y = 2; } message N3 { repeated fixed64 z = 1; } }"#,
        &["i", "g.b", "h.c.x", "n"],
    ),
    (
        r#"syntax = "proto3"; message M { google.protobuf.Timestamp a = 1; google.protobuf.Duration b = 2;
            google.protobuf.Struct c = 3; google.protobuf.Value d = 4; repeated google.protobuf.ListValue e = 5;
            google.protobuf.Int64Value f = 6; repeated google.protobuf.StringValue g = 7; google.protobuf.Any h = 8;
            map<uint32, google.protobuf.Timestamp> i = 9; oneof o { google.protobuf.BytesValue j = 10; sint64 k = 11; } }"#,
        &["a", "k"],
    ),
    (
        r#"message M { required int32 a = 1; optional string b = 2 [default = "text"]; optional group G = 3 { repeated group H = 1 {
            optional E e = 1 [default = Y]; } optional M2 m = 2; } repeated int64 p = 4 [packed = true]; enum E { X = 1; Y = 9; } }
            message M2 { optional uint64 u = 1; optional M3 m = 2; } message M3 { repeated float f = 1; }"#,
        &["b", "g.m"],
    ),
];

/// Input: a byte with the index of a file and flags, then the values. Flags: 32 for values with a framing (Apicurio's
/// if 16 is set), 64 for enums as dictionaries, 128 for a projection.
pub(super) fn values(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some((text, some)) = FILES.get(usize::from(flags & 15) % FILES.len()) else { return };
    let schema = Schema::parse(text).unwrap_or_else(|error| broken(&format!("{text}: {error}")));
    let fields = (flags & 128 != 0).then(|| some.iter().map(|name| (*name).to_owned()).collect());
    let options = Options { fields, ..options(flags) };
    let make = || {
        Decoder::protobuf(&schema, None, false, &options).unwrap_or_else(|error| broken(&format!("{text}: {error}")))
    };
    decode(make, &rows(&mut rest, MAX_ROWS));
}

/// Input: a byte of flags, the length of a file in two bytes, the file, and the values. With flag 1 the file contains
/// descriptors; the other flags are those of [`values`].
pub(super) fn schema(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some(file) = part(&mut rest) else { return };
    let schema = match flags & 1 {
        0 => Schema::parse(&String::from_utf8_lossy(file)),
        _ => Schema::from_descriptors(file),
    };
    let Ok(schema) = schema else { return };
    let options = options(flags);
    if Decoder::protobuf(&schema, None, false, &options).is_ok() {
        let make =
            || Decoder::protobuf(&schema, None, false, &options).unwrap_or_else(|error| broken(&error.to_string()));
        decode(make, &rows(&mut rest, MAX_ROWS_OF_ANY));
    }
}

fn options(flags: u8) -> Options {
    let enums = if flags & 64 == 0 { Enums::Strings } else { Enums::Dictionary };
    let framing = match (flags & 32, flags & 16) {
        (0, _) => Framing::Bare,
        (_, 0) => Framing::Auto,
        _ => Framing::Apicurio,
    };
    Options { framing, enums, fields: None, recursion: 2 }
}
