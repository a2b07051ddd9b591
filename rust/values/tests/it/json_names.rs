//! Objects in which decoded members are among members that are skipped.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;

use crate::json::{decode_error, decoder, field, list, struct_of};
use crate::random::Random;
use crate::{decode, push};

/// The objects contain the decoded members `a` and `b`, and up to five other members. The other members have more names
/// than can be learned.
#[test]
fn reads_members_among_unread_ones() {
    let kind = struct_of(vec![field("a", DataType::Int64), field("b", DataType::Utf8)]);
    let values =
        ["1", "-2.5e3", "\"te\\\"xt\"", "\"täxt\"", "null", "true", "[{\"a\": [1, \"}\"]}]", "{\"b\":2}", "0.5"];
    let mut random = Random(3);
    let name = |random: &mut Random| match random.below(8) {
        0 => "n\\u0061".to_owned(),
        1 => "ä".to_owned(),
        2 => format!("a{}", "long".repeat(30)),
        3 => format!("x{}", random.below(500)),
        _ => format!("y{}", random.below(5)),
    };
    let (mut texts, mut expected) = (Vec::new(), Vec::new());
    for row in 0..5_000_i64 {
        let mut members: Vec<String> = (0..random.below(6))
            .map(|_| format!("\"{}\":{}", name(&mut random), values[random.below(values.len())]))
            .collect();
        let given = random.below(4) > 0;
        if given {
            members.push(format!("\"{}\": {row}", if random.below(5) == 0 { "\\u0061" } else { "a" }));
        }
        members.push(format!("\"b\" : \"{row}\""));
        if random.below(3) == 0 {
            members.reverse();
        }
        texts.push(format!("{{{}}}", members.join(",")));
        expected.push((given.then_some(row), row.to_string()));
    }
    let (array, bad) = decode(&mut decoder(&kind), texts.iter().map(|text| Some(text.as_bytes())));
    assert_eq!(bad, []);
    let (ids, names) = (array.as_struct().column(0).as_primitive::<Int64Type>(), array.as_struct().column(1));
    for (row, (id, name)) in expected.iter().enumerate() {
        assert_eq!(ids.is_valid(row).then(|| ids.value(row)), *id, "{}", texts[row]);
        assert_eq!(names.as_string::<i32>().value(row), name);
    }
}

/// A skipped member is validated even if its name is already known.
#[test]
fn validates_skipped_members_after_learned_names() {
    let kind = list(struct_of(vec![field("a", DataType::Int64)]));
    // The second skipped member in a row is skipped in another loop than the first.
    for before in ["", "\"m\":\"text\",", "\"m\": 1, "] {
        for wrong in [
            "01",
            "-",
            "1.",
            "1e",
            "tru",
            "nul",
            "\"\\x\"",
            "\"\t\"",
            "[1,]",
            "",
            "}",
            "NaN",
            "+1",
            "1 2",
            "'x'",
            "\"a",
            "\"sixteen bytes...\n\"",
            "\"sixteen bytes..\u{1}\"",
            "true1",
            "\"\\ud800\"",
            "\"a\"\"",
        ] {
            let text = format!("[{{{before}\"n\":1,\"a\":2}},{{{before}\"n\":{wrong},\"a\":3}}]");
            let (path, _) = decode_error(&kind, text.as_bytes());
            assert!(path == "[1]" || wrong == "\"a", "{path} {text}");
        }
        let broken = format!("[{{{before}\"n\":1,\"a\":2}},{{{before}\"n\":\"fifteen bytes..\u{ff}\",\"a\":3}}]");
        let broken: Vec<u8> = broken.chars().map(|char| char as u8).collect();
        assert_eq!(decode_error(&kind, &broken).0, "[1]");
        for good in [
            "0",
            "-0",
            "12345678",
            "123456789.987654321",
            "-1.5E+9",
            "\"12345678\\n\"",
            "true",
            "null",
            "[]",
            "{}",
            "\"fifteen bytes..\"",
            "\"sixteen bytes...\"",
            "\"sevenn bytes....\"",
            "\"t\u{e4}xt\"",
            "\"\"",
        ] {
            let text = format!(
                "[{{{before}\"n\":1,\"a\":2}},{{{before}\"n\":{good} ,\"a\":3}},{{{before}\"n\":{good},\"a\":4}},\
                 {{{before}\"n\":{good}}}]"
            );
            assert!(push(&mut decoder(&kind), Some(text.as_bytes())).is_ok(), "{text}");
        }
    }
}
