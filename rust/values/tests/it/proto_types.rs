//! Types of Protobuf fields, and handling of repeated and absent fields.

use samsarrow_values::proto::Schema;
use samsarrow_values::{Decoder, Enums, Framing, Options, SchemaId};

use crate::proto::{decode_error, decoder, rows, shown};
use crate::{bare, decode, push};

fn error(schema: &str, message: Option<&str>, fields: Option<&[&str]>) -> String {
    let fields = fields.map(|fields| fields.iter().map(|&field| field.to_owned()).collect());
    let made = Schema::parse(schema)
        .and_then(|schema| Decoder::protobuf(&schema, message, false, &Options { fields, ..bare() }).map(|_| ()));
    made.unwrap_err().to_string()
}

const SCALARS: &str = r#"syntax = "proto3"; message M {
    double a = 1; int32 b = 2; sint32 c = 3; uint32 d = 4; fixed64 e = 5; sint64 f = 6; bool g = 7; string h = 8;
    bytes i = 9; E j = 10; enum E { ZERO = 0; ONE = 1; FAR = -5; } float k = 16; sfixed32 l = 2048; }"#;

#[test]
fn decodes_scalars() {
    let full = [
        &b"\x09\0\0\0\0\0\0\xf8\x3f\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\x03\x20\xff\xff\xff\xff\x0f"[..],
        b"\x29\xff\xff\xff\xff\xff\xff\xff\xff\x30\x01\x38\x80\x02\x42\x03abc\x4a\x01\xff",
        b"\x50\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01\x85\x01\0\0\0\xc0\x85\x80\x01\xff\xff\xff\xff",
    ];
    let expected = [
        r#"{"a":1.5,"b":-1,"c":-2,"d":4294967295,"e":18446744073709551615,"f":-1,"g":true,"h":"abc","i":[255],"j":"FAR","k":-2.0,"l":-1}"#,
        r#"{"a":0.0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":false,"h":"","i":[],"j":"ZERO","k":0.0,"l":0}"#,
        r#"{"a":0.0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":false,"h":"","i":[],"j":"77","k":0.0,"l":0}"#,
    ];
    assert_eq!(rows(SCALARS, &[&full.concat(), b"", b"\x50\x4d"]), expected);
    let kind = decoder(SCALARS).data_type().to_string();
    assert!(!kind.replace("non-null", "").contains("null"), "{kind}");
}

