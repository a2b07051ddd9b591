"""Prints measurements of a test in addition to its assertions."""

import sys


def tell(figure: str) -> None:
    """Prints a line, which `pytest -s` and failure reports show."""
    sys.stdout.write(f"{figure}\n")
