"""Generator of the tables in docs/benchmarks.md, and of sentences in other pages, from docs/benchmarks.json.

`make bench-python` measures, writes the file of results, and runs this. tests/house checks that the pages are current.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "docs" / "benchmarks.json"
DEFAULTS = ", defaults"
TIMES = "×"  # noqa: RUF001 (the page has the sign of multiplication)
PEER = f"{TIMES} confluent-kafka"
Row = Mapping[str, float]
Results = Mapping[str, Any]
Blocks = dict[str, Callable[[Results], str]]

NAMES = {
    "raw": "raw loop",
    "ours": "samsarrow",
    "confluent": "confluent-kafka",
    "aio": "aiokafka",
    "java, no Arrow": "Java, no Arrow",
    "java": "Java",
}


def name(client: str) -> str:
    """Returns the name of a client on the page."""
    bare = client.removesuffix(DEFAULTS)
    return NAMES.get(bare, bare) + client[len(bare) :]


def per_second(row: Row) -> str:
    """Returns records per second with four digits."""
    rate = row["records_per_second"]
    return f"{round(rate, 4 - len(str(round(rate)))):,.0f}"


def cpu(row: Row) -> str:
    """Returns microseconds of CPU per record."""
    micros = row["cpu_us_per_record"]
    return f"{micros:.3f}" if micros < 5 else f"{micros:.2f}"


def rss(row: Row) -> str:
    """Returns the peak of RSS in MiB."""
    return f"{row['peak_rss_mib']:.0f}"


def times(row: Row, base: Row, column: str = "records_per_second") -> str:
    """Returns a ratio with two digits, or with none behind the point from 10 on."""
    ratio = row[column] / base[column]
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [f"| {' | '.join(cells)} |".replace("|  ", "| ") for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def spread(runs: Sequence[float], digits: int = 0) -> str:
    """Returns the range of the runs."""
    return f"{min(runs):,.{digits}f} to {max(runs):,.{digits}f}"


def all_runs(runs: Sequence[float]) -> str:
    """Returns the figure of each run."""
    return ", ".join(f"{run:,.0f}" for run in runs)


READS = {
    "100 B": "consume 100B none",
    "1 KB": "consume 1KB none",
    "JSON, lz4": "consume json lz4",
    "JSON, zstd": "consume json zstd",
}


def reads(results: Results) -> str:
    """Returns the table of clients that read a topic."""
    rows = []
    for topic, bench in READS.items():
        found = results["medians"][bench]
        order = sorted(found, key=lambda client: (client not in ("raw", "ours"), -found[client]["records_per_second"]))
        order.sort(key=lambda client: {"raw": 0, "ours": 1}.get(client, 2))
        for number, client in enumerate(order):
            row = found[client]
            ratio = f"{row['records_per_second'] / found['raw']['records_per_second']:.2f}"
            shared = [per_second(row), cpu(row), rss(row), times(row, found["confluent"]), ratio]
            rows.append(["" if number else topic, name(client), *shared])
    head = ["topic", "client", "records/s", "CPU, µs per record", "peak RSS, MiB", PEER]
    return table([*head, "of the raw loop"], rows)


def read_limits(results: Results) -> str:
    """Returns the sentence on the distance to the raw loop."""
    rows = results["medians"][READS["100 B"]]
    beyond = float(cpu(rows["ours"])) - float(cpu(rows["raw"]))
    return (
        "- 100 B: the broker and the kernel's copying use one core, and decoding uses the other. The client needs "
        f"{beyond:.3f} µs per record more than the raw loop, which discards the bytes.\n"
    )


def kept(results: Results) -> str:
    """Returns the tables of processes that keep what they read."""

    def rows(case: str, clients: Mapping[str, str], *, faults: bool) -> list[list[str]]:
        found = []
        for verb, form in (("kept by a fresh process", "{}"), ("again, let go", "")):
            medians = results["medians"][f"{case}, {verb}"]
            for client, title in clients.items():
                row = medians[client]
                if not form:
                    title = title.split(",")[0] + ", the same process again, keeping nothing"
                    if client not in ("raw", "ours"):
                        continue
                line = [title, per_second(row), cpu(row)]
                line += [f"{row['faults_per_million']:,.0f}"] if faults else []
                found.append([*line, times(row, medians["confluent"])])
        return found

    plain = rows(
        "consume 100B none",
        {
            "raw": "raw loop, a fresh process that keeps all",
            "ours": "samsarrow, the same",
            "confluent": "confluent-kafka, the same",
        },
        faults=True,
    )
    lz4 = rows("consume json lz4", {"ours": "samsarrow, a fresh process that keeps all"}, faults=False)
    head = ["100-byte records", "records/s", "CPU, µs per record"]
    return (
        table([*head, "page faults per million records", PEER], plain)
        + "\n"
        + table(["lz4 JSON", *head[1:], PEER], lz4)
    )


def polls(results: Results) -> str:
    """Returns the cost of few rows a poll, and the table of small record batches."""
    runs = results["measured"]["max.poll.records=500"]
    plain, lz4, zstd = (spread(runs[f"consume {case}"], 2) for case in ("100B none", "json lz4", "json zstd"))
    count = len(runs["consume 100B none"])
    rows = []
    for size in ("1", "10", "100"):
        found = results["medians"][f"consume 100B, {size} a record batch"]
        spent = results["measured"]["CPU of a record batch, µs"][size]
        ratio = spent["confluent"] / spent["ours"]
        cells = [per_second(found["ours"]), f"{spent['ours']:.2f}", times(found["ours"], found["confluent"])]
        rows.append([size, *cells, f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"])
    head = ["records in a record batch", "records/s", "CPU, µs per record batch", PEER, f"{TIMES} in CPU"]
    return (
        f"With `max.poll.records=500`, a poll returns 500 rows. In {count} alternating runs, the rate was {plain} "
        f"times the rate with the default (plain), {lz4} times (lz4 JSON) and {zstd} times (zstd JSON).\n\n"
        + table(head, rows)
    )


def growth(results: Results) -> str:
    """Returns the table of more records and more partitions."""
    rows = []
    by_count, by_partitions = (results["medians"][f"consume 100B by {what}"] for what in ("records", "partitions"))
    for count, row in by_count.items():
        rows.append([f"{count} records, 1 partition", per_second(row), cpu(row), rss(row)])
    for count, row in by_partitions.items():
        plural = "" if count == "1" else "s"
        rows.append([f"3,000,000 records, {count} partition{plural}", per_second(row), cpu(row), rss(row)])
    return table(["", "records/s", "CPU, µs per record", "peak RSS, MiB"], rows)


def latency(results: Results) -> str:
    """Returns the table of latencies between processes."""
    found = results["measured"]["latency"]
    rows = [[name(client), all_runs(runs["p50"]), all_runs(runs["p99"])] for client, runs in found.items()]
    return table(["client", "p50, µs", "p99, µs"], rows)


def values(results: Results) -> str:
    """Returns the table of typed values."""
    peers = {"avro": "AvroDeserializer", "json": "JSONDeserializer", "protobuf": "ProtobufDeserializer"}
    parsers = {"json": "by orjson", "protobuf": "by upb"}
    rows = []
    for form, title in (("avro", "Avro"), ("json", "JSON"), ("protobuf", "Protobuf")):
        found = results["medians"][f"{form} values into columns"]
        slow = found["confluent"]["cpu_us_per_record"]
        named = {"ours": f"{title}, samsarrow", "ours, two fields": "two of the eight fields", "confluent": peers[form]}
        named |= {"confluent, orjson or upb": parsers[form]} if form in parsers else {}
        for client, label in named.items():
            row = found[client]
            ratio = slow / row["cpu_us_per_record"]
            shown = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
            rows.append([label, per_second(row), cpu(row), "" if "two fields" in client else shown])
    return table(["", "records/s", "CPU, µs per record", f"{PEER} (CPU)"], rows)


def writes(results: Results) -> str:
    """Returns the table of clients that write a topic."""
    arrow, calls = results["medians"]["produce 100B"], results["medians"]["send 100B, a call a record"]
    titles = [
        (arrow["ours"], "samsarrow, `send_batch`"),
        (arrow["raw"], "one prepared request resent, no client"),
        (calls[f"ours{DEFAULTS}"], f"samsarrow, `send`{DEFAULTS}"),
        (calls["ours"], "samsarrow, `send`"),
        (arrow[f"confluent{DEFAULTS}"], f"confluent-kafka, out of a table{DEFAULTS}"),
        (arrow["confluent"], "confluent-kafka, out of a table"),
        (calls[f"confluent{DEFAULTS}"], f"confluent-kafka, `produce`{DEFAULTS}"),
        (calls["confluent"], "confluent-kafka, `produce`"),
        (arrow["aio"], "aiokafka"),
    ]
    rows = []
    for row, title in titles:
        ratio = f"{row['records_per_second'] / arrow['raw']['records_per_second']:.2f}"
        rows.append([title, per_second(row), cpu(row), times(row, arrow["confluent"]), ratio])
    by_send, by_batch = (float(cpu(calls["confluent"])) / float(cpu(row)) for row in (calls["ours"], arrow["ours"]))
    first = results["measured"]["first sends"]
    first_ours, first_peer = (
        spread([run / 1000 for run in first[client + DEFAULTS]["arrived"]], 1) for client in ("ours", "confluent")
    )
    return (
        table(["client", "records/s", "CPU, µs per record", PEER, "of the raw loop"], rows)
        + "\nThe broker shares the two cores with the client. The loop without a client is a Python program that sends "
        "one prepared request of 9,000 records again and again: it shows the cost of the bytes, and is no upper limit "
        f"for the rate. CPU per record shows how the clients differ: `send` needs {by_send:.1f} times less than "
        f"confluent-kafka's `produce`, and `send_batch` needs {by_batch:.0f} times less. With the defaults of both "
        f"clients, the first 500,000 calls of a process are acknowledged at {first_ours} M per second, and those of "
        f"confluent-kafka at {first_peer} M.\n"
    )


def columns(results: Results) -> str:
    """Returns the table of keys, partitions and codecs."""
    rows = []
    kinds = {
        "100,000 keys": "100,000 keys",
        "a column of partitions": "a column of partitions",
        "both": "100,000 keys and a column of partitions",
    }
    for title, kind in kinds.items():
        for codec in ("none", "lz4"):
            found = results["medians"][f"send_batch 100B {codec}, {kind}, 12 partitions"]
            cells = [per_second(found["ours"]), cpu(found["ours"]), times(found["ours"], found["confluent"])]
            rows.append([title if codec == "none" else "", codec, *cells])
    head = ["`send_batch` of a table with", "codec", "records/s", "CPU, µs per record", PEER]
    codec = results["measured"]["send_batch by codec"]
    return (
        table(head, rows) + f"\nFor a JSON table, a compressed `send_batch` takes {codec['lz4']:.2f} times (lz4) and "
        f"{codec['zstd']:.2f} times (zstd) the CPU time of the codec alone.\n"
    )


def single(results: Results) -> str:
    """Returns the table of single records that are waited for."""
    rows = []
    for client, found in results["measured"]["a record at a time"].items():
        title = "samsarrow, in three runs" if client == "ours" else name(client)
        rows.append([title, *(all_runs(found[p]) for p in ("p50", "p95", "p99"))])
    return table(["client", "p50, µs", "p95, µs", "p99, µs"], rows)


def loops(results: Results) -> str:
    """Returns the table of event loops."""

    def run(verb: str, client: str) -> Row:
        found: Row = results["measured"][f"event loop, {verb}"][client]
        return found | {
            "records_per_second": found["rows"] / found["seconds"],
            "cpu_us_per_record": found["cpu"] / found["rows"] * 1e6,
        }

    def woken(row: Row) -> str:
        return f"{row['wakes']:,.0f} wake-ups for {row['requests']:,.0f} requests"

    rows = []

    def add(what: str, client: str, title: str, verb: str, base: Row | None = None) -> Row:
        row = run(verb, client)
        last = woken(row) if "wakes" in row else f"{times(base, row)} {TIMES}" if base else ""
        rows.append([what, title, per_second(row), cpu(row), last])
        return row

    for verb, what in (
        ("send", "10,000 awaited sends at a time (`gather`)"),
        ("deliveries", "deliveries awaited after `send`"),
    ):
        for ways in (DEFAULTS, ""):
            ours = add("" if not ways else what, f"ours{ways}", f"samsarrow{ways}", verb)
            add("", f"aiokafka{ways}", f"aiokafka{ways}", verb, ours)
        if verb == "send":
            add("", "asyncio", "asyncio alone, without a client", verb)
    ours = add("`records()`", "ours", "samsarrow, awaited", "records")
    blocking = add("", "blocking", "samsarrow, blocking", "records")
    add("", "aiokafka", "aiokafka", "records", ours)
    add("", "confluent", "confluent-kafka, blocking", "records", blocking)
    awaited, plain = run("batches", "ours"), run("batches", "blocking")
    rows.append(
        [
            "batches",
            "samsarrow, awaited and blocking",
            f"{per_second(awaited)} and {per_second(plain)}",
            f"{cpu(awaited)} and {cpu(plain)}",
            "",
        ]
    )
    waited = results["measured"]["event loop, a record at a time"]
    alone, blocked, peer = (
        spread([run for ways in (DEFAULTS, "") for run in waited[client + ways]["p50"]])
        for client in ("ours", "blocking", "aiokafka")
    )
    return (
        table(["what", "client", "records/s", "CPU, µs per record", "samsarrow is"], rows)
        + f"\nOne awaited send on its own takes {alone} µs (median of each run, with defaults and tuned), a blocking "
        f"send takes {blocked} µs, and a send with aiokafka takes {peer} µs.\n"
    )


def groups(results: Results) -> str:
    """Returns the table of rebalances and commits."""
    found, commits = results["measured"]["rebalance"], results["measured"]["commits per second"]
    embedded = found["embedded broker"]
    sent = ", ".join(f"{embedded['requests'].get(api, 0)} {api}" for api in ("JoinGroup", "SyncGroup", "Heartbeat"))
    rows = [
        ["ten members, embedded broker", f"{embedded['seconds']:.2f} s ({sent} requests)"],
        ["ten members, Apache Kafka", f"{found['Kafka']['seconds']:.2f} s"],
        ["ten members of the Java client in one JVM, Apache Kafka", f"{found['Java']['seconds']:.2f} s"],
    ]
    rows += [
        [f"commits, {name(client)}", f"{spread([round(run, -1) for run in runs])} per second"]
        for client, runs in commits.items()
    ]
    return table(["", ""], rows)


def segments(results: Results) -> str:
    """Returns the table of log segments."""
    arrow, text = results["medians"]["segment into Arrow"], results["medians"]["segment, record by record as text"]
    rows = []
    for way, title in (
        ("view map", "`view`, mapped"),
        ("view copy", "`view`, copied"),
        ("binary map", "`binary`, mapped"),
        ("binary copy", "`binary`, copied"),
    ):
        rows.append([f"`read_segment`, {title}", per_second(arrow[way]), cpu(arrow[way])])
    for tool, title in (("dump-log", "`samsarrow dump-log --deep`"), ("DumpLogSegments", "Kafka's DumpLogSegments")):
        rows.append([title, per_second(text[tool]), cpu(text[tool])])
    return table(["", "records/s", "CPU, µs per record"], rows)


def commands(results: Results) -> str:
    """Returns the table of the command line."""
    found = results["measured"]["command line"]
    after = results["measured"].get("command line after the start", {})
    rows = []
    for form, title in (
        ("value", "`consume --format value`"),
        ("ndjson", "`consume --format ndjson`"),
        ("csv", "`consume --format csv`"),
        ("parquet, none", "`consume -O x.parquet -z none`"),
        ("parquet, snappy", "`consume -O x.parquet`"),
    ):
        if form not in found:
            continue
        ours = found[form]["ours"]
        peers = [(peer, rate) for peer, rate in found[form].items() if peer != "ours"]
        shown = f"{ours / peers[0][1]:.1f} {TIMES} {peers[0][0]}" if peers else ""
        rates = [ours, *([after[form]["ours"]] if after else [])]
        rows.append([title, *(f"{round(rate, -4):,.0f}" for rate in rates), shown])
    return table(["", "records/s", *(["after the start"] if after else []), "samsarrow is"], rows)


def cores(results: Results) -> str:
    """Returns the table of one core and two."""
    titles = {
        "decode, none": "decoding, a thread per core, plain",
        "decode, zstd": "the same with zstd",
        "64 partitions, none": "64 partitions from Kafka on the same cores, plain",
        "64 partitions, zstd": "the same with zstd",
    }
    rows = []
    for bench, title in titles.items():
        found = results["measured"]["cores"][bench]
        one, two = (f"{round(found[cores], -4):,.0f}" for cores in ("one", "two"))
        rows.append([title, one, two, f"{found['two'] / found['one']:.2f}"])
    return table(["records/s", "on one core", "on two", "ratio"], rows)


BLOCKS: Blocks = {
    "reads": reads,
    "read-limits": read_limits,
    "kept": kept,
    "polls": polls,
    "growth": growth,
    "latency": latency,
    "values": values,
    "writes": writes,
    "columns": columns,
    "single": single,
    "loops": loops,
    "groups": groups,
    "segments": segments,
    "commands": commands,
    "cores": cores,
}


def page(text: str, results: Results) -> str:
    """Returns the page with new text in its blocks."""
    for title, block in BLOCKS.items():
        begin, end = f"<!-- make bench-python, {title}: begin -->\n", f"<!-- make bench-python, {title}: end -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{PAGE.name} has not one block {title!r}: {begin.strip()} … {end.strip()}")
        before, rest = text.split(begin)
        try:
            made = block(results)
        except KeyError as missing:
            # A run of some benches leaves the blocks of the others as they are.
            print(f"{title}: {RESULTS.name} has no {missing}", file=sys.stderr)
            continue
        text = before + begin + made + end + rest.split(end)[1]
    return text


def number_pattern(sentence: str) -> re.Pattern[str]:
    """Returns a pattern of a sentence with any numbers."""
    pieces = re.split(r"\d[\d,]*(?:\.\d+)?", sentence)
    return re.compile(r"\d[\d,]*(?:\.\d+)?".join(re.escape(piece) for piece in pieces))


def replaced(text: str, sentences: Sequence[str], where: str) -> str:
    """Returns the text with the numbers of the sentences, each of which occurs once."""
    for sentence in sentences:
        if sentence in text:
            continue
        found = number_pattern(sentence).findall(text)
        if len(found) != 1:
            raise ValueError(f"{where} has {len(found)} sentences like {sentence!r}: there must be one")
        text = text.replace(found[0], sentence)
    return text


def main() -> None:
    """Writes the page, and the sentences of other pages."""
    results = json.loads(RESULTS.read_text())
    PAGE.write_text(page(PAGE.read_text(), results))
    # The sentences follow from the tables of the page.
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "house")]
    from support.claims import claims

    for path, sentences in claims().items():
        file = ROOT / path
        file.write_text(replaced(file.read_text(), sentences, path))


if __name__ == "__main__":
    main()
