"""Measured numbers: texts and the chart agree with the tables of docs/benchmarks.md, and ratios with rates."""

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from support.benchmarks import PAGE, Table, digits, number, sections, tables
from support.fences import ROOT, pages
from support.tuning_numbers import effects

READ = "A topic into Arrow"
WRITE = "An Arrow table into a topic"
CPU = "CPU, µs per record"
RESULTS = ROOT / "docs" / "benchmarks.json"


def ratio(table: Table, column: str, slow: str, fast: str) -> float:
    return number(table.cell(slow, column)) / number(table.cell(fast, column))


def claims() -> dict[str, list[str]]:
    """Returns the sentences with measured numbers, as the tables have them, by page."""
    read, write = tables(READ)[0], tables(WRITE)[0]
    loops, values, spark = tables("Event loops")[0], tables("Typed values")[0], tables("Spark")[0]
    by_call = ratio(write, "records/s", "samsarrow, `send_batch`", "samsarrow, `send`")
    cpu_by_call = ratio(write, CPU, "samsarrow, `send`", "samsarrow, `send_batch`")
    by_produce = [
        ratio(write, CPU, "confluent-kafka, `produce`", client)
        for client in ("samsarrow, `send`", "samsarrow, `send_batch`")
    ]
    beyond = number(read.cell("samsarrow", CPU, of="100 B")) - number(read.cell("raw loop", CPU, of="100 B"))
    rates = spark.rows[: [row[0] for row in spark.rows].index("**milliseconds**")]
    python, jvm = ([re.findall(r"\(([\d.]+) ×\)", row[column])[0] for row in rates] for column in (2, 3))
    reads = read.cell("samsarrow", "× confluent-kafka", of="100 B")
    writes, cost = write.cell("samsarrow, `send_batch`", "× confluent-kafka"), read.cell("samsarrow", CPU, of="100 B")
    fastest = (
        f"samsarrow reads a topic into Arrow {reads} times as fast as confluent-kafka, and writes an Arrow table "
        f"{writes} times as fast. Reading a record takes {cost} µs of CPU."
    )
    loop = f"{by_call:.1f} times as fast as a loop over `send`, and takes a {cpu_by_call:.0f}th of its CPU time"
    return {
        "README.md": [fastest],
        "docs/index.md": [fastest],
        "docs/produce.md": [loop],
        "docs/migrating/confluent-kafka.md": [loop],
        "docs/migrating/spark-sql-kafka.md": [
            f"{min(python, key=float)} to {max(python, key=float)} times in Python, {min(jvm, key=float)} to "
            f"{max(jvm, key=float)} times in the JVM"
        ],
        "docs/asyncio.md": [
            f"{loops.cell('deliveries awaited after `send`', CPU)} µs of CPU per record. `send_and_wait` in a `gather` "
            f"takes {loops.cell('10,000 awaited sends at a time (`gather`)', CPU)} µs"
            for loops in [Table(loops.head, [row for row in loops.rows if row[1] == "samsarrow"])]
        ],
        "docs/compared.md": [
            f"| {' | '.join(table.cell(client, column, **of) for client in clients)} |"
            for table, column, clients, of in (
                (read, "records/s", ("samsarrow", "confluent-kafka", "aiokafka"), {"of": "100 B"}),
                (read, CPU, ("samsarrow", "confluent-kafka", "aiokafka"), {"of": "100 B"}),
                (write, "records/s", ("samsarrow, `send_batch`", "confluent-kafka, out of a table", "aiokafka"), {}),
                (write, "records/s", ("samsarrow, `send`", "confluent-kafka, `produce`"), {}),
            )
        ],
        "docs/tuning.md": [loop, *effects().values()],
        "docs/values.md": [
            f"{number(values.rows[1][2]) / number(values.rows[0][2]):.2f} times the CPU time for two of eight fields"
        ],
        "docs/benchmarks.md": [
            f"`send` needs {by_produce[0]:.1f} times less than confluent-kafka's `produce`, and `send_batch` needs "
            f"{by_produce[1]:.0f} times less",
            f"{beyond:.3f} µs per record more than the raw loop",
        ],
    }


