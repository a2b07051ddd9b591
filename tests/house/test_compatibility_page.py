"""The table of docs/compatibility.md shows the newest Kafka first, and versions with equal results in one column."""

from matrix import page, probe


def test_table_is_short_and_newest_first() -> None:
    kinds = {cell: kind for kind, cell in page._CELLS.items()}
    cells = {"0.9.0.1": "no", "2.8.2": "yes", "4.0.2": "yes", "4.3.1": "yes"}
    outcomes = {version: [probe.Outcome("exit", kinds[cell])] for version, cell in cells.items()}
    table = page.kafka_table(outcomes).splitlines()
    assert table[0] == "| | 2.8 to 4.3 | 0.9.0 |"
    assert [line for line in table if "exit code" in line] == ["| the process ends with exit code 0 | yes | no |"]
