"""The pages for those who come from other clients: programs before and after print the same."""

import re
from pathlib import Path

import pytest

from samsarrow.testing import Broker, Registry
from support.fences import ROOT, fences, run, topics_of

PAGES = {"confluent-kafka.md": "confluent_kafka", "kafka-python.md": "kafka", "aiokafka.md": "aiokafka"}


def sections(page: Path) -> dict[str, list[str]]:
    """Its programs by heading."""
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
    # What is there to read.
    fill = [programs["Produce"][0]] if heading == "Consume" else []

    def printed(program: str) -> str:
        """By a program, on a broker of its own."""
        topics = dict.fromkeys(re.findall(r"--topic (\w+):1", page.read_text()), 1)
        assert topics_of(page.read_text()).items() <= topics.items()
        with Broker(topics=topics) as broker, Registry() as registry:
            places = {"broker": broker.bootstrap_servers, "registry": registry.url, "strict": False}
            for one in fill:
                run(one, tmp_path, **places)
            return run(program, tmp_path, **places)

    before, *after = programs[heading]
    wanted = printed(before)
    assert wanted
    assert after
    assert [printed(program) for program in after] == [wanted] * len(after)