@pytest.mark.parametrize("page", claims())
def test_sentences_have_the_numbers_of_the_tables(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [sentence for sentence in claims()[page] if sentence not in text] == []


# Phrases of measurements. Sizes, times that are options and numbers of calls have other ones.
MEASURED = re.compile(
    r"[\d.]+ times (?:as |the |in |less|faster)|[\d.]+ ×|[\d.]+ µs|[\d.]+ ?M? records/s|orders? of magnitude"
    r"|(?:third|quarter|half|fifth)s? (?:of )?(?:the )?(?:time|cost|CPU)",
)


@pytest.mark.parametrize("path", [path for path in pages() if path != PAGE], ids=lambda path: path.stem)
def test_other_pages_have_no_other_measured_numbers(path: Path) -> None:
    page = str(path.relative_to(ROOT))
    text = path.read_text()
    for sentence in claims().get(page, []):
        text = text.replace(sentence, "")
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert MEASURED.findall(text) == [], "add the sentence to `claims`, computed from a table of docs/benchmarks.md"


def test_each_section_names_its_command_and_files() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for title, text in sections().items():
        first = text.strip().partition("\n")[0]
        assert first.startswith("*Measured by `make "), f"{title}: begin with *Measured by `make …`: `file`*"
        for target in re.findall(r"`make ([\w-]+)`", first):
            assert f"\n{target}:" in makefile, f"{title}: make {target}"
        files = re.findall(r"`((?:benches|rust)/[^`]+)`", first)
        assert files, title
        assert [file for file in files if not (ROOT / file).exists()] == [], title


@pytest.mark.parametrize(("section", "peer"), [(READ, "confluent-kafka"), (WRITE, "confluent-kafka, out of a table")])
def test_ratios_follow_from_rates(section: str, peer: str) -> None:
    table = tables(section)[0]
    grouped = table.head[0] == "topic"
    for row in table.rows:
        of = row[0] if grouped else ""
        cells = dict(zip(table.head, row, strict=True))
        bases = {
            "× confluent-kafka": peer,
            "of the raw loop": "raw loop" if grouped else "one prepared request resent, no client",
        }
        for column, base in bases.items():
            untuned = f"{base}{DEFAULTS}"
            if (row[1] if grouped else row[0]).endswith(DEFAULTS) and any(untuned in other[:2] for other in table.rows):
                base = untuned
            exact = number(cells["records/s"]) / number(table.cell(base, "records/s", of=of))
            # Rates are rounded to four digits, and ratios are of the exact rates.
            assert number(cells[column]) == pytest.approx(exact, rel=0.01, abs=0.51 * 10 ** -digits(cells[column])), row


# Benches and clients of the tables in the file of results.
BENCHES = {
    "100 B": "consume 100B none",
    "1 KB": "consume 1KB none",
    "JSON, lz4": "consume json lz4",
    "JSON, zstd": "consume json zstd",
}
CLIENTS = {
    "raw loop": "raw",
    "samsarrow": "ours",
    "confluent-kafka": "confluent",
    "aiokafka": "aio",
    "Java, no Arrow": "java, no Arrow",
    "samsarrow, `send_batch`": "ours",
    "one prepared request resent, no client": "raw",
    "confluent-kafka, out of a table": "confluent",
}
SENDS = {"samsarrow, `send`": "ours", "confluent-kafka, `produce`": "confluent"}
# Rows of clients that have their defaults end in this text.
DEFAULTS = ", defaults"


def results_of(section: str, row: list[str]) -> tuple[str, str]:
    """Returns the bench and the client of a row."""
    title = row[1] if section == READ else row[0]
    name, ways = title.removesuffix(DEFAULTS), DEFAULTS if title.endswith(DEFAULTS) else ""
    if section == READ:
        return BENCHES[row[0]], CLIENTS.get(name, name) + ways
    if name in SENDS:
        return "send 100B, a call a record", SENDS[name] + ways
    return "produce 100B", CLIENTS[name] + ways


@pytest.mark.parametrize("section", [READ, WRITE])
def test_tables_have_the_medians_of_the_file_of_results(section: str) -> None:
    if not RESULTS.exists():
        pytest.skip("`make bench-python` has not written docs/benchmarks.json yet")
    assert differences(section, json.loads(RESULTS.read_text())["medians"]) == []


def differences(section: str, medians: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    table = tables(section)[0]
    columns = {"records/s": "records_per_second", CPU: "cpu_us_per_record"}
    columns |= {"peak RSS, MiB": "peak_rss_mib"} if section == READ else {}
    found = []
    for row in table.rows:
        bench, client = results_of(section, row)
        for column, name in columns.items():
            cell, exact = row[table.head.index(column)], medians[bench][client][name]
            if number(cell) != pytest.approx(exact, rel=0.0006, abs=0.51 * 10 ** -digits(cell)):
                found.append(f"{row[0]} {row[1]}: {column} is {cell}, and {exact} in {RESULTS.name}")
    return found


def test_differences_from_the_file_of_results_are_listed() -> None:
    medians: dict[str, dict[str, dict[str, float]]] = {"produce 100B": {}, "send 100B, a call a record": {}}
    for row in tables(WRITE)[0].rows:
        bench, client = results_of(WRITE, row)
        medians[bench][client] = {"records_per_second": number(row[1]), "cpu_us_per_record": number(row[2])}
    assert differences(WRITE, medians) == []
    medians["produce 100B"]["ours"]["records_per_second"] *= 1.01
    assert len(differences(WRITE, medians)) == 1


def test_chart_shows_the_table() -> None:
    texts = [text.text or "" for text in ET.parse(ROOT / "docs" / "benchmarks.svg").iter() if text.tag.endswith("text")]
    panels = {"100 random bytes a record": "100 B", "1,000 random bytes a record": "1 KB"}
    panels |= {f"JSON, {codec}": f"JSON, {codec}" for codec in ("lz4", "zstd")}
    table = tables(READ)[0]
    shown: list[tuple[str, str, str]] = []
    topic = ""
    for text, value in pairwise(texts):
        topic = panels.get(text, topic)
        if topic and re.fullmatch(r"\d+\.\d\d", value):
            shown.append((topic, text.replace("raw loop, no Arrow", "raw loop"), value))
    # `f"{x:.2f}"` of the exact rate, of which the table has four digits.
    expected = [(row[0], row[1], number(row[2]) / 1e6) for row in table.rows if not row[1].endswith(DEFAULTS)]
    assert [(topic, client) for topic, client, _ in sorted(shown)] == [
        (topic, client) for topic, client, _ in sorted(expected)
    ]
    for (_, client, value), (_, _, exact) in zip(sorted(shown), sorted(expected), strict=True):
        assert float(value) == pytest.approx(exact, abs=0.0101), client
