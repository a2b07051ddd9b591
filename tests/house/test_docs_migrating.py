"""Migration guides: the programs before and after a migration print the same output."""

import re
from pathlib import Path

import pytest

import samsarrow
from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker, Registry
from support.fences import ROOT, fences, run, topics_of

PAGES = {"confluent-kafka.md": "confluent_kafka", "kafka-python.md": "kafka", "aiokafka.md": "aiokafka"}


def sections(page: Path) -> dict[str, list[str]]:
    """Returns the programs of a page by the heading above them."""
    found: dict[str, list[str]] = {}
    headings = [(number, line[3:]) for number, line in enumerate(page.read_text().splitlines(), 1) if line[:3] == "## "]
    for fence in fences(page):
        heading = [name for number, name in headings if number < fence.line][-1]
        found.setdefault(heading, []).append(fence.text)
    return found


PAIRS = [
    (name, heading) for name in PAGES for heading in sections(ROOT / "docs" / "migrating" / name) if heading != "Names"
]


@pytest.mark.parametrize(("name", "heading"), PAIRS)
def test_programs_before_and_after_print_the_same(name: str, heading: str, tmp_path: Path) -> None:
    pytest.importorskip(PAGES[name], reason=f"{PAGES[name]} is not installed")
    if heading == "Serializers":
        pytest.importorskip("confluent_kafka.schema_registry.avro", reason="confluent-kafka[avro] is not installed")
    page = ROOT / "docs" / "migrating" / name
    programs = sections(page)
    # Program that writes the records before the programs under "Consume" read them.
    fill = [programs["Produce"][0]] if heading == "Consume" else []

    def output(program: str) -> str:
        """Runs a program with a new broker and returns its output."""
        topics = dict.fromkeys(re.findall(r"--topic (\w+):1", page.read_text()), 1)
        assert topics_of(page.read_text()).items() <= topics.items()
        with Broker(topics=topics) as broker, Registry() as registry:
            addresses = {"broker": broker.bootstrap_servers, "registry": registry.url, "strict": False}
            for one in fill:
                run(one, tmp_path, **addresses)
            return run(program, tmp_path, **addresses)

    before, *after = programs[heading]
    expected = output(before)
    assert expected
    assert after
    assert [output(program) for program in after] == [expected] * len(after)


COMMITS = re.compile(r"`((?:commit|commit_async|store_offsets)\([^`]*\))`")


def names() -> list[tuple[str, str]]:
    """Returns the page and the last cell of every row in the tables of names."""
    cells = []
    for name in PAGES:
        table = (ROOT / "docs" / "migrating" / name).read_text().partition("\n## Names\n")[2]
        rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
        cells += [(name, row[-1].rstrip(" |")) for row in rows[1:]]
    return cells


def test_commit_calls_in_the_tables_of_names_work() -> None:
    calls = {call for _, cell in names() for call in COMMITS.findall(cell)}
    assert {"commit(record)", "commit(batch)"} <= calls
    partition = TopicPartition("t", 0)
    options = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with Broker(topics={"t": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(5):
                producer.send("t", "x")
        for call in sorted(calls):
            with Consumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
                consumer.assign([partition])
                consumer.seek(partition, 0)
                batch = consumer.poll(10)
                consumer.seek(partition, 0)
                record = next(iter(consumer.records(10)))
                known = {"consumer": consumer, "batch": batch, "record": record, "offset": 3}
                eval("consumer." + call.replace("(…)", "('t', 0)"), known | {"TopicPartition": TopicPartition})
                committed = consumer.committed([partition])[partition]
                assert committed is not None, call
                assert committed.offset == {"record": 1, "batch": batch.num_rows}.get(call[7:-1], 3), call


def test_names_in_the_tables_exist() -> None:
    homes = [samsarrow, *(getattr(samsarrow, kind) for kind in samsarrow.__all__)]
    absent = []
    for page, cell in names():
        for text in re.findall(r"`([^`]+)`", cell):
            found = re.match(r"(?:\w+\.)?([A-Za-z_]+)\(", text)
            if found and not any(hasattr(home, found[1]) for home in homes):
                absent.append(f"{page}: {text}")
    assert not absent