#[test]
fn last_scalar_wins_and_messages_merge() {
    let schema = r#"syntax = "proto3"; message M { int32 a = 1; N n = 2; repeated int32 r = 3; map<string, N> m = 4;
        oneof o { int32 x = 5; N y = 6; string z = 7; }
        message N { int32 p = 1; repeated int32 q = 2; } }"#;
    let values: [&[u8]; 5] = [
        b"\x18\x07\x12\x04\x08\x01\x10\x01\x08\x01\x1a\x02\x08\x09\x12\x04\x10\x02\x08\x03\x08\x05",
        // The map contains the key `k` twice. In the second entry, the value precedes the key and consists of two
        // pieces.
        b"\x22\x07\x0a\x01k\x12\x02\x08\x01\x22\x03\x0a\x01l\x22\x0b\x12\x02\x10\x05\x12\x02\x08\x06\x0a\x01k",
        b"\x28\x01\x3a\x01s\x32\x02\x08\x01",
        b"\x32\x02\x08\x01\x32\x02\x10\x04",
        b"\x32\x02\x08\x01\x28\x01\x32\x02\x10\x04",
    ];
    let nothing = r#""a":0,"m":[],"n":null,"r":[],"x":null,"#;
    let expected = [
        r#"{"a":5,"m":[],"n":{"p":3,"q":[1,2]},"r":[7,8,9],"x":null,"y":null,"z":null}"#.to_owned(),
        r#"{"a":0,"m":[["l",{"p":0,"q":[]}],["k",{"p":6,"q":[5]}]],"n":null,"r":[],"x":null,"y":null,"z":null}"#.into(),
        format!(r#"{{{nothing}"y":{{"p":1,"q":[]}},"z":null}}"#),
        format!(r#"{{{nothing}"y":{{"p":1,"q":[4]}},"z":null}}"#),
        format!(r#"{{{nothing}"y":{{"p":0,"q":[4]}},"z":null}}"#),
    ];
    assert_eq!(rows(schema, &values), expected);
}

#[test]
fn presence_separates_null_from_default() {
    let proto3 = r#"syntax = "proto3"; message M { optional int32 a = 1; int32 b = 2; M2 c = 3; } message M2 {}"#;
    assert_eq!(rows(proto3, &[b"", b"\x08\0\x1a\0"]), [r#"{"a":null,"b":0,"c":null}"#, r#"{"a":0,"b":0,"c":{}}"#]);
    let proto2 = r#"message M { optional int32 a = 1; optional int32 b = 2 [default = -7]; required bool c = 3;
        optional E d = 4 [default = Y]; optional bytes e = 5 [default = "\001\xff"]; optional double f = 6 [default = -inf];
        optional E g = 7; repeated int32 h = 8 [packed = true]; enum E { X = 1; Y = 2; } }"#;
    let expected = r#"{"a":null,"b":-7,"c":true,"d":"Y","e":[1,255],"f":null,"g":null,"h":[]}"#;
    // The test shows infinity as null, because JSON has no infinity.
    assert_eq!(rows(proto2, &[b"\x18\x01"]), [expected]);
    assert_eq!(decode_error(proto2, b""), ("c".into(), "the field is required, and not there".into()));
    let editions = r#"edition = "2023"; option features.field_presence = IMPLICIT; message M { int32 a = 1;
        int32 b = 2 [features.field_presence = EXPLICIT]; int32 c = 3 [features = { field_presence: LEGACY_REQUIRED }];
        N n = 4 [features.message_encoding = DELIMITED]; message N { int32 x = 1; } }"#;
    assert_eq!(rows(editions, &[b"\x18\x05\x23\x08\x09\x24"]), [r#"{"a":0,"b":null,"c":5,"n":{"x":9}}"#]);
    assert_eq!(decode_error(editions, b"").0, "c");
}

#[test]
fn reads_packed_and_unpacked_lists() {
    let schema = r#"syntax = "proto3"; message M { repeated int32 a = 1; repeated double b = 2 [packed = false];
        repeated E c = 3; enum E { X = 0; LONG_NAME = 300; } repeated string d = 4; }"#;
    let value = b"\x08\x01\x22\x01s\x0a\x03\x02\xac\x02\x12\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40\x08\x03\x1a\x03\0\xac\x02\x22\0\x18\x07";
    let expected = r#"{"a":[1,2,300,3],"b":[1.0,2.0],"c":["X","LONG_NAME","7"],"d":["s",""]}"#;
    assert_eq!(rows(schema, &[value]), [expected]);
    assert_eq!(decode_error(schema, b"\x08\x01\x0a\x02\x01\xff"), ("a[2]".into(), "the value ends too early".into()));
    assert_eq!(decode_error(schema, b"\x22\x01s\x22\x01\xff").0, "d[1]");
}

#[test]
fn fields_with_other_wire_types_are_unknown() {
    let schema = r#"syntax = "proto3"; message M { int32 a = 1; string b = 2; }"#;
    assert_eq!(rows(schema, &[b"\x0d\x01\x02\x03\x04\x10\x05\x9b\x06\x08\x01\x9c\x06"]), [r#"{"a":0,"b":""}"#]);
}

#[test]
fn converts_well_known_types() {
    let schema = r#"syntax = "proto3"; import "google/protobuf/timestamp.proto"; package p;
        message M { google.protobuf.Timestamp a = 1; google.protobuf.Duration b = 2; google.protobuf.Int32Value c = 3;
        google.protobuf.Struct d = 4; google.protobuf.Any e = 5; repeated google.protobuf.StringValue f = 6;
        map<int32, google.protobuf.Timestamp> g = 7; google.type.Date h = 8; }"#;
    let null = r#"{"a":null,"b":null,"c":null,"d":null,"e":null,"f":[],"g":[],"h":null}"#;
    let value = [
        &b"\x0a\x05\x08\x01\x10\xd0\x0f\x12\x0d\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\0\x1a\0"[..],
        b"\x22\x1c\x0a\x09\x0a\x01k\x12\x04\x1a\x02\xc3\xbc\x0a\x0f\x0a\x01l\x12\x0a\x32\x08\x0a\x02\x20\x01\x0a\x02\x08\0",
        b"\x2a\x05\x0a\x03a/b\x32\0\x32\x03\x0a\x01s\x3a\x02\x08\x07\x42\x02\x08\x03",
    ];
    let expected = r#"{"a":1000002,"b":-1000000,"c":0,"d":"{\"k\":\"ü\",\"l\":[true,null]}","e":{"type_url":"a/b","value":[]},"f":["","s"],"g":[[7,0]],"h":{"day":0,"month":0,"year":3}}"#;
    assert_eq!(rows(schema, &[b"", &value.concat()]), [null, expected]);
    let reason = |value: &[u8]| decode_error(schema, value);
    assert_eq!(
        reason(b"\x0a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("a".into(), "a timestamp has -1 nanoseconds".into())
    );
    assert!(reason(b"\x0a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f").1.contains("out of the range"));
    assert!(reason(b"\x12\x04\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").1.len() > 10);
}

#[test]
fn decodes_enums_as_text_or_dictionary() {
    let schema = r#"syntax = "proto3"; message M { E e = 1; repeated E l = 2;
        enum E { option allow_alias = true; A = 0; B = 5; C = 5; D = -1 [deprecated = true]; } }"#;
    let value = b"\x08\x05\x12\x0b\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(rows(schema, &[value]), [r#"{"e":"B","l":["A","D"]}"#]);
    let options = Options { enums: Enums::Dictionary, ..bare() };
    let mut decoder = Decoder::protobuf(&Schema::parse(schema).unwrap(), None, false, &options).unwrap();
    let (array, bad) = decode(&mut decoder, [Some(&value[..]), Some(&b"\x08\x09"[..])]);
    assert_eq!(shown(&array), [r#"{"e":"B","l":["A","D"]}"#, "null"]);
    assert_eq!((&*bad[0].path, &*bad[0].reason), ("e", "the enum has no value 9"));
}

#[test]
fn unread_oneof_members_unset_read_ones() {
    let schema = r#"syntax = "proto3"; message M { oneof o { int32 a = 1; string b = 2; } N n = 3; repeated N l = 4; M again = 5;
        message N { int32 x = 1; int32 y = 2; } }"#;
    assert!(error(schema, None, None).starts_with("field again: M contains itself"));
    let fields = Some(["a", "n.y", "l.x"].map(str::to_owned).to_vec());
    let options = Options { fields, ..bare() };
    let mut decoder = Decoder::protobuf(&Schema::parse(schema).unwrap(), None, false, &options).unwrap();
    let values: [&[u8]; 2] = [b"\x08\x01\x1a\x04\x08\x01\x10\x02\x22\x02\x08\x03\x2a\0", b"\x08\x01\x12\x01s"];
    let (array, bad) = decode(&mut decoder, values.map(Some));
    assert_eq!(bad, []);
    assert_eq!(shown(&array), [r#"{"a":1,"l":[{"x":3}],"n":{"y":2}}"#, r#"{"a":null,"l":[],"n":null}"#]);
    assert_eq!(error(schema, None, Some(&["n.z"])), "field n.z: there is no such field; there are x, y");
    assert_eq!(error(schema, None, Some(&["b.z"])), "field b: string has no fields");
}

#[test]
fn resolves_messages_by_name_and_indexes() {
    let schema = r#"syntax = "proto3"; package p.q; message A { int32 x = 1; map<int32, string> m = 2; message B { int32 y = 1; } }
        message C { string z = 1; }"#;
    let schema = Schema::parse(schema).unwrap();
    let options = Options { framing: Framing::Auto, ..Options::default() };
    let make = |name| Decoder::protobuf(&schema, name, false, &options);
    let reason = |name, value: &[u8]| push(&mut make(name).unwrap(), Some(value)).map_err(|bad| bad.reason);
    assert_eq!(reason(None, b"\0\0\0\0\x01\0\x08\x01"), Ok(()));
    assert_eq!(reason(Some("C"), b"\0\0\0\0\x01\x02\x02"), Ok(()));
    assert_eq!(reason(Some("p.q.A.B"), b"\0\0\0\0\x01\x04\0\0\x08\x01"), Ok(()));
    assert_eq!(reason(Some("A.B"), b"\0\0\0\0\x01\0"), Err("it is a p.q.A, and p.q.A.B is read".into()));
    assert_eq!(reason(None, b"\0\0\0\0\x01\x02\x06"), Err("its schema has no message of indexes [3]".into()));
    assert_eq!(reason(None, b"\0\0\0\0\x01"), Err("no message indexes follow the schema's id".into()));
    assert_eq!(make(Some("D")).unwrap_err().to_string(), "there is no message D; the file has p.q.A, p.q.C");
    // With `by_id`, only ids of added schemas are known.
    let mut decoder = Decoder::protobuf(&schema, None, true, &options).unwrap();
    let other =
        Schema::parse("syntax = 'proto3'; package p.q; message B {} message A { string w = 9; int64 x = 1; }").unwrap();
    decoder.add_protobuf_writer(SchemaId::Id(2), &other);
    decoder.refuse_writer(SchemaId::Id(3), "no");
    let values: [&[u8]; 4] =
        [b"\0\0\0\0\x02\x02\x02\x08\x07", b"\0\0\0\0\x02\x02\x02\x08\x08", b"\0\0\0\0\x02\0", b"\0\0\0\0\x03\0"];
    let (array, bad) = decode(&mut decoder, values.map(Some));
    assert_eq!(shown(&array)[..2], [r#"{"m":[],"x":7}"#, r#"{"m":[],"x":8}"#]);
    let reasons: Vec<_> = bad.iter().map(|bad| (bad.row, bad.schema, &*bad.reason)).collect();
    assert_eq!(
        reasons,
        [(2, Some(SchemaId::Id(2)), "it is a p.q.B, and p.q.A is read"), (3, Some(SchemaId::Id(3)), "no")]
    );
    assert!(push(&mut decoder, Some(b"\0\0\0\0\x04\0")).unwrap_err().reason.contains("no writer's schema"));
    // The header contains the message indexes, so the value has no prefix.
    assert!(decoder.push(Some(b"\x08\x07"), Some(b"\0\0\0\0\x02\x02\x02")).is_ok());
}

#[test]
fn schema_errors_have_a_position() {
    for (schema, text) in [
        ("message M { int32 a = 1 }", "line 1: ';' is expected, not '}'"),
        ("\n/* x\n*/ message M { foo.Bar a = 1; }", "field M.a: there is no type foo.Bar"),
        (
            "import 'x.proto'; message M { X a = 1; }",
            "field M.a: there is no type X here, nor in the imports that are given, of x.proto",
        ),
        ("message M { int32 a = 0; }", "field M.a: 0 is no field number"),
        ("message M { int32 a = 1; int64 b = 1; }", "message M has two fields of number 1"),
        ("message M { int32 a = 1; int64 a = 2; }", "message M has two fields a"),
        ("message M {} message M {}", "M is declared twice"),
        ("message M { map<double, int32> a = 1; }", "keys of maps are integers, booleans or text"),
        ("syntax = 'proto4';", "line 1: there is no syntax \"proto4\""),
        ("message M { optional int32 a = 1 [default = x]; }", "is not of the field's type"),
        ("", "the file has no message"),
        ("record M {}", "line 1: \"record\" begins no declaration"),
    ] {
        assert!(error(schema, None, None).contains(text), "{}", error(schema, None, None));
    }
    let deep = format!("{}{}", "message M { ".repeat(70), "}".repeat(70));
    assert!(error(&deep, None, None).contains("nested more than"));
    let chain: String = (0..120).map(|at| format!("message M{at} {{ M{} m = 1; }}", at + 1)).collect();
    assert!(error(&format!("{chain} message M120 {{}}"), None, None).contains("more than 100"));
    let wide = |at: usize| {
        format!("message W{at} {{ {} }}", (1..40).map(|f| format!("W{} f{f} = {f};", at + 1)).collect::<String>())
    };
    let wide: String = (0..6).map(wide).collect();
    assert!(error(&format!("{wide} message W6 {{}}"), None, None).contains("100000 fields in all"));
}

#[test]
fn parses_like_protoc() {
    let schema = r#"// A comment.
        syntax = 'proto3'; package a.b; import public "x.proto"; option java_package = "j"; option (my.opt).x = { a: 1 b: "}" };
        message message { reserved 1 to 3, 9; reserved "old"; extensions 100 to max; option deprecated = true;
            repeated .a.b.message.Kind optional = 10 [json_name = "x", (o) = "y", (p).q = -1e+5, packed=true]; ;
            enum Kind { option allow_alias = true; reserved -1; option = 0; } map<string,other> map = 0x0B; map.x m = 12; }
        message map { message x { int32 v = 01; } } message other {} service S { rpc R (other) returns (stream other) { option x = 1; } }
        extend other { int32 e = 1; }"#;
    assert_eq!(rows(schema, &[b"\x52\x01\0"]), [r#"{"m":null,"map":[],"optional":["option"]}"#]);
    // A descriptor in base64, as some registries store it: f.proto, in proto3, with message M { int32 a = 1; }.
    let descriptor = "CgdmLnByb3RvIg4KAU0SCQoBYRgBIAEoBWIGcHJvdG8z";
    assert_eq!(rows(descriptor, &[b"\x08\x05"]), [r#"{"a":5}"#]);
}
