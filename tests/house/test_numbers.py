"""Measured numbers: docs/benchmarks.md follows from the file of results; texts and the chart agree with the page."""

import json
import re
import runpy
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from support.benchmarks import PAGE, number, sections, tables
from support.claims import READ, claims
from support.fences import ROOT, pages

BENCHMARKS = runpy.run_path(str(ROOT / "tools" / "benchmarks.py"), run_name="benchmarks")


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


def test_tables_follow_from_the_file_of_results() -> None:
    text = PAGE.read_text()
    assert text == BENCHMARKS["page"](text, json.loads(BENCHMARKS["RESULTS"].read_text())), "run tools/benchmarks.py"


def test_numbers_of_sentences_are_replaced() -> None:
    replaced = BENCHMARKS["replaced"]
    assert replaced("It is 2 times, and 1,000.5 µs.", ["is 3.5 times", "and 7 µs"], "x") == "It is 3.5 times, and 7 µs."
    for text in ("no number", "is 2 times, is 3 times"):
        with pytest.raises(ValueError, match="sentences like"):
            replaced(text, ["is 4 times"], "x")


def test_blocks_of_the_page_are_required() -> None:
    with pytest.raises(ValueError, match="has not one block"):
        BENCHMARKS["page"]("", {})


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
    expected = [
        (row[0], row[1], number(row[2]) / 1e6) for row in table.rows if not row[1].endswith(BENCHMARKS["DEFAULTS"])
    ]
    assert [(topic, client) for topic, client, _ in sorted(shown)] == [
        (topic, client) for topic, client, _ in sorted(expected)
    ]
    for (_, client, value), (_, _, exact) in zip(sorted(shown), sorted(expected), strict=True):
        assert float(value) == pytest.approx(exact, abs=0.0101), client
