"""docs/logging.md: the loggers and the lines of a join that it shows."""

import logging
import re
from collections import Counter

from samsarrow import Producer, _core
from samsarrow.testing import Broker
from support.fences import ROOT, fences
from support.log_lines import member_lines

PAGE = ROOT / "docs" / "logging.md"


def join_lines() -> list[str]:
    """Returns the lines of a consumer that joins, polls, commits and closes."""
    with Broker(topics={"orders": 2}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"1", partition=0).result(10)
        return member_lines(broker.bootstrap_servers, logging.DEBUG)


def test_the_join_on_the_page_is_one() -> None:
    (shown,) = [one.text.splitlines() for one in fences(PAGE) if one.text.startswith("DEBUG ")]
    lines = join_lines()
    missing = Counter(shown) - Counter(lines)
    assert not missing, "\n".join(["run `python tests/house/test_docs_logging.py`", *missing, "", *lines])
    # The lines of one logger have a fixed order, except those about two partitions.
    for logger in ("metadata", "group"):
        ours = [line for line in lines if f" samsarrow.{logger}: " in line]
        page = [line for line in shown if f" samsarrow.{logger}: " in line]
        assert sorted(page, key=ours.index) == page


def test_every_logger_is_on_the_page() -> None:
    named = set(re.findall(r"^\| `(samsarrow\.\w+)`", PAGE.read_text(), re.MULTILINE))
    assert named == set(_core.loggers()) - {"samsarrow"}


if __name__ == "__main__":
    text = PAGE.read_text()
    start = text.index("```text\n", text.index("## A join")) + len("```text\n")
    end = text.index("```", start)
    PAGE.write_text(text[:start] + "\n".join(join_lines()) + "\n" + text[end:])
