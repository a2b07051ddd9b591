"""Programs of docs/guarantees.md."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()


def program(heading: str) -> str:
    """Returns the Python example under a heading of the page."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0], re.DOTALL)
    return str(code)
