"""`send_batch(value_format=...)`: columns of any type as values, encoded by Arrow's own writers."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.exceptions import ConfigurationError, KafkaError, MessageTooLargeError

NOON = datetime(2024, 2, 29, 12, 0, 0, 250_000)
LONG = "longer than what a view holds inline"
NESTED = [{"a": 1, "b": [1.5, None]}, None, {"a": None, "b": None}, {"a": -1, "b": []}]
NESTED_TYPE = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float32()))])
UNION = pa.UnionArray.from_dense(
    pa.array([0, 1, 1, 0], pa.int8()),
    pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([1, None]), pa.array(["a", LONG])],
)
SPARSE = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", LONG])])
RUNS = pa.RunEndEncodedArray.from_arrays([2, 3, 5], pa.array(["a", None, LONG]))
# A dictionary array with a null index, and with an index that refers to a null in the dictionary.
CODED = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0], pa.int8()), ["a", None, LONG])

# Input arrays with their expected JSON texts.
ARRAYS: dict[str, tuple[pa.Array, list[str | None]]] = {
    "struct": (
        pa.array(NESTED, NESTED_TYPE),
        ['{"a":1,"b":[1.5,null]}', None, '{"a":null,"b":null}', '{"a":-1,"b":[]}'],
    ),
    "int8": (pa.array([-128, None, 127], pa.int8()), ["-128", None, "127"]),
    "uint64": (pa.array([0, 2**64 - 1], pa.uint64()), ["0", "18446744073709551615"]),
    "bool": (pa.array([True, None, False]), ["true", None, "false"]),
    "float": (pa.array([1.5, None, 1e300]), ["1.5", None, "1.0e300"]),
    "text": (pa.array(["", None, 'é "\n']), ['""', None, '"é \\"\\n"']),
    "large text": (pa.array(["x", None], pa.large_string()), ['"x"', None]),
    "text view": (pa.array([LONG, None, "b"], pa.string_view()), [f'"{LONG}"', None, '"b"']),
    "bytes": (pa.array([b"\x00\xff", None, b""]), ['"00ff"', None, '""']),
    "bytes view": (pa.array([LONG.encode(), b"a"], pa.binary_view()), [f'"{LONG.encode().hex()}"', '"61"']),
    "fixed bytes": (pa.array([b"ab", None], pa.binary(2)), ['"6162"', None]),
    "decimal": (
        pa.array([Decimal("12345678901234567890.120"), None, Decimal("-0.001")], pa.decimal128(30, 3)),
        ["12345678901234567890.120", None, "-0.001"],
    ),
    "time of no zone": (pa.array([NOON, None], pa.timestamp("us")), ['"2024-02-29T12:00:00.250"', None]),
    "seconds": (pa.array([0], pa.timestamp("s")), ['"1970-01-01T00:00:00"']),
    "instant": (pa.array([NOON, None], pa.timestamp("ns", "Europe/Berlin")), ['"2024-02-29T12:00:00.250Z"', None]),
    "instant of an offset": (pa.array([NOON], pa.timestamp("ms", "+05:30")), ['"2024-02-29T12:00:00.250Z"']),
    "date": (pa.array([date(2024, 2, 29), None]), ['"2024-02-29"', None]),
    "time": (pa.array([time(1, 2, 3, 4)]), ['"01:02:03.000004"']),
    "duration": (pa.array([timedelta(seconds=90)]), ['"PT90S"']),
    "dictionary": (CODED, ['"a"', None, None, f'"{LONG}"', '"a"']),
    "runs": (RUNS, ['"a"', '"a"', None, f'"{LONG}"', f'"{LONG}"']),
    "nulls": (pa.nulls(2), [None, None]),
    "lists of coded": (
        pa.ListArray.from_arrays([0, 2, 2, 5], CODED),
        ['["a",null]', "[]", f'[null,"{LONG}","a"]'],
    ),
    "views of lists": (
        pa.ListViewArray.from_arrays([2, 0, 1], [2, 0, 2], pa.array(["a", "b", None, LONG])),
        [f'[null,"{LONG}"]', "[]", '["b",null]'],
    ),
    "fixed lists": (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)), ["[1,2]", None, "[3,null]"]),
    "map": (
        pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
        ['{"a":1,"b":null}', None, "{}"],
    ),
    "map of numbers": (
        pa.array([[(1, [True])], [(-2, None)]], pa.map_(pa.int16(), pa.list_(pa.bool_()))),
        ['{"1":[true]}', '{"-2":null}'],
    ),
    "map of days": (pa.array([[(date(2024, 1, 1), 1)]], pa.map_(pa.date32(), pa.int8())), ['{"2024-01-01":1}']),
    "union": (UNION, ["1", '"a"', f'"{LONG}"', None]),
    "sparse union": (SPARSE, ["1", f'"{LONG}"']),
    "coded instants": (
        pa.array([NOON, NOON, None], pa.timestamp("ms", "UTC")).dictionary_encode(),
        ['"2024-02-29T12:00:00.250Z"', '"2024-02-29T12:00:00.250Z"', None],
    ),
    "nothing": (pa.array([], NESTED_TYPE), []),
}


@pytest.fixture
def sent(servers, consumer):
    """Returns a function that sends a table and returns the values that arrive: `sent(table, value_format="json")`."""

    def send(data, **options) -> list[bytes | None]:
        with Producer(bootstrap_servers=servers) as producer:
            start = producer.send("t", b"mark").result(10).offset + 1
            delivery = producer.send_batch("t", data, **options)
            assert sum(r.count for r in delivery.result(10)) == len(delivery)
        consumer.seek(TopicPartition("t", 0), start)
        values: list[bytes | None] = []
        for _ in range(100):
            if len(values) >= len(delivery):
                break
            values += consumer.poll(0.5)["value"].to_pylist()
        return values

    return send


def as_json(values: list[bytes | None]) -> list[str | None]:
    return [None if value is None else value.decode() for value in values]


@pytest.mark.parametrize("kind", ARRAYS)
def test_types_as_json(sent, kind):
    array, texts = ARRAYS[kind]
    assert as_json(sent(pa.table({"value": array}), value_format="json")) == texts
    for text in texts:
        if text is not None and kind != "decimal":
            json.loads(text)
    # A slice has an offset into its buffers, and its child arrays begin before the slice.
    assert as_json(sent(pa.table({"v": array.slice(1)}), value="v", value_format="json")) == texts[1:]


def plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column after decoding, in which dictionaries and run-end encodings are unpacked."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return kind.value_type
    return pa.list_(plain(kind.value_type)) if pa.types.is_list(kind) else kind


@pytest.mark.parametrize("kind", ARRAYS)
def test_types_as_ipc(sent, kind):
    array, _ = ARRAYS[kind]
    for rows in (array, array.slice(1)):
        values = sent(pa.table({"v": rows}), value="v", value_format="ipc")
        assert len(values) == len(rows)
        for expected, value in zip(rows.to_pylist(), values, strict=True):
            if expected is None:
                assert value is None
                continue
            table = pa.ipc.open_stream(value).read_all()
            table.validate(full=True)
            assert table.num_rows == 1
            if pa.types.is_struct(array.type):
                assert table.schema == pa.schema(list(array.type))
                assert table.to_pylist() == [expected]
            else:
                assert table.schema == pa.schema([("v", plain(array.type))])
                [found] = table["v"].to_pylist()
                assert found == expected or (found != found and expected != expected)


def test_values_contain_only_their_own_row(sent):
    """Rows share the buffers of dictionaries, views and slices, but each encoded value contains only the data of its
    own row.
    """
    words = [f"{n:0300}" for n in range(300)]
    shared = [
        pa.array(words).dictionary_encode(),
        pa.array(words, pa.string_view()),
        pa.array([[w] for w in words], pa.list_view(pa.string())),
        pa.array([{"a": [w]} for w in words], pa.struct([("a", pa.list_(pa.string_view()))])),
        pa.UnionArray.from_dense(
            pa.array([0] * 300, pa.int8()), pa.array(range(300), pa.int32()), [pa.array(words), pa.array(words)]
        ),
    ]
    for array in shared:
        for value in sent(pa.table({"value": array}), value_format="ipc"):
            assert value is not None
            assert len(value) < 1500, array.type


@pytest.mark.parametrize("form", ["json", "ipc"])
def test_dictionaries_without_values(sent, form):
    nothing = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    table = pa.table({"value": pa.StructArray.from_arrays([nothing], names=["x"])})
    values = sent(table, value="value", value_format=form)
    if form == "ipc":
        assert [pa.ipc.open_stream(value).read_all().to_pylist() for value in values] == [[{"x": None}]] * 2
    else:
        assert values == [b'{"x":null}'] * 2


def test_several_columns_become_a_struct(sent):
    table = pa.table({"key": ["x", None], "a": [1, None], "b": ["one", "two"], "c": [True, False]})
    assert as_json(sent(table, value=["b", "a"], value_format="json")) == ['{"b":"one","a":1}', '{"b":"two","a":null}']
    [first, _] = sent(table, value=("c", "b"), value_format="ipc")
    assert pa.ipc.open_stream(first).read_all().to_pylist() == [{"c": True, "b": "one"}]


def test_chunked_table_larger_than_buffer_memory(servers, read):
    rows = 30_000
    numbers = pa.chunked_array([range(10_000), range(10_000, 10_007), [], range(10_007, rows)], pa.int64())
    table = pa.table({"n": numbers, "text": [LONG * 10] * rows, "to": [n % 4 for n in range(rows)]})
    with (
        Producer(bootstrap_servers=servers, buffer_memory=1 << 20) as producer,
        Consumer(bootstrap_servers=servers) as consumer,
    ):
        delivery = producer.send_batch("four", table, value=["n", "text"], partition="to", value_format="json")
        assert [(r.partition, r.count) for r in delivery.result(30)] == [(p, rows // 4) for p in range(4)]
        for number, tp in enumerate(consumer.partitions_for("four")):
            consumer.assign([tp])
            consumer.seek(tp, 0)
            values = read(consumer, rows // 4)["value"].to_pylist()
            assert values == [b'{"n":%d,"text":"%s"}' % (n, LONG.encode() * 10) for n in range(number, rows, 4)]


def test_unsupported_data_is_rejected_before_sending(servers):
    lists = pa.map_(pa.list_(pa.int8()), pa.int8())
    good = pa.table({"value": pa.array([1, 2])})
    with Producer(bootstrap_servers=servers) as producer:

        def assert_rejected(match, data, error=ConfigurationError, **options):
            with pytest.raises(error, match=match):
                producer.send_batch("t", data, **options)

        maps = pa.array([[([1], 1)]], lists)
        assert_rejected(r'column "value" is Map.*as json: the keys', pa.table({"value": maps}), value_format="json")
        assert_rejected(
            r"the keys",
            pa.table({"v": pa.array([{"m": None}], pa.struct([("m", lists)]))}),
            value="v",
            value_format="json",
        )
        assert_rejected(r'no column "v" for the value; the data has "value"', good, value="v", value_format="ipc")
        assert_rejected(r'no column "b"', good, value=["value", "b"], value_format="ipc")
        assert_rejected(r'no column "p"', good, partition="p", value_format="ipc")
        assert_rejected(r"value_format='avro' needs a schema: pass Avro\(schema\)", good, value_format="avro")
        assert_rejected(r"several columns .* value_format", good, value=["value"])
        assert_rejected(r"names no columns", good, value=[], value_format="json")
        assert_rejected(
            r"partition 9", pa.table({"value": [1], "p": [9]}), KafkaError, partition="p", value_format="json"
        )
        far = pa.table({"value": pa.array([0, 2**62], pa.timestamp("s"))})
        assert_rejected(r"row 1: .*4611686018427387904", far, value_format="json")
        assert_rejected(
            r"row 0: .*4611686018427387904",
            far.cast(pa.schema([("value", pa.timestamp("s", "UTC"))])).slice(1),
            value_format="json",
        )
        assert producer.send("t", b"first").result(10).offset == 0


def test_oversized_row_stops_send_batch(servers, read, consumer):
    texts = ["x" * 100] * 20_000 + ["y" * 5000] + ["z"]
    with Producer(bootstrap_servers=servers, max_request_size=4000, buffer_memory=1 << 20) as producer:
        with pytest.raises(
            MessageTooLargeError, match=r"stopped at row (\d+): the rows before it were queued.*row 20000"
        ) as caught:
            producer.send_batch("t", pa.table({"value": texts}), value_format="json")
        producer.flush(10)
        sent = int(str(caught.value).partition("stopped at row ")[2].partition(":")[0])
        assert 0 < sent <= 20_000
        assert len(caught.value.delivery) == sent
        assert producer.send("t", b"next").result(10).offset == sent


def test_partitioner_receives_the_encoded_value(servers):
    seen = []

    def choose(topic, key, value, partitions):
        seen.append((key, value))
        return 0 if value is None else json.loads(value)["n"] % partitions

    # The columns of the table have the same names as internal columns of the encoder.
    table = pa.table({"key": ["a"] * 200, "n": range(200), "value": [1] * 200, "partition": [1] * 200})
    with Producer(bootstrap_servers=servers, partitioner=choose) as producer:
        receipts = producer.send_batch("four", table, value=["n"], value_format="json").result(10)
        assert [(r.partition, r.count) for r in receipts] == [(p, 50) for p in range(4)]
        assert seen == [(b"a", b'{"n":%d}' % n) for n in range(200)]
        nested = pa.array([None, {"n": 3}])
        receipts = producer.send_batch("four", pa.table({"value": nested}), value_format="json").result(10)
        assert [(r.partition, r.count) for r in receipts] == [(0, 1), (3, 1)]
        assert len(producer.send_batch("four", pa.table({"value": nested[:0]}), value_format="json")) == 0
        with pytest.raises(ConfigurationError, match='no column "v"'):
            producer.send_batch("four", table, value="v", value_format="json")


def test_timestamp_round_trip(sent):
    now = datetime.now(UTC)
    [text] = as_json(sent(pa.table({"value": pa.array([now], pa.timestamp("us", "Asia/Tokyo"))}), value_format="json"))
    assert datetime.fromisoformat(json.loads(text)) == now


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(("number", "name"), [(float("nan"), "NaN"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_numbers_that_json_does_not_have_are_errors(servers, kind, number, name):
    numbers = pa.array([1.5, number]).cast(kind)
    text = f"row 1.*{name} is not a number of JSON: replace it with null or text"
    with Producer(bootstrap_servers=servers) as producer:
        for column in (numbers, pa.StructArray.from_arrays([numbers], ["x"]), numbers.dictionary_encode()):
            with pytest.raises(ConfigurationError, match=text):
                producer.send_batch("t", pa.table({"value": column}), value_format="json")
        masked = pa.array([1.5, float("nan")], pa.float64(), mask=np.array([False, True]))
        assert masked.null_count == 1
        assert (
            producer.send_batch("t", pa.table({"x": masked}), value=["x"], value_format="json").result(10)[0].count == 2
        )
