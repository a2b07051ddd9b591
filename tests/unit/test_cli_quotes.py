"""Detection of unclosed quotes in CSV, with the input split at every position."""

import csv
import io
import random

import pytest

from samsarrow.cli.produce.quotes import Quotes

CASES = [
    (b'a,"b"\n"c""d",e\n', None),
    (b'a"b,c"\nd,"e"f"g\n', None),
    (b"", None),
    (b'"', 1),
    (b'""', None),
    (b'"""', 1),
    (b'""""', None),
    (b'a\n\n"b\n"" c', 3),
    (b'a,b"\r\nc,"d\r\n', 2),
    (b'"a""\n","b', 2),
]


@pytest.mark.parametrize(("data", "line"), CASES)
def test_the_line_of_an_unclosed_quote(data: bytes, line: int | None) -> None:
    for size in range(1, len(data) + 2):
        quotes = Quotes(0)
        for at in range(0, len(data), size):
            quotes.feed(data[at : at + size])
        assert quotes.unclosed() == line, size


def test_output_of_the_csv_module_has_no_unclosed_quotes() -> None:
    random.seed(7)
    cells = ["", "a", '"', '""', "a,b", "a\nb", '"a"', 'a"', "\r\n"]
    for _ in range(300):
        out = io.StringIO()
        csv.writer(out).writerows(random.choices(cells, k=3) for _ in range(4))
        data = out.getvalue().encode()
        quotes, broken = Quotes(0), Quotes(0)
        cut = random.randrange(len(data) + 1)
        for part in (data[:cut], data[cut:]):
            quotes.feed(part)
            broken.feed(part)
        assert quotes.unclosed() is None, data
        broken.feed(b'x,"open')
        assert broken.unclosed() == data.count(b"\n") + 1, data
