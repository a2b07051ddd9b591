"""Text formats of offsets: round trips, and parse errors with their position in the text."""

import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow.offsets.formats import FORMATS, FormatError, dump, parse

A0, A10, B2 = TopicPartition("a", 0), TopicPartition("a", 10), TopicPartition("b.c_d-e", 2)
FULL = {
    "g": {A0: OffsetAndMetadata(5), A10: OffsetAndMetadata(2**63 - 1, 'x, "y"\nz\r\n;größe ', 4)},
    "h h": {B2: OffsetAndMetadata(0, "", 0)},
}
BARE = {"g": {A0: OffsetAndMetadata(5), A10: OffsetAndMetadata(7)}, "h": {B2: OffsetAndMetadata(0)}}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("explicit", [True, False])
def test_formats_round_trip(form, explicit):
    snapshot = BARE if form == "zookeeper" else FULL
    assert parse(dump(snapshot, form), form if explicit else None) == snapshot
    assert parse(dump({}, form), form) == {}


def test_groups_without_offsets_are_not_written():
    assert [parse(dump({"g": {}}, form)) for form in FORMATS] == [{}, {}, {}]


def test_formats_match_kafkas_tools():
    assert dump(BARE, "zookeeper") == (
        "/consumers/g/offsets/a/0:5\n/consumers/g/offsets/a/10:7\n/consumers/h/offsets/b.c_d-e/2:0\n"
    )
    assert dump(BARE, "csv").splitlines() == [
        "group,topic,partition,offset,leader_epoch,metadata", "g,a,0,5,,", "g,a,10,7,,", "h,b.c_d-e,2,0,,"
    ]  # fmt: skip
    assert parse("a,0,5\na,10,7\n") == {"": BARE["g"]}
    assert parse('"g","a",0,5\n\n"g","a",10,7\n"h","b.c_d-e",2,0\n') == BARE
    assert parse("\n/consumers/g/offsets/a/0:5  \n\n/consumers/g/offsets/a/0:5\n") == {"g": {A0: OffsetAndMetadata(5)}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ("[]", "not JSON of offsets"),
        ('{"version": 2, "groups": {}}', "not JSON of offsets"),
        ('{"version": 1, "groups": {"g": 1}}', "group 'g': must be a list"),
        ('{"version": 1, "groups": {"g": [{}]}}', "group 'g', entry 0: must have topic"),
        ('{"version": 1, "groups": {"g": [{"topic": "t", "partition": true, "offset": 1}]}}', "whole numbers"),
        (
            '{"version": 1, "groups": {"g": [{"topic": "t", "partition": 0, "offset": -1}]}}',
            "offset '-1' is not a number",
        ),
        ('{"version": 1, "groups": {"g": [{"topic": "", "partition": 0, "offset": 1}]}}', "topic is empty"),
        ("a,b", "line 1: 2 columns"),
        ("a,0,1\na,x,5", "line 2: partition 'x' is not a number"),
        ("a,0,9223372036854775808", "line 1: offset '9223372036854775808'"),
        ("a,2147483648,1", "line 1: partition '2147483648'"),
        ("a,٣,1", "line 1: partition '٣'"),
        ("a,0,1\na,0,2", "line 2: a-0 of group '' appears twice with different offsets"),
        ('g,"a,0', "line 1: unexpected end of data"),
        ("/consumers/g/offsets/a/0:5\n/consumers/g/owners/a/0:5", "line 2: '/consumers/g/owners/a/0:5' is not"),
        ("/consumers/g/offsets/a/0:-5", "line 1: .* is not /consumers/GROUP"),
    ],
)
def test_parse_errors_name_the_position(text, message):
    with pytest.raises(FormatError, match=message):
        parse(text)


def test_zookeeper_format_rejects_group_names_with_slashes():
    with pytest.raises(FormatError, match="'a/b' has no path"):
        dump({"a/b": {A0: OffsetAndMetadata(1)}}, "zookeeper")


def test_unknown_formats_are_rejected():
    with pytest.raises(FormatError, match="format 'xml' is not one of json, csv, zookeeper"):
        dump(BARE, "xml")
    with pytest.raises(FormatError, match="format 'xml' is not one of json, csv, zookeeper"):
        parse("", "xml")
